"""Defines one observation of a rule, before repeats are merged into one incident and incidents of one cause into an
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
    """Holds one observation of a rule. `happening` identifies the occurrence: sightings of one kind with the same
    `happening` are one occurrence with several proofs.

    `offsets` are refused offsets, or other offsets that the sighting is about, by partition. Fields about the member
    and the generation that are None are filled in from the history and the logs (`context`). `known` are facts for the
    clauses of the explanation that the rule itself found. Sightings of several groups with the same `shared_episode`
    are one episode.
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
