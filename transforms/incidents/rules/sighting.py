"""One thing that a rule saw: not yet folded with its repeats, not yet linked with what else one cause brought about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules.facts import Place, Proof

# Evidence, the strongest first
OBSERVED = "observed"
REPLAYED = "replayed"
INFERRED = "inferred"

# Kinds
ILLEGAL_GENERATION = "illegal_generation"
UNKNOWN_MEMBER = "unknown_member"
FENCED_INSTANCE = "fenced_instance"
REBALANCE_IN_PROGRESS_COMMIT = "rebalance_in_progress_commit"
FENCED_MEMBER_EPOCH = "fenced_member_epoch"
STALE_MEMBER_EPOCH = "stale_member_epoch"
POLL_TIMEOUT = "poll_timeout"
SESSION_EXPIRED = "session_expired"
STATIC_SUBSCRIPTION_IGNORED = "static_subscription_ignored"
ZOMBIE_COMMIT_SUSPECTED = "zombie_commit_suspected"
OFFSET_REWIND = "offset_rewind"
COMMIT_GAP = "commit_gap"
REBALANCE_STORM = "rebalance_storm"
MEMBER_FLAPPING = "member_flapping"
LEADER_NEVER_SYNCED = "leader_never_synced"
STALLED_TRANSACTION = "stalled_transaction"

# Severities, the mildest first
INFO = "info"
WARNING = "warning"
ERROR = "error"
SEVERITIES = (INFO, WARNING, ERROR)

# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: nothing was done with the request.
COORDINATOR_AWAY = (14, 15, 16)
# Refusals that are incidents, by error code.
KIND_OF_ERROR = {
    22: ILLEGAL_GENERATION,
    25: UNKNOWN_MEMBER,
    27: REBALANCE_IN_PROGRESS_COMMIT,
    82: FENCED_INSTANCE,
    110: FENCED_MEMBER_EPOCH,
    113: STALE_MEMBER_EPOCH,
}
REFUSALS = frozenset(KIND_OF_ERROR.values())
REMOVALS = frozenset({POLL_TIMEOUT, SESSION_EXPIRED})


@dataclass(frozen=True, slots=True)
class Sighting:
    """`happening` tells things apart: sightings of one kind that share it are one occurrence with several proofs.

    `offsets` are those that were refused or that the sighting is about, by place. Null fields are filled from the
    other sightings of the episode and from the history.
    """

    kind: str
    evidence: str
    severity: str
    confidence: float
    first_ms: int
    last_ms: int
    happening: str
    proofs: tuple[Proof, ...]
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    connection_id: str | None = None
    claimed_generation: int | None = None
    current_generation: int | None = None
    incarnation: int | None = None
    offsets: tuple[tuple[Place, int | None], ...] = ()
    duplicates: tuple[int | None, int | None] = (None, None)
    root: str | None = None
    detail: str | None = None
    is_ambiguous: bool = False
