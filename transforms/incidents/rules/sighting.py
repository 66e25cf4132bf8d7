"""Holds one observation of a rule, before repeats are merged into one incident and incidents of one cause into an
episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.schemas.kinds.roots import Root
    from groupledger.transforms.incidents.rules.proof import Proof


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """One observation of a rule. `happening` identifies the occurrence: sightings of one kind that share it are one
    occurrence with several proofs.

    `offsets` are the refused offsets, or those that the sighting is about, by partition. Fields that are None are
    filled in from the other sightings of the episode and from the history. `known` are facts for clauses that the rule
    found itself. Sightings of all groups that share one `shared_episode` are one episode.
    """

    kind: IncidentKind
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
    offsets: tuple[tuple[TopicPartition, int | None], ...] = ()
    duplicates: tuple[int | None, int | None] = (None, None)
    never_read: int | None = None
    root: Root | None = None
    detail: str | None = None
    is_ambiguous: bool = False
    known: tuple[str, ...] = ()
    shared_episode: str | None = None
