"""Causes of lag while members are there: slow, stuck, uneven, or idle because there is nothing to read.

Samples of topic ends and commits show how a group advances, never why its process is slow. So several of these are
rivals that only the process itself, its client's metrics or the broker's request log can separate.
"""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.causes.members import POLL_SETTINGS
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.symptoms import BEHIND, NO_PROGRESS
from groupledger.schemas.words import Severity

_LAGGING = (BEHIND, NO_PROGRESS)
_STANDS = (signs.HAS_MEMBERS, signs.RECORDS_WAIT, signs.OFFSETS_STAND)
_OTHERWISE_STANDING = (
    signs.AT_LAST_STABLE_OFFSET,
    signs.AHEAD_OF_END,
    signs.NOBODY_OWNS,
    signs.UNSUBSCRIBED,
    signs.OWNERS_STOP_AT_ONE_OFFSET,
    signs.MARKERS_AT_END,
    signs.ONE_RECORD_LEFT,
    signs.IN_REBALANCE,
    signs.ONE_CAME_AND_WENT,
    signs.OWNER_GOES_ON,
    signs.FETCHES_THROTTLED,
    signs.OFFSETS_ROLLED_BACK,
    signs.OF_SHARE_GROUP,
)
_REFUSED = (
    signs.of_kind(incidents.OFFSET_METADATA_TOO_LARGE.name),
    signs.of_kind(incidents.TOPIC_NOT_AUTHORIZED.name),
    signs.of_kind(incidents.GROUP_NOT_AUTHORIZED.name),
)
# Kafka Streams commits by itself, and does not start with enable.auto.commit.
_AUTO_COMMIT = Clause("enable.auto.commit", excludes=(Fact.KAFKA_STREAMS,))
_COMMIT_INTERVAL = (
    Clause("auto.commit.interval.ms", excludes=(Fact.KAFKA_STREAMS,)),
    Clause("commit.interval.ms", needs=(Fact.KAFKA_STREAMS,)),
)
_GOES_ON = (signs.HAS_MEMBERS, signs.RECORDS_WAIT, signs.OFFSETS_GO_ON, signs.LAG_GROWS)

CLIENT_QUOTA = Cause(
    name="client_quota",
    symptoms=_LAGGING,
    happened=(
        Clause("A quota of the brokers throttles the fetches of {who}", needs=(signs.FETCHES_THROTTLED.name,)),
        Clause("A quota of the brokers may throttle the fetches of {who}", excludes=(signs.FETCHES_THROTTLED.name,)),
        ": {records} records wait.",
    ),
    needs=(signs.HAS_MEMBERS, signs.RECORDS_WAIT),
    suspected_by=(signs.OFFSETS_GO_ON, signs.FETCHES_THROTTLED),
    against=(signs.ONE_CAME_AND_WENT,),
    proved_by=((signs.FETCHES_THROTTLED,),),
    advice="Raise the quota consumer_byte_rate of its user or client id. If its heartbeats and commits are throttled,"
    " too, raise request_percentage.",
    settings=("consumer_byte_rate",),
    decided_by="The client's metric fetch-throttle-time-avg, or throttled fetches in the broker's request log.",
    fault=Fault.OPERATOR,
)
COMMITS_RARELY = Cause(
    name="commits_rarely",
    symptoms=_LAGGING,
    happened="{who} commits at long intervals, about as long as this: meanwhile records only seem to wait.",
    needs=(signs.HAS_MEMBERS, signs.COMMITS_RARELY),
    against=(*_OTHERWISE_STANDING, signs.MEMBERS_AWAY),
    proved_by=((signs.COMMITS_RARELY,),),
    advice="After a crash, what was read since the last commit is read again: commit more often if that matters.",
    settings=_COMMIT_INTERVAL,
    decided_by="The next commits.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
OUTSIDER_STOPPED = Cause(
    name="outsider_stopped",
    symptoms=_LAGGING,
    happened="The group never had members: a process that assigns partitions to itself, or a tool, committed for it,"
    " and commits no more. {records} records wait.",
    needs=(signs.OUTSIDER_STOPPED,),
    against=(
        signs.AT_LAST_STABLE_OFFSET,
        signs.AHEAD_OF_END,
        signs.MARKERS_AT_END,
        signs.ONE_RECORD_LEFT,
        signs.OF_SHARE_GROUP,
    ),
    proved_by=((signs.OUTSIDER_STOPPED,),),
    advice="A job of Flink or Spark commits when a checkpoint is complete: see whether it runs, and whether its"
    " checkpoints fail. If nobody needs the group any more, delete it.",
    decided_by="The log of that process.",
)
SLOW_BATCH = Cause(
    name="slow_batch",
    symptoms=(NO_PROGRESS,),
    happened="{who} committed nothing for {seconds} s and then went on by itself: a record or a batch took that long,"
    " its partitions were paused, or it commits rarely.",
    needs=(signs.HAS_MEMBERS, signs.WENT_ON),
    against=(*_OTHERWISE_STANDING, signs.SAME_OFFSET_AGAIN, signs.COMMITS_RARELY),
    proved_by=((signs.WENT_ON,),),
    advice="If that is too long, fetch fewer records per poll, and commit after each of them.",
    settings=("max.poll.records",),
    decided_by="The application's log of that time.",
)
ALIVE_AND_NOT_POLLING = Cause(
    name="alive_and_not_polling",
    symptoms=_LAGGING,
    happened="{who} owns partitions and sends heartbeats but commits nothing: {records} records wait for it.",
    needs=_STANDS,
    against=(*_OTHERWISE_STANDING, signs.SAME_OFFSET_AGAIN, signs.INTERVAL_PASSED, signs.OWNER_SILENT),
    proved_by=((signs.WENT_BY_POLL_TIMEOUT, signs.DEPARTURES_LOGGED), (signs.OWNER_CEASED, signs.OWNER_HEARD)),
    advice="Take a thread dump of that process: its polling thread hangs, waits or has died.",
    settings=POLL_SETTINGS,
    decided_by="The client's metric last-poll-seconds-ago, or a thread dump: whether it has polled since.",
    severity=Severity.ERROR,
)
POLLS_WITHOUT_COMMIT = Cause(
    name="polls_without_commit",
    symptoms=_LAGGING,
    happened=(
        "{who} owns partitions and ",
        Clause("polls", needs=(signs.INTERVAL_PASSED.name,)),
        Clause("may be reading", excludes=(signs.INTERVAL_PASSED.name,)),
        ", but commits nothing: if it reads, it reads the same records again after a restart.",
    ),
    needs=_STANDS,
    against=(*_OTHERWISE_STANDING, *_REFUSED, signs.SAME_OFFSET_AGAIN, signs.OWNER_SILENT, signs.OWNER_COMMITS),
    proved_by=((signs.INTERVAL_PASSED,),),
    advice=(
        Clause("Set enable.auto.commit or commit after each batch. ", excludes=(Fact.KAFKA_STREAMS,)),
        Clause(
            "Streams commits by itself once it has processed records: its tasks may restore their state, or wait for"
            " another input (max.task.idle.ms). ",
            needs=(Fact.KAFKA_STREAMS,),
        ),
        "If it commits already, it gets no records: it has paused its partitions, or its fetches fail.",
        " Look in its log.",
    ),
    settings=(_AUTO_COMMIT,),
    decided_by="The client's metrics records-consumed-rate and commit-rate: whether it reads. In a topic with"
    " transactions, a console consumer of committed records: those of aborted transactions reach nobody.",
)
RETRIES_ONE_RECORD = Cause(
    name="retries_one_record",
    symptoms=_LAGGING,
    happened="{who} may try the record at offset {offset} of {place} again and again, or take long for it.",
    needs=_STANDS,
    against=(*_OTHERWISE_STANDING, *_REFUSED, signs.SAME_OFFSET_AGAIN, signs.OWNER_SILENT, signs.OWNER_CEASED),
    advice="Look at that record with a console consumer, and at the application's log.",
    decided_by="The application's log at that offset, and the record itself.",
)
WAITS_FOR_FIRST_RECORD = Cause(
    name="waits_for_first_record",
    symptoms=_LAGGING,
    happened="Members may have started at the end of the log (auto.offset.reset=latest), and no record has arrived"
    " since: there is nothing to commit yet.",
    needs=(signs.NEVER_COMMITTED, signs.HAS_MEMBERS, signs.PRODUCERS_IDLE),
    decided_by="Their auto.offset.reset, and whether they commit the next record.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
NEVER_COMMITS = Cause(
    name="never_commits",
    symptoms=_LAGGING,
    happened="Members own {count} partitions with records, but nothing was ever committed for them.",
    needs=(signs.NEVER_COMMITTED,),
    against=(signs.NO_MEMBERS, signs.OWNER_COMMITS_ELSEWHERE, signs.OFFSETS_ROLLED_BACK, signs.OF_SHARE_GROUP),
    proved_by=((signs.NEVER_COMMITTED, signs.HAS_MEMBERS, signs.LAG_GROWS),),
    advice="It may keep its offsets elsewhere (a database, a checkpoint of Flink or Spark): then monitor those."
    " Otherwise it commits nothing, or its transactions with offsets are rolled back, and a restart begins where"
    " auto.offset.reset says.",
    settings=(_AUTO_COMMIT, "auto.offset.reset"),
    decided_by="The client's metric records-consumed-rate, and where the application keeps its offsets.",
)
ONE_RECORD_STOPS_EVERY_OWNER = Cause(
    name="one_record_stops_every_owner",
    symptoms=(*_LAGGING,),
    happened="Every owner of {place} stops at offset {offset}: it does not get past that record, and {records}"
    " records wait.",
    needs=(signs.OWNERS_STOP_AT_ONE_OFFSET, signs.RECORDS_WAIT),
    against=(signs.AT_LAST_STABLE_OFFSET, signs.AHEAD_OF_END, signs.ONE_RECORD_LEFT, signs.MARKERS_AT_END),
    proved_by=((signs.OWNERS_STOP_AT_ONE_OFFSET,),),
    advice="Look at that record with a console consumer. Let the application set aside records that it cannot process"
    " (a dead letter topic), or reset the group to the next offset.",
    decided_by="The record itself, and the application's log at each restart.",
    severity=Severity.ERROR,
)
COMMITS_ONE_OFFSET_AGAIN = Cause(
    name="commits_one_offset_again",
    symptoms=_LAGGING,
    happened=(
        "{who} ",
        Clause("keeps committing the same offset {offset} of {place}", needs=(signs.SAME_OFFSET_AGAIN.name,)),
        Clause(
            "does not commit {place} any more, which stays at offset {offset}, and goes on in its other partitions",
            excludes=(signs.SAME_OFFSET_AGAIN.name,),
        ),
        ": {records} records wait.",
    ),
    needs=(signs.HAS_MEMBERS,),
    suspected_by=(signs.SAME_OFFSET_AGAIN, signs.OWNER_GOES_ON),
    against=(
        signs.AT_LAST_STABLE_OFFSET,
        signs.AHEAD_OF_END,
        signs.OWNERS_STOP_AT_ONE_OFFSET,
        signs.ONE_RECORD_LEFT,
        signs.MARKERS_AT_END,
        signs.FETCHES_THROTTLED,
    ),
    proved_by=((signs.SAME_OFFSET_AGAIN, signs.OFFSETS_STAND), (signs.OWNER_GOES_ON, signs.OFFSETS_STAND)),
    advice="It polls but does not advance: one record fails and is retried, the partition is paused"
    " (pause()), or its fetches fail or are throttled by a quota. Look at its log, and at max.partition.fetch.bytes.",
    settings=("max.partition.fetch.bytes",),
    decided_by="The application's log at that offset, and the record itself.",
    severity=Severity.ERROR,
)
SLOWER_THAN_PRODUCERS = Cause(
    name="slower_than_producers",
    symptoms=(BEHIND,),
    happened="Producers write faster than the group commits, in all its partitions alike: {records} records wait.",
    needs=(*_GOES_ON, signs.PRODUCERS_FASTER),
    against=(
        signs.ONE_PARTITION_BEHIND,
        signs.ONE_MEMBER_BEHIND,
        signs.UNEVEN_ASSIGNMENT,
        signs.ONE_CAME_AND_WENT,
        signs.of_kind(incidents.REBALANCE_STORM.name),
        signs.OF_SHARE_GROUP,
    ),
    proved_by=((signs.PRODUCERS_FASTER,),),
    advice=(
        "Make the processing faster, or add members, up to the number of partitions: `groupledger capacity` says",
        " whether they would be enough",
        Clause(
            ". Some members have no partition, so add partitions first",
            needs=(signs.MEMBERS_WITHOUT_PARTITIONS.name,),
        ),
        ". If the client's fetch-throttle-time-avg is above zero, neither helps: raise its consumer_byte_rate.",
    ),
    settings=("max.poll.records", "fetch.min.bytes"),
    decided_by="The client's metrics records-consumed-rate and fetch-latency-avg beside the time that processing"
    " takes.",
    severity=Severity.WARNING,
)
PARTITION_SKEW = Cause(
    name="partition_skew",
    symptoms=_LAGGING,
    happened="{place} has most of the lag and receives more records than the other partitions.",
    needs=(signs.ONE_PARTITION_BEHIND,),
    against=(signs.AT_LAST_STABLE_OFFSET, signs.OFFSETS_STAND),
    proved_by=((signs.ONE_PARTITION_BEHIND, signs.OFFSETS_GO_ON),),
    advice="More members do not help. Spread the records over the partitions by another key or partitioner.",
    settings=("partitioner.class",),
    decided_by="The growth of each partition's end offset over an hour of samples.",
    fault=Fault.PRODUCER,
)
HOT_KEY = Cause(
    name="hot_key",
    symptoms=_LAGGING,
    happened="Most of the records of {place} may have one key.",
    needs=(signs.ONE_PARTITION_BEHIND,),
    against=(signs.AT_LAST_STABLE_OFFSET,),
    advice="Split that key, or process records in parallel by key within one member.",
    decided_by="The keys of a thousand records of that partition: whether one of them dominates.",
    fault=Fault.PRODUCER,
)
ONE_SLOW_MEMBER = Cause(
    name="one_slow_member",
    symptoms=_LAGGING,
    happened="Only {who} lags, although its partitions receive no more records than the others.",
    needs=(signs.ONE_MEMBER_BEHIND,),
    against=(
        signs.UNEVEN_ASSIGNMENT,
        signs.ONE_PARTITION_BEHIND,
        signs.AT_LAST_STABLE_OFFSET,
        signs.OWNERS_STOP_AT_ONE_OFFSET,
        signs.AHEAD_OF_END,
        signs.OFFSETS_STAND,
    ),
    proved_by=((signs.ONE_MEMBER_BEHIND,),),
    advice="Look at that host (CPU limit, disk, network) and at the services it depends on. If you stop it, the"
    " others take over.",
    decided_by="A comparison of that process's metrics with those of the others.",
)
UNEVEN_ASSIGNMENT = Cause(
    name="uneven_assignment",
    symptoms=_LAGGING,
    happened="{who} has most of the lag and owns at least twice as many partitions as the others on average.",
    needs=(signs.UNEVEN_ASSIGNMENT,),
    against=(signs.ONE_PARTITION_BEHIND, signs.AT_LAST_STABLE_OFFSET, signs.OFFSETS_STAND),
    proved_by=((signs.UNEVEN_ASSIGNMENT,),),
    advice=(
        Clause(
            "The range assignor gives the first members more partitions of each topic: use another one, or let all"
            " members subscribe to the same topics.",
            needs=(Fact.CLASSIC_GROUP,),
        ),
        Clause(
            "Let all members subscribe to the same topics; the uniform assignor spreads them evenly.",
            needs=(Fact.CONSUMER_GROUP,),
        ),
    ),
    settings=(
        Clause("partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP,)),
        Clause("group.remote.assignor", needs=(Fact.CONSUMER_GROUP,)),
    ),
    decided_by="How many partitions each member owns: `groupledger group NAME`.",
)
MORE_MEMBERS_THAN_PARTITIONS = Cause(
    name="more_members_than_partitions",
    symptoms=(BEHIND,),
    happened="The group lags, but some members own nothing: it has more members than partitions.",
    needs=(signs.MEMBERS_WITHOUT_PARTITIONS, signs.LAG_GROWS),
    against=(signs.OFFSETS_STAND, signs.OF_SHARE_GROUP),
    advice="More members do not help. Add partitions, or make the processing of each record faster.",
    decided_by="How many partitions its topics have, and whether the busy members keep up with theirs.",
    fault=Fault.OPERATOR,
)
CATCHING_UP = Cause(
    name="catching_up",
    symptoms=_LAGGING,
    happened="The group lags and is catching up: {records} records are left.",
    needs=(signs.LAG_SHRINKS, signs.OFFSETS_GO_ON),
    against=(signs.LAG_GROWS,),
    proved_by=((signs.LAG_SHRINKS, signs.OFFSETS_GO_ON),),
    decided_by="The next samples.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
UNSUBSCRIBED = Cause(
    name="unsubscribed",
    symptoms=_LAGGING,
    happened="No member subscribes to the topic of {place} any more, but its committed offsets remain: nobody reduces"
    " that lag.",
    needs=(signs.UNSUBSCRIBED,),
    proved_by=((signs.UNSUBSCRIBED,),),
    advice="If that is intended, delete these offsets (kafka-consumer-groups --delete-offsets). Otherwise subscribe"
    " again.",
    decided_by="The members' subscriptions in the topic.",
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
TRANSACTIONS_ROLLED_BACK = Cause(
    name="transactions_rolled_back",
    symptoms=_LAGGING,
    happened=(
        Clause(
            "The group's offsets are sent in transactions that are rolled back again and again",
            needs=(signs.OFFSETS_ROLLED_BACK.name,),
        ),
        Clause(
            "The group's offsets may be sent in transactions that are rolled back again and again",
            excludes=(signs.OFFSETS_ROLLED_BACK.name,),
        ),
        ", so that none is committed: {records} records wait.",
    ),
    needs=(signs.HAS_MEMBERS, signs.RECORDS_WAIT),
    suspected_by=(signs.OFFSETS_STAND, signs.NEVER_COMMITTED, signs.OFFSETS_ROLLED_BACK),
    against=(
        signs.AT_LAST_STABLE_OFFSET,
        signs.AHEAD_OF_END,
        signs.NOBODY_OWNS,
        signs.MARKERS_AT_END,
        signs.ONE_CAME_AND_WENT,
        signs.SAME_OFFSET_AGAIN,
        signs.NO_TRANSACTIONS,
        signs.OWNER_CEASED,
        signs.OF_SHARE_GROUP,
    ),
    proved_by=((signs.OFFSETS_ROLLED_BACK,),),
    advice="Look in the application's log for why it aborts: one record that fails, a producer that is fenced, or"
    " transactions that take longer than transaction.timeout.ms.",
    settings=("transaction.timeout.ms",),
    decided_by="TxnOffsetCommit requests of the group in the broker's request log, or the producer's metric"
    " txn-abort-time-ns-total.",
    severity=Severity.ERROR,
)
COMMITS_STOPPED = Cause(
    name="commits_stopped",
    symptoms=(NO_PROGRESS,),
    happened="{who} stopped committing for all partitions that it owns, although it had committed steadily.",
    needs=(signs.of_kind(incidents.COMMIT_GAP.name),),
    against=_OTHERWISE_STANDING,
    kind=incidents.COMMIT_GAP.name,
    advice="It hangs, or its commits fail: look in its log of that time.",
    decided_by="The client's metrics last-poll-seconds-ago and commit-rate.",
)
OFFSETS_WAIT_FOR_TRANSACTION = of_incident(
    incidents.UNSTABLE_OFFSETS,
    NO_PROGRESS,
    decided_by="DescribeTransactions of the group's producers, and samples of __consumer_offsets.",
    fault=Fault.PRODUCER,
)
TRANSACTION_WITH_OFFSETS_OPEN = of_incident(
    incidents.STALLED_TRANSACTION,
    NO_PROGRESS,
    decided_by="`kafka-transactions.sh find-hanging` on that partition of __consumer_offsets.",
    fault=Fault.PRODUCER,
)

CAUSES = rows_of(globals(), Cause)
