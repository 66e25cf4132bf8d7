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

    A refusal is a request that a broker answered with an error. An episode is a set of incidents that belong together;
    its root is what probably began it.

    happened, advice   the two sentences of an explanation, in clauses; `transforms.incidents.rules.explain` fills in
                       the names. If a kind has no advice, the explanation has that of the episode's root
    static_advice      the advice about a static member, used if the kind has no `advice` and the episode has the root
                       of this kind
    settings           the settings that prevent the incident; None: those of the episode's root
    root               the root of an episode with this kind, if no rule finds a better one
    severity           the severity of the incident. If the kind is a refusal and has no `apis`, only refused commits
                       have it, and other requests have a lower one
    error_code         Kafka's error code, if the kind is a refusal
    apis               the requests that the refusal can be about, all with `severity`; None: any request
    repeats_within_ms  set if one refusal alone is normal operation. An incident is then a series of refusals that
                       lasts; each follows the one before within this time
    recovers_within_ms set if the refusal is normal operation when the broker accepts the same commit or join within
                       this time
    takes_partitions   True if a heartbeat that is refused with this error shows the member that it has lost its
                       partitions
    trigger            the trigger of the leave, if the kind is the removal of a member from its group
    is_pattern         True if the incident is about many rows of the group together, such as a storm or flapping, not
                       about a single one; all patterns of a group at about the same time share an episode
    confidence         how often an inferred incident of this kind was right in bench.incident_accuracy, rounded down
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
