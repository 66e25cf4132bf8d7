"""Causes in committed offsets and in the contents of topics: transactions, markers, resets, expiry, retention, and
topics that were created again."""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.clauses import Clause
from groupledger.schemas.kinds.symptoms import BEHIND, GROUP_GONE, NO_PROGRESS, OFFSET_MOVED, READ_TWICE_OR_NEVER
from groupledger.schemas.words import Severity

_LAGGING = (BEHIND, NO_PROGRESS)
_MOVED = (OFFSET_MOVED, READ_TWICE_OR_NEVER)
_OPEN = signs.of_kind(incidents.OPEN_TRANSACTION_IN_TOPIC.name)
_UNREAD = signs.of_kind(incidents.PARTITION_NOT_READ.name)
_AHEAD = signs.of_kind(incidents.COMMIT_AHEAD_OF_END.name)
_TURNS = signs.of_kind(incidents.TWO_COMMITTERS.name)
_UNDO = (
    "If this was a mistake, `groupledger audit` lists it, and its --undo prints the offsets from before it for Kafka's"
    " reset tool."
)
_BY = (
    Clause(" By the request log it was {author}.", needs=(signs.ONE_REQUEST_DID_IT.name,)),
    Clause(" By the request log it was one of these: {author}.", needs=(signs.A_REQUEST_DID_IT.name,)),
)
_REQUESTS = "The request log of that time: who sent it, from which host, as which principal."

OPEN_TRANSACTION = Cause(
    name="open_transaction",
    symptoms=_LAGGING,
    happened="The consumer is healthy: it has read {place} up to the last stable offset {offset}, where a transaction"
    " is open, and {records} records wait for its end.",
    against=(signs.NO_MEMBERS,),
    proved_by=((signs.AT_LAST_STABLE_OFFSET, signs.RECORDS_WAIT), (_OPEN,)),
    advice="Find the producer by DescribeProducers (`kafka-transactions.sh find-hanging`, then `abort` if it hangs),"
    " and let it end its transactions sooner.",
    settings=("transaction.timeout.ms",),
    kind=incidents.OPEN_TRANSACTION_IN_TOPIC.name,
    decided_by="`kafka-transactions.sh describe-producers` on that partition.",
    fault=Fault.PRODUCER,
)
MARKER_AT_END = Cause(
    name="marker_at_end",
    symptoms=_LAGGING,
    happened=(
        "The group has read everything: only a transaction marker",
        Clause(", or records of aborted transactions", needs=(signs.MARKERS_AT_END.name,)),
        ", and no other record, lies after its commit.",
    ),
    against=(signs.LAG_GROWS, signs.AT_LAST_STABLE_OFFSET),
    proved_by=((signs.MARKERS_AT_END, signs.OFFSETS_STAND), (signs.ONE_RECORD_LEFT, signs.HAS_TRANSACTIONS)),
    advice="There is nothing to do. Exclude it from alerts.",
    decided_by="One fetch at the last offset: whether it is a control batch.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
COMMITS_LAST_INSTEAD_OF_NEXT = Cause(
    name="commits_last_instead_of_next",
    symptoms=_LAGGING,
    happened="Every partition stays at a lag of one while no records arrive: the client may commit the offset of the"
    " last record instead of the next one.",
    needs=(signs.ONE_RECORD_LEFT,),
    against=(signs.HAS_TRANSACTIONS, signs.AT_LAST_STABLE_OFFSET, signs.OF_SHARE_GROUP),
    proved_by=((signs.ONE_LEFT_EVERYWHERE,),),
    advice="Commit offset + 1. As it is, the client reads one record of each partition again after a restart.",
    decided_by="One fetch at the last offset: a record shows it, a control batch is a transaction's marker.",
    severity=Severity.INFO,
)
COMMIT_AHEAD_OF_END = Cause(
    name="commit_ahead_of_end",
    symptoms=(*_LAGGING, READ_TWICE_OR_NEVER),
    happened="The committed offset {offset} of {place} lies beyond the end of its log: a consumer that starts there"
    " goes where auto.offset.reset says. Once the log has grown that far, it never reads the records before.",
    against=(signs.LOG_TRUNCATED, signs.TOPIC_RECREATED),
    proved_by=((_AHEAD,), (signs.AHEAD_OF_END,)),
    advice="A mirror or a tool committed it, or the topic was created again: reset the group's offsets on this topic.",
    settings=("auto.offset.reset",),
    kind=incidents.COMMIT_AHEAD_OF_END.name,
    decided_by="Who committed it: the request log, or the tool that mirrors offsets.",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
    harmless=Severity.WARNING,
)
NEW_PARTITION_READ_FROM_LATEST = Cause(
    name="new_partition_read_from_latest",
    symptoms=(READ_TWICE_OR_NEVER, NO_PROGRESS),
    happened="The group started to read a new partition at its end: the records written before were never read.",
    suspected_by=(_UNREAD,),
    proved_by=((_UNREAD,), (signs.PASSED_OVER,)),
    advice="Set auto.offset.reset to earliest. To read the skipped records, reset the group's offset of that"
    " partition.",
    settings=("auto.offset.reset", "metadata.max.age.ms"),
    kind=incidents.PARTITION_NOT_READ.name,
    decided_by="Samples of the topic's end offsets between the partition's creation and its first commit.",
    severity=Severity.ERROR,
)
RESET_AT_REST = Cause(
    name="reset_at_rest",
    symptoms=_MOVED,
    happened="Somebody reset the group's offsets to earlier ones while it had no members: {records} records are read"
    " again.",
    needs=(signs.MOVED_AT_REST,),
    against=(signs.TOPIC_RECREATED, signs.MOVED_REPEATEDLY),
    proved_by=((signs.MOVED_AT_REST,), (signs.MOVED_AT_REST, signs.ONE_REQUEST_DID_IT)),
    by=_BY,
    advice=f"{_UNDO} It leaves out what the group has read up to again.",
    kind=incidents.OFFSET_REWIND.name,
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
)
SKIPPED_AT_REST = Cause(
    name="skipped_at_rest",
    symptoms=_MOVED,
    happened="Somebody moved the group's offsets forward while it had no members: the records between are never read.",
    needs=(signs.SKIPPED_AT_REST,),
    against=(signs.MOVED_REPEATEDLY,),
    proved_by=((signs.SKIPPED_AT_REST,), (signs.SKIPPED_AT_REST, signs.ONE_REQUEST_DID_IT)),
    by=_BY,
    advice="If this was a mistake, read the skipped records with another group: `groupledger audit` lists it, and its"
    " --undo prints their ranges. A reset of this group to its earlier offsets would make it read again all that it has"
    " read since.",
    kind=incidents.OFFSET_SKIP.name,
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
)
MIRROR_MOVES_OFFSETS = Cause(
    name="mirror_moves_offsets",
    symptoms=_MOVED,
    happened="The group's offsets are moved repeatedly while it has no members, as a mirror does on a standby cluster:"
    " nothing is lost.",
    needs=(signs.MOVED_REPEATEDLY,),
    against=(signs.HAS_MEMBERS,),
    proved_by=((signs.MOVED_REPEATEDLY,),),
    advice="Exclude the group from alerts on this cluster, or disable its mirroring (sync.group.offsets.enabled).",
    settings=("sync.group.offsets.enabled",),
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
MEMBER_WENT_BACK = Cause(
    name="member_went_back",
    symptoms=_MOVED,
    happened="A member committed lower offsets than before: it called seek, started over by auto.offset.reset, or"
    " commits late.",
    needs=(signs.MOVED_BY_MEMBER,),
    against=(signs.TOPIC_RECREATED, signs.OFFSETS_EXPIRED, signs.LOG_TRUNCATED, _TURNS),
    proved_by=((signs.of_root(roots.CLIENT_SEEK_OR_RESET),),),
    advice="Check calls of seek, auto.offset.reset, and commits that arrive out of order (commitAsync during a"
    " rebalance).",
    settings=("auto.offset.reset",),
    kind=incidents.OFFSET_REWIND.name,
    decided_by='The client\'s log of that time: "Resetting offset" or a seek.',
)
NEW_OWNER_BEGAN_EARLIER = Cause(
    name="new_owner_began_earlier",
    symptoms=_MOVED,
    happened="Partitions changed owners, and the new owner began before the last commit of the old one: {records}"
    " records are read again.",
    needs=(signs.MOVED_BY_MEMBER,),
    against=(signs.TOPIC_RECREATED, signs.OFFSETS_EXPIRED, signs.LOG_TRUNCATED, _TURNS),
    proved_by=((signs.of_root(roots.HANDOVER),),),
    advice="Commit before partitions are revoked, in the rebalance callback, and do not seek when they are assigned. If"
    " it does both already, the client kept its former position or fetched the committed offset too early: upgrade it.",
    kind=incidents.OFFSET_REWIND.name,
    decided_by="The request log of that time: whether the new owner's OffsetFetch came before the old one's last"
    " commit.",
)
TWO_COMMITTERS = of_incident(incidents.TWO_COMMITTERS, OFFSET_MOVED, decided_by=_REQUESTS)
TOPIC_RECREATED = Cause(
    name="topic_recreated",
    symptoms=(*_MOVED, *_LAGGING),
    happened="A topic of the group was deleted and created again: its offsets start over.",
    needs=(signs.TOPIC_RECREATED,),
    against=(signs.of_kind(incidents.OFFSET_OF_FORMER_TOPIC.name),),
    proved_by=((signs.TOPIC_RECREATED,),),
    advice="Delete a group's offsets together with the topic, so that it starts at the beginning of the new topic.",
    decided_by="The topic ids in samples or commits.",
    fault=Fault.OPERATOR,
)
OFFSET_OF_FORMER_TOPIC = of_incident(
    incidents.OFFSET_OF_FORMER_TOPIC,
    *_MOVED,
    decided_by="The topic ids in samples or commits.",
    fault=Fault.OPERATOR,
)
OFFSETS_EXPIRED = of_incident(
    incidents.OFFSETS_EXPIRED,
    *_MOVED,
    decided_by="The brokers' offsets.retention.minutes, and samples of the topics' end offsets before the group"
    " came back.",
    fault=Fault.OPERATOR,
)
OFFSETS_EXPIRE_SOON = of_incident(
    incidents.OFFSETS_EXPIRE_SOON,
    OFFSET_MOVED,
    decided_by="The brokers' offsets.retention.minutes.",
    fault=Fault.OPERATOR,
)
RETENTION_OVERTAKES = of_incident(
    incidents.RETENTION_OVERTAKES,
    READ_TWICE_OR_NEVER,
    decided_by="Samples of the topics' start offsets.",
    fault=Fault.OPERATOR,
)
PASSED_BY_RETENTION = Cause(
    name="passed_by_retention",
    symptoms=(READ_TWICE_OR_NEVER, *_LAGGING),
    happened="Retention removed records of {place} before the group had read them.",
    needs=(signs.PASSED_BY_RETENTION,),
    against=(signs.TOPIC_RECREATED,),
    proved_by=((signs.PASSED_BY_RETENTION,),),
    advice="Keep records for longer than the group can lag behind, or make it faster. If auto.offset.reset is latest,"
    " it skips what is left of the log, too: set earliest.",
    settings=("retention.ms", "retention.bytes", "auto.offset.reset"),
    kind=incidents.LOST_TO_RETENTION.name,
    decided_by="Samples of the topics' start offsets.",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
)
GROUP_DELETED = Cause(
    name="group_deleted",
    symptoms=(GROUP_GONE, OFFSET_MOVED),
    happened="Somebody deleted the group and all its committed offsets.",
    needs=(signs.GROUP_DELETED,),
    proved_by=((signs.GROUP_DELETED,), (signs.GROUP_DELETED, signs.ONE_REQUEST_DID_IT)),
    by=_BY,
    advice=_UNDO,
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
)
OFFSETS_DELETED = Cause(
    name="offsets_deleted",
    symptoms=(OFFSET_MOVED, READ_TWICE_OR_NEVER),
    happened="Somebody may have deleted committed offsets of {count} partitions.",
    needs=(signs.OFFSETS_DELETED,),
    against=(signs.GROUP_DELETED, signs.TOPIC_DELETED, signs.TOPIC_RECREATED),
    advice=_UNDO,
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
)
TOPIC_DELETED = Cause(
    name="topic_deleted",
    symptoms=(GROUP_GONE, OFFSET_MOVED),
    happened="A topic that the group had read was deleted, and the group's offsets of it as well.",
    suspected_by=(signs.OFFSETS_DELETED,),
    proved_by=((signs.TOPIC_DELETED,), (signs.OFFSETS_DELETED, signs.NO_DELETE_REQUEST)),
    advice="Remove the topic from the group's subscription.",
    decided_by=_REQUESTS,
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
GROUP_EXPIRED = Cause(
    name="group_expired",
    symptoms=(GROUP_GONE, OFFSET_MOVED),
    happened="Kafka expired the group's offsets in {count} partitions, because it had been away for"
    " offsets.retention.minutes.",
    needs=(signs.OFFSETS_EXPIRED,),
    against=(signs.GROUP_DELETED, signs.of_kind(incidents.OFFSETS_EXPIRED.name)),
    proved_by=((signs.OFFSETS_EXPIRED,),),
    advice="If it comes back, auto.offset.reset decides where it starts. `groupledger offsets --at` exports the earlier"
    " offsets: reset to them before it comes back.",
    settings=("offsets.retention.minutes", "auto.offset.reset"),
    decided_by="The brokers' offsets.retention.minutes.",
    fault=Fault.OPERATOR,
)

CAUSES = rows_of(globals(), Cause)
