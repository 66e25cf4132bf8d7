"""Refusals of a generation, an epoch or an instance id that is not the member's, or no longer."""

from __future__ import annotations

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import COMMITS, OF_CONSUMERS, IncidentKind
from groupledger.schemas.words import Severity

ILLEGAL_GENERATION = IncidentKind(
    name="illegal_generation",
    meaning="A request has a generation that is over.",
    happened="{who} sent generation {claimed} when the group was at {current}, and was refused {times} with"
    " ILLEGAL_GENERATION.",
    severity=Severity.ERROR,
    error_code=Error.ILLEGAL_GENERATION.value,
)
UNKNOWN_MEMBER = IncidentKind(
    name="unknown_member",
    meaning="A request comes from a member that the group does not have, or no longer has.",
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
    meaning="A client outside the group commits for it while it has members.",
    happened="{who} committed for {count} partitions without being a member of the group, and was refused {times} with"
    " UNKNOWN_MEMBER_ID, because the group has members.",
    advice="A consumer that uses assign() needs its own group.id. A tool that moves offsets has"
    " to wait until the group has no members. The group's members are not affected.",
    settings=("group.id",),
    root=roots.COMMITS_BESIDE_MEMBERS,
    severity=Severity.ERROR,
)
FENCED_INSTANCE = IncidentKind(
    name="fenced_instance",
    meaning="Another process has the member's instance id (KIP-345).",
    happened="{who} was refused {times} with FENCED_INSTANCE_ID: its coordinator knows another member under its"
    ' instance id "{instance}".',
    root=roots.INSTANCE_STARTED_TWICE,
    severity=Severity.ERROR,
    error_code=Error.FENCED_INSTANCE_ID.value,
    takes_partitions=True,
)
FENCED_MEMBER_EPOCH = IncidentKind(
    name="fenced_member_epoch",
    meaning="A request has a member epoch that the coordinator does not accept (KIP-848).",
    happened="{who} sent epoch {claimed}, which the coordinator no longer accepts, and was refused {times} with"
    " FENCED_MEMBER_EPOCH.",
    severity=Severity.ERROR,
    error_code=Error.FENCED_MEMBER_EPOCH.value,
    takes_partitions=True,
)
STALE_MEMBER_EPOCH = IncidentKind(
    name="stale_member_epoch",
    meaning="A commit has a member epoch that is over (KIP-848).",
    happened="{who} committed with epoch {claimed}, which is over, and was refused {times} with STALE_MEMBER_EPOCH.",
    root=roots.STALE_GENERATION_KEPT,
    severity=Severity.ERROR,
    error_code=Error.STALE_MEMBER_EPOCH.value,
    apis=COMMITS,
    # The epoch rose, and a client commits again with the new one, for as long as default.api.timeout.ms by default.
    recovers_within_ms=60_000,
)
UNRELEASED_INSTANCE_ID = IncidentKind(
    name="unreleased_instance_id",
    meaning="A static member can't join for longer than a session: another one has its instance id (KIP-848).",
    happened='{who} was refused {times} with UNRELEASED_INSTANCE_ID: another member has its instance id "{instance}".',
    advice="It does not work until that one leaves or its session ends: two processes use one group.instance.id,"
    " so give each its own.",
    root=roots.INSTANCE_STARTED_TWICE,
    severity=Severity.ERROR,
    error_code=Error.UNRELEASED_INSTANCE_ID.value,
    apis=OF_CONSUMERS,
    # One that crashed and is started again is refused until its old session ends: after 60 s at most, by default.
    recovers_within_ms=60_000,
)
LATE_ACKNOWLEDGEMENT = IncidentKind(
    name="late_acknowledgement",
    meaning="A member of a share group acknowledges records that it no longer holds.",
    happened="{who} acknowledged records that it no longer held, and was refused {times} with INVALID_RECORD_STATE.",
    advice="The records that it had processed are delivered again: its processing takes longer than the acquisition"
    " lock. Raise group.share.record.lock.duration.ms on the brokers, or lower max.poll.records.",
    settings=("group.share.record.lock.duration.ms", "max.poll.records"),
    root=roots.LOCK_EXPIRED,
    error_code=Error.INVALID_RECORD_STATE.value,
    apis=(ApiKey.SHARE_ACKNOWLEDGE.name,),
)
REBALANCE_IN_PROGRESS_COMMIT = IncidentKind(
    name="rebalance_in_progress_commit",
    meaning="A commit arrived while the group waited for its leader's assignment. This is normal operation.",
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
    meaning="A client committed for a topic or partition that the broker does not have.",
    happened="{who} committed for {count} partitions and was refused {times} with UNKNOWN_TOPIC_OR_PARTITION: the"
    " broker has no such topic or partition.",
    advice="It was deleted, or created again with fewer partitions, or the client is connected to another cluster than"
    " it should be. Remove the topic from its subscription, or check bootstrap.servers.",
    settings=("bootstrap.servers",),
    root=roots.TOPIC_GONE,
    error_code=Error.UNKNOWN_TOPIC_OR_PARTITION.value,
    apis=COMMITS,
)

KINDS = rows_of(globals(), IncidentKind)
