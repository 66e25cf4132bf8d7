"""What can go wrong in a group: the kinds of `incidents`, a row each.

A new kind is a row here and a rule in `transforms.incidents.rules` that sights it. The order of the rows matters in one
place: an episode with several kinds takes its root from the first row that has one, unless a rule knows better.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kafka.api_keys import EPOCH_HEARTBEATS, ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds import roots, rows_of, triggers
from groupledger.schemas.kinds.clauses import Clause, Fact, Text
from groupledger.schemas.words import Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentKind:
    """A kind of incident, and what follows from it.

    happened, advice   the two sentences of an explanation, in clauses; `transforms.incidents.rules.explain` fills in
                       the names. Without an advice that of the episode's root counts
    static_advice      the advice about a static member, where the episode has this kind's own root
    settings           what to change; None: the settings of the episode's root
    root               the root of an episode with this kind, where no rule knows better
    severity           the usual one; of a refusal, that of a refused commit
    error_code         Kafka's error, of a refusal
    apis               the requests whose refusal it is, at the severity of the row; None: any request, and only a
                       refused commit is so grave
    repeats_within_ms  a single refusal is normal operation: an incident are those that go on, each at most so long
                       after the one before
    mended_within_ms   the refusal is normal operation where the same is accepted so soon after it
    takes_partitions   a heartbeat that is refused so tells a member that it lost its partitions
    trigger            the member's leave that the incident is about, of a removal
    is_pattern         it is about many rows of the group, and belongs to other patterns of the same time
    confidence         how often an inferred one was right in bench.incident_accuracy, rounded down
    """

    name: str
    meaning: str
    happened: Text
    advice: Text | None = None
    static_advice: str | None = None
    settings: tuple[str | Clause, ...] | None = None
    root: roots.Root | None = None
    severity: str = Severity.WARNING
    error_code: int | None = None
    apis: tuple[str, ...] | None = None
    repeats_within_ms: int | None = None
    mended_within_ms: int | None = None
    takes_partitions: bool = False
    trigger: triggers.Trigger | None = None
    is_pattern: bool = False
    confidence: float = 1.0


COMMITS = (ApiKey.OFFSET_COMMIT.name, ApiKey.TXN_OFFSET_COMMIT.name)
_JOINS = (ApiKey.JOIN_GROUP.name, ApiKey.SYNC_GROUP.name)
_EPOCH_HEARTBEATS = tuple(api.name for api in EPOCH_HEARTBEATS)
_OF_MEMBERS = (*_JOINS, ApiKey.HEARTBEAT.name, ApiKey.LEAVE_GROUP.name, *_EPOCH_HEARTBEATS, *COMMITS)
_OF_CONSUMERS = (ApiKey.CONSUMER_GROUP_HEARTBEAT.name,)
_OF_STREAMS = (ApiKey.STREAMS_GROUP_HEARTBEAT.name,)
_PROBABLY = (Clause("probably ", needs=(Fact.INFERRED,)),)
# A share or streams group has no static members.
_STATIC_MEMBERSHIP = Clause("group.instance.id", excludes=(Fact.SHARE_GROUP, Fact.STREAMS_GROUP))

ILLEGAL_GENERATION = IncidentKind(
    name="illegal_generation",
    meaning="A request claims a generation that is over.",
    happened="{who} spoke for generation {claimed} when the group was at {current}, and was refused {times} with"
    " ILLEGAL_GENERATION.",
    severity=Severity.ERROR,
    error_code=Error.ILLEGAL_GENERATION.value,
)
UNKNOWN_MEMBER = IncidentKind(
    name="unknown_member",
    meaning="A request comes from a member that the group does not have, or has no more.",
    happened=(
        "{who} was refused {times} with UNKNOWN_MEMBER_ID",
        Clause(": the group had removed it before", needs=(Fact.WAS_REMOVED,)),
        ".",
    ),
    severity=Severity.ERROR,
    error_code=Error.UNKNOWN_MEMBER_ID.value,
    takes_partitions=True,
)
COMMIT_FROM_OUTSIDE = IncidentKind(
    name="commit_from_outside",
    meaning="Somebody who is no member of a group commits for it while it has members.",
    happened="{who} committed for {count} partitions without being a member of the group, and was refused {times} with"
    " UNKNOWN_MEMBER_ID, since the group has members.",
    advice="Whoever assigns itself its partitions (assign()) needs a group.id of its own; a tool that moves offsets has"
    " to wait until the group has no members. The group's members are not concerned.",
    settings=("group.id",),
    root=roots.COMMITS_BESIDE_MEMBERS,
    severity=Severity.ERROR,
)
FENCED_INSTANCE = IncidentKind(
    name="fenced_instance",
    meaning="Another process has the member's instance id (KIP-345).",
    happened="{who} was refused {times} with FENCED_INSTANCE_ID: another process joined under its instance id"
    " {instance}.",
    root=roots.INSTANCE_STARTED_TWICE,
    severity=Severity.ERROR,
    error_code=Error.FENCED_INSTANCE_ID.value,
    takes_partitions=True,
)
FENCED_MEMBER_EPOCH = IncidentKind(
    name="fenced_member_epoch",
    meaning="A request claims a member epoch that the coordinator does not grant (KIP-848).",
    happened="{who} spoke for epoch {claimed}, which the coordinator no longer grants it, and was refused {times} with"
    " FENCED_MEMBER_EPOCH.",
    severity=Severity.ERROR,
    error_code=Error.FENCED_MEMBER_EPOCH.value,
    takes_partitions=True,
)
STALE_MEMBER_EPOCH = IncidentKind(
    name="stale_member_epoch",
    meaning="A commit claims a member epoch that is over (KIP-848).",
    happened="{who} committed under the epoch {claimed}, which the group has moved on from, and was refused {times}"
    " with STALE_MEMBER_EPOCH.",
    root=roots.STALE_GENERATION_KEPT,
    severity=Severity.ERROR,
    error_code=Error.STALE_MEMBER_EPOCH.value,
    apis=COMMITS,
    # The epoch rose, and a client commits again with the new one, for as long as default.api.timeout.ms by default.
    mended_within_ms=60_000,
)
UNRELEASED_INSTANCE_ID = IncidentKind(
    name="unreleased_instance_id",
    meaning="A static member can't join for longer than a session, since another one has its instance id (KIP-848).",
    happened="{who} was refused {times} with UNRELEASED_INSTANCE_ID: another member has its instance id {instance}.",
    advice="It does not work until that one leaves or its session ends: two processes run under one group.instance.id,"
    " so give each its own.",
    root=roots.INSTANCE_STARTED_TWICE,
    severity=Severity.ERROR,
    error_code=Error.UNRELEASED_INSTANCE_ID.value,
    apis=_OF_CONSUMERS,
    # One that crashed and is started again is refused until its old session ends: after 60 s at most, by default.
    mended_within_ms=60_000,
)
UNSUPPORTED_ASSIGNOR = IncidentKind(
    name="unsupported_assignor",
    meaning="A member can't join, since it asks for an assignor that the broker does not have (KIP-848).",
    happened="{who} was refused {times} with UNSUPPORTED_ASSIGNOR: the broker does not have its group.remote.assignor.",
    advice="It does not work until that is changed: leave group.remote.assignor empty, or name one of the brokers'"
    " group.consumer.assignors.",
    settings=("group.remote.assignor", "group.consumer.assignors"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.UNSUPPORTED_ASSIGNOR.value,
    apis=_OF_CONSUMERS,
)
INVALID_REGEX = IncidentKind(
    name="invalid_regex",
    meaning="A member can't subscribe, since its pattern is no regular expression of RE2 (KIP-848).",
    happened="{who} was refused {times} with INVALID_REGULAR_EXPRESSION: the pattern that it subscribes to is none of"
    " RE2.",
    advice="It does not work until that is changed: the broker resolves patterns, by RE2's syntax, which lacks some of"
    " Java's.",
    settings=("subscription pattern",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_REGULAR_EXPRESSION.value,
    apis=_OF_CONSUMERS,
)
STREAMS_INVALID_TOPOLOGY = IncidentKind(
    name="streams_invalid_topology",
    meaning="A streams member can't join, since the broker finds its topology invalid.",
    happened="{who} was refused {times} with STREAMS_INVALID_TOPOLOGY: its topology names topics that are internal to"
    " Kafka, or that no topic may be called.",
    advice="It does not work until its topology is changed.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_INVALID_TOPOLOGY.value,
    apis=_OF_STREAMS,
)
STREAMS_INVALID_TOPOLOGY_EPOCH = IncidentKind(
    name="streams_invalid_topology_epoch",
    meaning="A streams member can't join, since its topology's epoch does not follow on its group's.",
    happened="{who} was refused {times} with STREAMS_INVALID_TOPOLOGY_EPOCH: its topology's epoch does not follow on"
    " the group's.",
    advice="It does not work until that is changed: roll out one topology after the other.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_INVALID_TOPOLOGY_EPOCH.value,
    apis=_OF_STREAMS,
)
STREAMS_TOPOLOGY_FENCED = IncidentKind(
    name="streams_topology_fenced",
    meaning="A streams member has an older topology than its group.",
    happened="{who} was refused {times} with STREAMS_TOPOLOGY_FENCED: its group has a newer topology.",
    advice="It does not work until it is started with the group's topology: finish the roll-out.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_TOPOLOGY_FENCED.value,
    apis=_OF_STREAMS,
)
STREAMS_TOPOLOGY_CHANGED = IncidentKind(
    name="streams_topology_changed",
    meaning="A streams member can't join, since its topology is not its group's, and the broker takes no other.",
    happened="{who} was refused {times} with INVALID_REQUEST, as brokers up to 4.2 refuse a topology that differs from"
    " the group's.",
    advice="It does not work until it has the group's topology: stop all members and delete the group, or give the new"
    " topology an application.id of its own.",
    settings=("application.id",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_REQUEST.value,
    apis=_OF_STREAMS,
)
LATE_ACKNOWLEDGEMENT = IncidentKind(
    name="late_acknowledgement",
    meaning="A member of a share group acknowledges records that it does not hold any more.",
    happened="{who} acknowledged records that it did not hold any more, and was refused {times} with"
    " INVALID_RECORD_STATE.",
    advice="What it had processed is delivered again: its processing takes longer than the acquisition lock, so raise"
    " group.share.record.lock.duration.ms on the brokers, or lower max.poll.records.",
    settings=("group.share.record.lock.duration.ms", "max.poll.records"),
    root=roots.LOCK_EXPIRED,
    error_code=Error.INVALID_RECORD_STATE.value,
    apis=(ApiKey.SHARE_ACKNOWLEDGE.name,),
)
REBALANCE_TIMEOUT_FENCED = IncidentKind(
    name="rebalance_timeout_fenced",
    meaning="A member was fenced because it did not give up partitions within its rebalance timeout (KIP-848).",
    happened=(
        "{who} ",
        *_PROBABLY,
        "did not give up partitions that others waited for, for longer than max.poll.interval.ms, and was fenced.",
    ),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    trigger=triggers.REBALANCE_TIMEOUT,
    confidence=0.9,
)
POLL_TIMEOUT = IncidentKind(
    name="poll_timeout",
    meaning="A member left because it did not poll within max.poll.interval.ms.",
    happened=("{who} ", *_PROBABLY, "did not poll for longer than max.poll.interval.ms, and left the group."),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    trigger=triggers.LEFT_POLL_TIMEOUT,
    confidence=0.7,
)
SESSION_EXPIRED = IncidentKind(
    name="session_expired",
    meaning="A member sent no heartbeat within its session timeout and was removed.",
    happened=("{who} ", *_PROBABLY, "sent no heartbeat for longer than its session timeout, and was removed."),
    static_advice="It is a static member, which does not leave when it is stopped: if that was meant, remove it with an"
    " admin client (removeMembersFromConsumerGroup) the next time, else it was paused, cut off, or away for too long.",
    root=roots.SESSION_EXPIRED,
    trigger=triggers.SESSION_EXPIRED,
    confidence=0.85,
)
STATIC_SUBSCRIPTION_IGNORED = IncidentKind(
    name="static_subscription_ignored",
    meaning="A static member came back with other topics, and kept its assignment.",
    happened="{who} came back under instance id {instance} with other topics, and the group did not rebalance.",
    advice="Its old assignment stays until the next rebalance (KIP-345): let all members subscribe to the same topics,"
    " and make the group rebalance once.",
    settings=(),
    root=roots.RESTART,
    confidence=0.95,
)
ZOMBIE_COMMIT_SUSPECTED = IncidentKind(
    name="zombie_commit_suspected",
    meaning="A silent member was removed, and the same process joined again soon after.",
    happened="{who} fell silent and dropped out of the group, and the same client joined again soon after: it was alive"
    " all the time.",
    advice="What it had in hand may have been processed twice{duplicates}; refused commits are not in the topic, so"
    " import the request log to be certain.",
    severity=Severity.INFO,
    confidence=0.65,
)
OFFSET_REWIND = IncidentKind(
    name="offset_rewind",
    meaning="Committed offsets went back.",
    happened="Committed offsets of {count} partitions went back.",
    settings=(),
    confidence=0.95,
)
OFFSET_SKIP = IncidentKind(
    name="offset_skip",
    meaning="Committed offsets were moved on by no member of the group.",
    happened="Committed offsets of {count} partitions were moved on while the group had no members, over at most"
    " {detail} records that it had not read.",
    settings=(),
    root=roots.ADMIN_SKIP,
    confidence=0.95,
)
OFFSETS_EXPIRED = IncidentKind(
    name="offsets_expired",
    meaning="A group lost its offsets to offsets.retention.minutes and came back: it reads again, or never reads,"
    " records.",
    happened="Kafka expired the committed offsets of {count} partitions, and the group came back without them:"
    " {detail}.",
    root=roots.OFFSETS_RETENTION,
    severity=Severity.ERROR,
    confidence=0.8,
)
LOST_TO_RETENTION = IncidentKind(
    name="lost_to_retention",
    meaning="A topic's log was removed up to behind what a group had committed.",
    happened="The logs of {count} partitions begin behind the group's committed offsets: at most {detail} records were"
    " removed before it read them.",
    root=roots.LOG_RETENTION,
    confidence=0.95,
)
OFFSET_OF_FORMER_TOPIC = IncidentKind(
    name="offset_of_former_topic",
    meaning="A group's offsets are of a deleted topic, and the topic that was made anew under its name has grown beyond"
    " them.",
    happened="The offsets of {count} partitions are of a deleted topic, and the new one of its name has reached them:"
    " from there on, the group passes over at most {detail} records.",
    advice="Reset the group on this topic to the earliest offset before it goes on, and delete a group's offsets with"
    " the topic; what it has passed over already can be read by a group of another name.",
    settings=(),
    root=roots.TOPIC_RECREATED,
    confidence=0.8,
)
OFFSETS_EXPIRE_SOON = IncidentKind(
    name="offsets_expire_soon",
    meaning="Kafka is about to expire committed offsets, with which records would be read again or never read.",
    happened="Kafka expires the committed offsets of {count} partitions {detail}.",
    advice="The group would then begin where auto.offset.reset says: let it commit before, or raise"
    " offsets.retention.minutes; `groupledger offsets` writes the offsets down that a reset can bring back.",
    root=roots.OFFSETS_RETENTION,
    confidence=0.95,
)
REBALANCE_STORM = IncidentKind(
    name="rebalance_storm",
    meaning="A group rebalanced more often than restarting every member explains.",
    happened="The group rebalanced {detail} times within {seconds} s.",
    advice=(
        Clause(
            "Nothing is processed while members join again, unless their assignor is a cooperative one: look at who"
            " comes and goes, use static membership (group.instance.id) and cooperative-sticky.",
            needs=(Fact.CLASSIC_GROUP,),
        ),
        Clause(
            "Members that keep their partitions go on processing: look at who comes and goes, and use static membership"
            " (group.instance.id).",
            needs=(Fact.CONSUMER_GROUP,),
        ),
        Clause("Look at who comes and goes.", excludes=(Fact.CLASSIC_GROUP, Fact.CONSUMER_GROUP)),
    ),
    settings=(
        _STATIC_MEMBERSHIP,
        Clause("partition.assignment.strategy=cooperative-sticky", needs=(Fact.CLASSIC_GROUP,)),
    ),
    root=roots.REBALANCE,
    is_pattern=True,
    confidence=0.95,
)
MEMBER_FLAPPING = IncidentKind(
    name="member_flapping",
    meaning="One process came and went again and again.",
    happened="{who} came and went {detail} times within {seconds} s.",
    advice=(
        "Each time the group rebalances: mend the process",
        Clause(
            ", or give it a group.instance.id so that a restart costs no rebalance",
            excludes=(Fact.SHARE_GROUP, Fact.STREAMS_GROUP),
        ),
        ".",
    ),
    settings=(_STATIC_MEMBERSHIP,),
    root=roots.RESTART,
    is_pattern=True,
    confidence=0.95,
)
LEADER_NEVER_SYNCED = IncidentKind(
    name="leader_never_synced",
    meaning="Generations were formed, and left no record: no assignment was sent, or none could be stored.",
    happened=(
        Clause(
            "{detail} generations before {current} left no record: their leader sent no assignment, or the coordinator"
            " could not store it.",
            needs=(Fact.INFERRED,),
        ),
        Clause(
            "A generation before {current} was formed, but its leader never sent an assignment.",
            excludes=(Fact.INFERRED,),
        ),
    ),
    advice=(
        "Nobody had partitions in them",
        Clause("; import the server log of that time, which tells the two apart", excludes=(Fact.LOG_IMPORTED,)),
        Clause(": look at the leader of that time", excludes=(Fact.INFERRED,)),
        ".",
    ),
    root=roots.REBALANCE,
    severity=Severity.INFO,
    confidence=0.95,
)
ASSIGNMENT_NOT_STORED = IncidentKind(
    name="assignment_not_stored",
    meaning="The coordinator could not store what the leader assigned, and the group rebalanced again.",
    happened="The coordinator failed {times} to store the group's assignment ({detail}), and made the group rebalance"
    " each time: nobody had partitions meanwhile.",
    root=roots.ASSIGNMENT_TOO_LARGE,
    severity=Severity.ERROR,
    is_pattern=True,
)
REBALANCE_STUCK = IncidentKind(
    name="rebalance_stuck",
    meaning="A group hangs in a rebalance, and reads nothing while records wait.",
    happened="The group has been in one rebalance for {seconds} s, in which nobody read the {detail} records that"
    " waited in {count} partitions.",
    advice="It waits for a member that does not join, for as long as the longest max.poll.interval.ms of the group"
    " allows: stop the process that hangs, and lower max.poll.interval.ms.",
    settings=("max.poll.interval.ms",),
    root=roots.REBALANCE,
    severity=Severity.ERROR,
    confidence=0.95,
)
RECONCILIATION_STUCK = IncidentKind(
    name="reconciliation_stuck",
    meaning="A member of a KIP-848 group holds back partitions that others are to have, and records wait in them.",
    happened="{who} has held back {count} partitions for {seconds} s that others wait for, and nobody committed the"
    " {detail} records that came meanwhile.",
    advice="It does not poll, or its processing takes that long, and it keeps them until max.poll.interval.ms is over:"
    " look at that process, stop it if it hangs, and lower max.poll.interval.ms.",
    settings=("max.poll.interval.ms", "max.poll.records"),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    severity=Severity.ERROR,
    confidence=0.95,
)
STALLED_TRANSACTION = IncidentKind(
    name="stalled_transaction",
    meaning="The last stable offset of a partition of __consumer_offsets stands still.",
    happened="A transaction with offsets in partition {partition} of __consumer_offsets has not ended for {seconds} s.",
    advice="Readers of committed offsets wait behind it: find the producer, or abort it with kafka-transactions.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    confidence=0.95,
)
REBALANCE_IN_PROGRESS_COMMIT = IncidentKind(
    name="rebalance_in_progress_commit",
    meaning="A commit came while the group waited for its leader's assignment; this belongs to normal operation.",
    happened="{who} committed while the group waited for its leader's assignment, and was refused {times} with"
    " REBALANCE_IN_PROGRESS.",
    advice="This is normal operation: the client joins again and commits what it then owns.",
    settings=(),
    root=roots.REBALANCE,
    severity=Severity.INFO,
    error_code=Error.REBALANCE_IN_PROGRESS.value,
    apis=COMMITS,
)
UNKNOWN_TOPIC_COMMIT = IncidentKind(
    name="unknown_topic_commit",
    meaning="A commit is of a topic or partition that the broker does not have.",
    happened="{who} committed for {count} partitions and was refused {times} with UNKNOWN_TOPIC_OR_PARTITION: the"
    " broker has no such topic or partition.",
    advice="It was deleted, or made anew with fewer partitions, or the client is connected to another cluster than it"
    " should be: take the topic out of its subscription, or look at bootstrap.servers.",
    settings=("bootstrap.servers",),
    root=roots.TOPIC_GONE,
    error_code=Error.UNKNOWN_TOPIC_OR_PARTITION.value,
    apis=COMMITS,
)
OFFSET_METADATA_TOO_LARGE = IncidentKind(
    name="offset_metadata_too_large",
    meaning="A commit carries more metadata than the broker stores.",
    happened="{who} sent more metadata with its commit than the broker stores, and was refused {times} with"
    " OFFSET_METADATA_TOO_LARGE.",
    advice="No progress is stored for these partitions, so that a restart reads all again{duplicates}: store less with"
    " the offsets, or raise offset.metadata.max.bytes on the brokers.",
    settings=("offset.metadata.max.bytes",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.OFFSET_METADATA_TOO_LARGE.value,
    apis=COMMITS,
)
INCONSISTENT_PROTOCOL = IncidentKind(
    name="inconsistent_protocol",
    meaning="A member can't join, since it shares no assignor, or no protocol type, with the group's members.",
    happened="{who} was refused {times} with INCONSISTENT_GROUP_PROTOCOL: it offers no assignor that all members have,"
    " or is of another protocol type.",
    advice="It does not work until they agree: give all members one common partition.assignment.strategy, as a rolling"
    " upgrade of the assignor takes two rounds, and each kind of application a group.id of its own.",
    settings=("partition.assignment.strategy", "group.id"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INCONSISTENT_GROUP_PROTOCOL.value,
    apis=_JOINS,
)
INVALID_SESSION_TIMEOUT = IncidentKind(
    name="invalid_session_timeout",
    meaning="A member can't join, since the broker does not allow its session timeout.",
    happened="{who} was refused {times} with INVALID_SESSION_TIMEOUT: its session.timeout.ms is outside of what the"
    " broker allows.",
    advice="It does not work until that is changed: set session.timeout.ms between group.min.session.timeout.ms and"
    " group.max.session.timeout.ms of the brokers.",
    settings=("session.timeout.ms", "group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_SESSION_TIMEOUT.value,
    apis=(ApiKey.JOIN_GROUP.name,),
)
TOPIC_NOT_AUTHORIZED = IncidentKind(
    name="topic_not_authorized",
    meaning="A commit is of a topic that the client may not read.",
    happened="{who} committed for {count} partitions that it may not read, and was refused {times} with"
    " TOPIC_AUTHORIZATION_FAILED.",
    advice="No progress is stored for them, so that a restart reads all again{duplicates}: give its principal the ACL"
    " to READ the topic.",
    settings=("ACL: READ of the topic",),
    root=roots.NOT_AUTHORIZED,
    severity=Severity.ERROR,
    error_code=Error.TOPIC_AUTHORIZATION_FAILED.value,
    apis=COMMITS,
)
GROUP_NOT_AUTHORIZED = IncidentKind(
    name="group_not_authorized",
    meaning="A client may not be a member of the group, or not commit for it.",
    happened="{who} was refused {times} with GROUP_AUTHORIZATION_FAILED: it may not read as this group.",
    advice="It does not work, or its progress is not stored: give its principal the ACL to READ the group.",
    settings=("ACL: READ of the group",),
    root=roots.NOT_AUTHORIZED,
    severity=Severity.ERROR,
    error_code=Error.GROUP_AUTHORIZATION_FAILED.value,
    # Without the right a consumer is refused as it looks for its coordinator, and never joins.
    apis=(ApiKey.FIND_COORDINATOR.name, *_OF_MEMBERS),
)
GROUP_FULL = IncidentKind(
    name="group_full",
    meaning="A member can't join, since the group has as many members as the broker allows.",
    happened="{who} was refused {times} with GROUP_MAX_SIZE_REACHED: the group has as many members as the broker"
    " allows.",
    advice="It does not work, and the others do its share: start fewer, or raise group.max.size on the brokers.",
    settings=("group.max.size",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.GROUP_MAX_SIZE_REACHED.value,
    apis=(ApiKey.JOIN_GROUP.name, *_EPOCH_HEARTBEATS),
)
PRODUCER_FENCED = IncidentKind(
    name="producer_fenced",
    meaning="A producer goes on to commit offsets in transactions, though a newer one has its transactional id.",
    happened="{who} committed offsets in transactions under an epoch that is over, and was refused {times} within"
    " {seconds} s with INVALID_PRODUCER_EPOCH.",
    advice="Once is normal, when a restarted producer fences the one before; going on, two processes fence each other,"
    " and their work is aborted and done again{duplicates}: give each its own transactional.id.",
    settings=("transactional.id",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_PRODUCER_EPOCH.value,
    apis=(ApiKey.TXN_OFFSET_COMMIT.name,),
    repeats_within_ms=120_000,
)
UNSTABLE_OFFSETS = IncidentKind(
    name="unstable_offsets",
    meaning="A consumer can't learn where to begin, since a transaction with its offsets does not end.",
    happened="{who} asked for committed offsets for {seconds} s, and was put off {times} with UNSTABLE_OFFSET_COMMIT: a"
    " transaction with offsets of the group had not ended.",
    advice="It reads nothing until that ends: find the producer, abort its transaction with kafka-transactions, or"
    " lower transaction.timeout.ms.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    error_code=Error.UNSTABLE_OFFSET_COMMIT.value,
    apis=(ApiKey.OFFSET_FETCH.name,),
    repeats_within_ms=10_000,
)
_NOT_KNOWN_HOW = (Fact.LEFT_IN_ORDER, Fact.LEFT_WITHOUT_A_WORD, Fact.LEFT_UNPOLLED)
GROUP_WITHOUT_MEMBERS = IncidentKind(
    name="group_without_members",
    meaning="All consumers of a group are gone, and records wait in its partitions.",
    happened=(
        "For {seconds} s the group had no members, while up to {detail} records waited in {count} partitions",
        Clause("; {who} was the last", needs=(Fact.LAST_MEMBER_KNOWN,)),
        Clause(", and all of the last ones left by themselves", needs=(Fact.LEFT_IN_ORDER,)),
        Clause(", and a session ran out: somebody was gone without a word", needs=(Fact.LEFT_WITHOUT_A_WORD,)),
        Clause(", and somebody had not polled within max.poll.interval.ms", needs=(Fact.LEFT_UNPOLLED,)),
        ".",
    ),
    advice=(
        Clause(
            "Consumers that are stopped leave so: start them again, or delete the group if nobody is to read for it.",
            needs=(Fact.LEFT_IN_ORDER,),
        ),
        Clause(
            "Look at why their processes ended or were cut off, and start them again.",
            needs=(Fact.LEFT_WITHOUT_A_WORD,),
        ),
        Clause(
            "Look at what their processing waits for, and start them again.",
            needs=(Fact.LEFT_UNPOLLED,),
            excludes=(Fact.LEFT_WITHOUT_A_WORD,),
        ),
        Clause("Start consumers again; whether they were stopped or died is not known", excludes=_NOT_KNOWN_HOW),
        Clause(": import the server log of that time", excludes=(*_NOT_KNOWN_HOW, Fact.LOG_IMPORTED)),
        Clause(".", excludes=_NOT_KNOWN_HOW),
    ),
    settings=(),
    root=roots.MEMBERS_GONE,
    confidence=0.95,
)
OPEN_TRANSACTION_IN_TOPIC = IncidentKind(
    name="open_transaction_in_topic",
    meaning="A consumer has read all that is committed, and a transaction that does not end holds up what follows.",
    happened="The group has read up to the last stable offset of {count} partitions, where a transaction has been open"
    " for {seconds} s: {detail} records lie behind that offset.",
    advice="Who reads committed records (isolation.level=read_committed) is well and can only wait: find the"
    " transaction with kafka-transactions.sh find-hanging, abort it with kafka-transactions.sh abort, and look at its"
    " producer.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    confidence=0.95,
)
COMMIT_AHEAD_OF_END = IncidentKind(
    name="commit_ahead_of_end",
    meaning="A group's committed offset lies beyond the end of its partition's log.",
    happened="The group's offsets of {count} partitions lie beyond the ends of their logs, by {detail} in all, and have"
    " done so for {seconds} s.",
    advice="Whoever starts there is refused with OFFSET_OUT_OF_RANGE and begins where auto.offset.reset says or, once"
    " the log has grown that far, never reads what lies before: reset these offsets to where the group is to go on"
    " (kafka-consumer-groups.sh --reset-offsets).",
    settings=(),
    root=roots.OFFSET_BEYOND_END,
    confidence=0.95,
)
PARTITION_NOT_READ = IncidentKind(
    name="partition_not_read",
    meaning="A new partition had records before a group's consumers knew of it, and the group's first commit lies"
    " after them.",
    happened="{count} new partitions had up to {detail} records before a member of the group took them, and its first"
    " commits lie after them: with auto.offset.reset=latest these were never read.",
    advice="A consumer learns of a new partition after up to metadata.max.age.ms, and latest then passes over what was"
    " written before: set auto.offset.reset to earliest, and reset the group on these partitions if it lacks their"
    " first records.",
    root=roots.AUTO_OFFSET_RESET,
    severity=Severity.INFO,
    confidence=0.5,
)
COMMIT_GAP = IncidentKind(
    name="commit_gap",
    meaning="A member stopped committing everything that it owns, while records waited for it.",
    happened="{who} stopped committing all of its partitions for {seconds} s, though it had a steady rhythm.",
    advice="Records waited for it, and it has processed none or not committed: look at its lag then.",
    root=roots.COMMITS_STOPPED,
    severity=Severity.INFO,
    confidence=0.8,
)

INCIDENT_KINDS = rows_of(globals(), IncidentKind)
_OF_ERROR = {kind.error_code: kind for kind in INCIDENT_KINDS if kind.error_code is not None}
KIND_OF_ERROR = {code: kind for code, kind in _OF_ERROR.items() if kind.repeats_within_ms is None}
"""Refusals that are incidents, by Kafka's error code."""
KIND_OF_LASTING_ERROR = {code: kind for code, kind in _OF_ERROR.items() if kind.repeats_within_ms is not None}
"""Refusals that are incidents where they go on."""
REFUSALS = frozenset(KIND_OF_ERROR.values())
REMOVALS = frozenset(kind for kind in INCIDENT_KINDS if kind.trigger is not None)


def kind_of_refusal(api: str, error_code: int) -> IncidentKind | None:
    """Returns the incident that the refusal of a request is by itself; None if it is none."""
    kind = KIND_OF_ERROR.get(error_code)
    return kind if kind is not None and (kind.apis is None or api in kind.apis) else None
