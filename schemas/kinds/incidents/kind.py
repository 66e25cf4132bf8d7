"""Defines a kind of incident: a row of the table of kinds, and values that several rows share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from groupledger.schemas.kinds import roots, triggers
    from groupledger.schemas.kinds.clauses import Text


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
    recovers_within_ms the refusal is normal operation where the same is accepted so soon after it
    takes_partitions   a heartbeat that is refused so informs a member that it lost its partitions
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
    recovers_within_ms: int | None = None
    takes_partitions: bool = False
    trigger: triggers.Trigger | None = None
    is_pattern: bool = False
    confidence: float = 1.0


COMMITS = (ApiKey.OFFSET_COMMIT.name, ApiKey.TXN_OFFSET_COMMIT.name)
JOINS = (ApiKey.JOIN_GROUP.name, ApiKey.SYNC_GROUP.name)
OF_CONSUMERS = (ApiKey.CONSUMER_GROUP_HEARTBEAT.name,)
OF_STREAMS = (ApiKey.STREAMS_GROUP_HEARTBEAT.name,)
# A share or streams group has no static members, nor has Kafka Connect.
UNCONFIRMED = Clause(" One broker logged that, and no record confirms it.", needs=(Fact.ONLY_LOGGED,))
WITHOUT_STATIC_MEMBERS = (Fact.SHARE_GROUP, Fact.STREAMS_GROUP, Fact.CONNECT_GROUP)
