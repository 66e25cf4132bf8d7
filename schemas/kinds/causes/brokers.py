"""Causes that lie with the brokers: none of them has advice for a client, whose settings are not to blame.

A coordinator that dies, freezes or moves touches all groups of its partitions at once. Where its log shows it, what
members did in that minute says nothing of them.
"""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault
from groupledger.schemas.kinds.symptoms import (
    BEHIND,
    MEMBER_COMES_AND_GOES,
    NO_PROGRESS,
    NOBODY_HAS_PARTITIONS,
    OFFSET_MOVED,
    READ_TWICE_OR_NEVER,
    REBALANCES_GO_ON,
    REQUEST_REFUSED,
)
from groupledger.schemas.words import Severity

COORDINATOR_MOVED = Cause(
    name="coordinator_moved",
    symptoms=(REBALANCES_GO_ON, MEMBER_COMES_AND_GOES, REQUEST_REFUSED, NO_PROGRESS),
    happened="The group's coordinator moved to another broker, or was started again, and forgot what no record held.",
    suspected_by=(signs.COORDINATOR_MOVED, signs.HOSTS_EXPIRED_TOGETHER),
    proved_by=((signs.of_root(roots.COORDINATOR_FAILOVER),), (signs.COORDINATOR_MOVED, signs.WENT_BY_EXPIRY)),
    advice="There is nothing to change in the client: look at that broker.",
    told_apart_by="The server logs of that time of both brokers, and other groups of the same partition of"
    " __consumer_offsets.",
    fault=Fault.BROKERS,
)
OFFSETS_TOPIC_UNAVAILABLE = Cause(
    name="offsets_topic_unavailable",
    symptoms=(NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON, NO_PROGRESS, REQUEST_REFUSED),
    happened="The brokers could not write to __consumer_offsets.",
    suspected_by=(
        signs.of_kind(incidents.ASSIGNMENT_NOT_STORED.name),
        signs.of_kind(incidents.LEADER_NEVER_SYNCED.name),
    ),
    against=(signs.of_root(roots.ASSIGNMENT_TOO_LARGE), signs.BEGAN_WELL),
    proved_by=((signs.of_root(roots.OFFSETS_TOPIC_UNAVAILABLE),),),
    advice="Look at its replicas and at the brokers' disks; there is nothing to change in the client.",
    told_apart_by="The server log of that time, and the metric UnderMinIsrPartitionCount.",
    fault=Fault.BROKERS,
    severity=Severity.ERROR,
    harmless=Severity.ERROR,
)
DATA_LOST = Cause(
    name="data_lost",
    symptoms=(READ_TWICE_OR_NEVER, OFFSET_MOVED, NO_PROGRESS),
    happened="The end of the log of {place} went back: records that the group had read are gone, as after an unclean"
    " election, or when a broker lost its disk.",
    needs=(signs.LOG_TRUNCATED,),
    against=(signs.TOPIC_RECREATED,),
    proved_by=((signs.LOG_TRUNCATED,),),
    advice="Look at unclean.leader.election.enable, at min.insync.replicas and at acks of the producers; then let the"
    " group begin at the new end, or where records came again.",
    settings=("unclean.leader.election.enable", "min.insync.replicas"),
    told_apart_by="The controller's log: an election of a replica that was not in sync.",
    fault=Fault.BROKERS,
    severity=Severity.ERROR,
)
FETCHES_FAIL = Cause(
    name="fetches_fail",
    symptoms=(NO_PROGRESS, BEHIND),
    happened="A leader of {place} may be away or slow, so that nobody can read it.",
    needs=(signs.RECORDS_WAIT, signs.OFFSETS_STAND, signs.ONE_PARTITION_BEHIND),
    against=(signs.AT_LAST_STABLE_OFFSET, signs.ONE_RECORD_LEFT),
    advice="Look at that partition's leader.",
    told_apart_by="A console consumer on that partition: does it read?",
    fault=Fault.BROKERS,
)
CLOCK_WRONG = Cause(
    name="clock_wrong",
    symptoms=(OFFSET_MOVED, BEHIND, NO_PROGRESS),
    happened="Commits of the group carry times that lie days off: a broker's clock, or a client's, is wrong.",
    needs=(signs.COMMIT_TIME_ABSURD,),
    proved_by=((signs.COMMIT_TIME_ABSURD,),),
    advice="Set the clock; times of the group's rows in that time are not to be relied on.",
    told_apart_by="The clocks of the brokers.",
    fault=Fault.BROKERS,
    harmless=Severity.WARNING,
)
OFFSETS_REMOVED_UNSEEN = Cause(
    name="offsets_removed_unseen",
    symptoms=(OFFSET_MOVED,),
    happened="Committed offsets of {count} partitions are gone, and neither their age nor a request says why.",
    needs=(signs.REMOVED_SOMEHOW,),
    advice="Import the brokers' logs of that time, or write the brokers' offsets.retention.minutes into the settings.",
    told_apart_by="offsets.retention.minutes of the brokers, and the request log: DeleteGroups, OffsetDelete and"
    " DeleteTopics.",
    fault=Fault.OPERATOR,
)

CAUSES = rows_of(globals(), Cause)
