"""The probable beginnings of an episode of incidents: the words of `incidents.probable_root`.

`advice` is the second sentence of an incident's explanation, and `settings` are the settings to change. Both are used
only if the kind of the incident has none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kinds import rows_of
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Clause, Fact, Text


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    name: str
    advice: Text = (
        Clause("Import the server log of that time to learn why.", excludes=(Fact.LOG_IMPORTED,)),
        Clause("Neither the topic nor the imported server log says why.", needs=(Fact.LOG_IMPORTED,)),
    )
    settings: tuple[str | Clause, ...] = ()


# A client has no such setting in a group whose broker decides (KIP-848 and later types).
SESSION_TIMEOUT = (
    Clause("session.timeout.ms", excludes=MODERN_GROUP),
    Clause("consumer.session.timeout.ms of the group", needs=(Fact.CONSUMER_GROUP,)),
    Clause("share.session.timeout.ms of the group", needs=(Fact.SHARE_GROUP,)),
    Clause("streams.session.timeout.ms of the group", needs=(Fact.STREAMS_GROUP,)),
)
POLL_INTERVAL = (
    Clause("max.poll.interval.ms", excludes=(Fact.CONNECT_GROUP,)),
    Clause("rebalance.timeout.ms", needs=(Fact.CONNECT_GROUP,)),
)
POLL_TIMEOUT_EXCEEDED = Root(
    name="poll_timeout_exceeded",
    advice=(
        *("Its processing takes too long between two polls: raise ", *POLL_INTERVAL),
        Clause(", or lower max.poll.records", excludes=(Fact.CONNECT_GROUP,)),
        Clause(", or look at what its connectors do as they start and stop", needs=(Fact.CONNECT_GROUP,)),
        ".",
    ),
    settings=(*POLL_INTERVAL, Clause("max.poll.records", excludes=(Fact.CONNECT_GROUP,))),
)
SESSION_EXPIRED = Root(
    name="session_expired",
    advice=(
        "Its process was paused, starved of CPU or disconnected: check its garbage collection and CPU limit, or raise ",
        *SESSION_TIMEOUT,
        ".",
    ),
    settings=SESSION_TIMEOUT,
)
NETWORK = Root(
    name="network",
    advice=(
        "Members at other addresses expired at the same moment: check their network, or raise ",
        *SESSION_TIMEOUT,
        ".",
    ),
    settings=SESSION_TIMEOUT,
)
INSTANCE_STARTED_TWICE = Root(
    name="instance_started_twice",
    advice="Two processes use one group.instance.id: give each its own.",
    settings=("group.instance.id",),
)
COORDINATOR_FAILOVER = Root(
    name="coordinator_failover",
    advice="The group's coordinator had just moved to another broker and lost the state that no record holds. Nothing"
    " has to change in the client.",
)
STALE_GENERATION_KEPT = Root(
    name="stale_generation_kept",
    advice="The client continues with a generation that is over: upgrade it, and commit within its rebalance callback.",
)
LOOK_AT_THE_LEADER = (
    "Look at the leader's own log: its assignor may fail, for example on a subscription that it cannot parse."
)
LEADER_SENDS_NO_ASSIGNMENT = Root(
    name="leader_sends_no_assignment",
    advice=f"It kept joining and sent no assignment, and so its session ran out. {LOOK_AT_THE_LEADER}",
    settings=(Clause("partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP,)),),
)
REBALANCE = Root(name="rebalance", advice="It happened during a rebalance.")
RESTART = Root(name="restart", advice="Processes of the group were restarted.")
ADMIN_RESET = Root(
    name="admin_reset",
    advice="The group had no members, so somebody reset it: the records between are read again{duplicates}.",
)
ADMIN_SKIP = Root(
    name="admin_skip",
    advice="The group had no members, so somebody moved it forward: the records between are never read.",
)
OFFSETS_RETENTION = Root(
    name="offsets_retention",
    advice="Kafka deletes the offsets of a group without members after offsets.retention.minutes, and auto.offset.reset"
    " then decides where it starts. Raise offsets.retention.minutes, and set auto.offset.reset to what the group"
    " needs.",
    settings=("offsets.retention.minutes", "auto.offset.reset"),
)
LOG_RETENTION = Root(
    name="log_retention",
    advice="Retention or DeleteRecords removed records that the group had not read yet. Keep records for longer"
    " than the group may lag or be away. If auto.offset.reset is latest, it skips what is left of the log, too: set"
    " earliest.",
    settings=("retention.ms", "retention.bytes", "auto.offset.reset"),
)
CLIENT_SEEK_OR_RESET = Root(
    name="client_seek_or_reset",
    advice="A member called seek, or its offset was reset: the records between are read again{duplicates}. Check"
    " auto.offset.reset and calls of seek.",
)
HANDOVER = Root(
    name="handover",
    advice="The partitions had changed owners, and the later one began before the last commit of the earlier one: the"
    " records between are read again{duplicates}. Commit before partitions are revoked, and do not seek when they are"
    " assigned.",
)
TOPIC_RECREATED = Root(
    name="topic_recreated",
    advice="The topic was deleted and created again, so offsets start over, and nothing is read twice.",
)
TOPIC_GONE = Root(name="topic_gone", advice="The broker does not have the topic, or no longer has it.")
CONFIGURATION = Root(
    name="configuration", advice="The client's settings do not fit those of the broker or of the group."
)
COMMITS_BESIDE_MEMBERS = Root(
    name="commits_beside_members",
    advice="A client outside the group commits for it.",
    settings=("group.id",),
)
ASSIGNMENT_TOO_LARGE = Root(
    name="assignment_too_large",
    advice="Kafka answers this when the group's record is larger than __consumer_offsets accepts. Raise"
    " max.message.bytes"
    " of that topic or compress it (offsets.topic.compression.codec), or give the group fewer topics, partitions or"
    " members.",
    settings=("max.message.bytes of __consumer_offsets", "offsets.topic.compression.codec"),
)
ASSIGNMENT_UNSTORED = Root(
    name="assignment_unstored",
    advice="Brokers before 3.4 do not log the error. Either the group's record is larger than max.message.bytes of"
    " __consumer_offsets, or the brokers could not write to that topic: look at its replicas.",
    settings=("max.message.bytes of __consumer_offsets",),
)
OFFSETS_TOPIC_UNAVAILABLE = Root(
    name="offsets_topic_unavailable",
    advice="The brokers could not use __consumer_offsets. Look at its replicas and at the brokers' disks. Nothing has"
    " to change in the client.",
)
NOT_AUTHORIZED = Root(name="not_authorized", advice="The client's principal lacks a right.")
LOCK_EXPIRED = Root(name="lock_expired", advice="A share group's lock on records ended before they were acknowledged.")
TRANSACTION_NOT_ENDED = Root(name="transaction_not_ended")
MEMBERS_GONE = Root(name="members_gone", advice="Nobody reads for the group any more.")
OFFSET_BEYOND_END = Root(
    name="offset_beyond_end",
    advice="The log was truncated or created again, or a mirror wrote offsets of another cluster.",
)
AUTO_OFFSET_RESET = Root(
    name="auto_offset_reset",
    advice="auto.offset.reset decides where a consumer without a commit starts: set it to what the group needs.",
    settings=("auto.offset.reset",),
)
COMMITS_STOPPED = Root(name="commits_stopped")
UNKNOWN = Root(name="unknown")

ROOTS = rows_of(globals(), Root)
