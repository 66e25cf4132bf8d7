"""What can go wrong in a group: the kinds of `incidents`, a row each, by family.

A new kind is a row in the module of its family, a name in the imports here, and a rule in `transforms.incidents.rules`
that sights it. The order of the rows matters in one place: an episode with several kinds takes its root from the first
row that has one, unless a rule knows better.
"""

from __future__ import annotations

from groupledger.schemas.kinds.incidents import (
    brokers,
    configuration,
    members,
    offsets,
    progress,
    rebalances,
    refusals,
    transactions,
)
from groupledger.schemas.kinds.incidents.brokers import COORDINATOR_FAILED, COORDINATOR_NOT_FOUND, ZOMBIE_COORDINATOR
from groupledger.schemas.kinds.incidents.configuration import (
    GROUP_FULL,
    GROUP_NOT_AUTHORIZED,
    INCONSISTENT_PROTOCOL,
    INVALID_REGEX,
    INVALID_SESSION_TIMEOUT,
    OFFSET_METADATA_TOO_LARGE,
    STREAMS_INVALID_TOPOLOGY,
    STREAMS_INVALID_TOPOLOGY_EPOCH,
    STREAMS_TOPOLOGY_CHANGED,
    STREAMS_TOPOLOGY_FENCED,
    TOPIC_NOT_AUTHORIZED,
    UNSUPPORTED_ASSIGNOR,
)
from groupledger.schemas.kinds.incidents.kind import COMMITS, IncidentKind
from groupledger.schemas.kinds.incidents.members import (
    FAILED_TO_REJOIN,
    POLL_TIMEOUT,
    REBALANCE_TIMEOUT_FENCED,
    SESSION_EXPIRED,
    STATIC_SUBSCRIPTION_IGNORED,
    ZOMBIE_COMMIT_SUSPECTED,
)
from groupledger.schemas.kinds.incidents.offsets import (
    COMMIT_AHEAD_OF_END,
    LOST_TO_RETENTION,
    OFFSET_OF_FORMER_TOPIC,
    OFFSET_REWIND,
    OFFSET_SKIP,
    OFFSETS_EXPIRE_SOON,
    OFFSETS_EXPIRED,
    PARTITION_NOT_READ,
    RETENTION_OVERTAKES,
    TWO_COMMITTERS,
)
from groupledger.schemas.kinds.incidents.progress import COMMIT_GAP, GROUP_WITHOUT_MEMBERS
from groupledger.schemas.kinds.incidents.rebalances import (
    ASSIGNMENT_NOT_STORED,
    LEADER_NEVER_SYNCED,
    MEMBER_FLAPPING,
    REBALANCE_STORM,
    REBALANCE_STUCK,
    RECONCILIATION_STUCK,
)
from groupledger.schemas.kinds.incidents.refusals import (
    COMMIT_FROM_OUTSIDE,
    FENCED_INSTANCE,
    FENCED_MEMBER_EPOCH,
    ILLEGAL_GENERATION,
    LATE_ACKNOWLEDGEMENT,
    REBALANCE_IN_PROGRESS_COMMIT,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER,
    UNKNOWN_TOPIC_COMMIT,
    UNRELEASED_INSTANCE_ID,
)
from groupledger.schemas.kinds.incidents.transactions import (
    OPEN_TRANSACTION_IN_TOPIC,
    PRODUCER_FENCED,
    STALLED_TRANSACTION,
    UNSTABLE_OFFSETS,
)

INCIDENT_KINDS = (
    *refusals.KINDS,
    *configuration.KINDS,
    *members.KINDS,
    *offsets.KINDS,
    *rebalances.KINDS,
    *transactions.KINDS,
    *brokers.KINDS,
    *progress.KINDS,
)
_OF_ERROR = {kind.error_code: kind for kind in INCIDENT_KINDS if kind.error_code is not None}
KIND_OF_ERROR = {code: kind for code, kind in _OF_ERROR.items() if kind.repeats_within_ms is None}
"""The kinds of refusals that are an incident even if there is only one, by Kafka's error code."""
KIND_OF_LASTING_ERROR = {code: kind for code, kind in _OF_ERROR.items() if kind.repeats_within_ms is not None}
"""The kinds of refusals that are an incident only if they repeat for a while, by Kafka's error code."""
REFUSALS = frozenset(KIND_OF_ERROR.values())
REMOVALS = frozenset(kind for kind in INCIDENT_KINDS if kind.trigger is not None)


def kind_of_refusal(api: str, error_code: int) -> IncidentKind | None:
    """Returns the kind of incident that a single refused request is; None if a single one is no incident."""
    kind = KIND_OF_ERROR.get(error_code)
    return kind if kind is not None and (kind.apis is None or api in kind.apis) else None


__all__ = [
    "ASSIGNMENT_NOT_STORED",
    "COMMITS",
    "COMMIT_AHEAD_OF_END",
    "COMMIT_FROM_OUTSIDE",
    "COMMIT_GAP",
    "COORDINATOR_FAILED",
    "COORDINATOR_NOT_FOUND",
    "FAILED_TO_REJOIN",
    "FENCED_INSTANCE",
    "FENCED_MEMBER_EPOCH",
    "GROUP_FULL",
    "GROUP_NOT_AUTHORIZED",
    "GROUP_WITHOUT_MEMBERS",
    "ILLEGAL_GENERATION",
    "INCIDENT_KINDS",
    "INCONSISTENT_PROTOCOL",
    "INVALID_REGEX",
    "INVALID_SESSION_TIMEOUT",
    "KIND_OF_ERROR",
    "KIND_OF_LASTING_ERROR",
    "LATE_ACKNOWLEDGEMENT",
    "LEADER_NEVER_SYNCED",
    "LOST_TO_RETENTION",
    "MEMBER_FLAPPING",
    "OFFSETS_EXPIRED",
    "OFFSETS_EXPIRE_SOON",
    "OFFSET_METADATA_TOO_LARGE",
    "OFFSET_OF_FORMER_TOPIC",
    "OFFSET_REWIND",
    "OFFSET_SKIP",
    "OPEN_TRANSACTION_IN_TOPIC",
    "PARTITION_NOT_READ",
    "POLL_TIMEOUT",
    "PRODUCER_FENCED",
    "REBALANCE_IN_PROGRESS_COMMIT",
    "REBALANCE_STORM",
    "REBALANCE_STUCK",
    "REBALANCE_TIMEOUT_FENCED",
    "RECONCILIATION_STUCK",
    "REFUSALS",
    "REMOVALS",
    "RETENTION_OVERTAKES",
    "SESSION_EXPIRED",
    "STALE_MEMBER_EPOCH",
    "STALLED_TRANSACTION",
    "STATIC_SUBSCRIPTION_IGNORED",
    "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH",
    "STREAMS_TOPOLOGY_CHANGED",
    "STREAMS_TOPOLOGY_FENCED",
    "TOPIC_NOT_AUTHORIZED",
    "TWO_COMMITTERS",
    "UNKNOWN_MEMBER",
    "UNKNOWN_TOPIC_COMMIT",
    "UNRELEASED_INSTANCE_ID",
    "UNSTABLE_OFFSETS",
    "UNSUPPORTED_ASSIGNOR",
    "ZOMBIE_COMMIT_SUSPECTED",
    "ZOMBIE_COORDINATOR",
    "IncidentKind",
    "kind_of_refusal",
]
