"""Incidents of brokers: nothing has to change in a client."""

from __future__ import annotations

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import IncidentKind
from groupledger.schemas.words import Severity

COORDINATOR_FAILED = IncidentKind(
    name="coordinator_failed",
    meaning="The coordinator of several groups at once moved, died or stood still, and members dropped out of them.",
    happened=(
        Clause("Coordinators moved, died or stood still: ", needs=(Fact.WHOLE_CLUSTER,)),
        Clause(
            "The group's coordinator moved, died or stood still, and members that had done nothing wrong dropped out: ",
            excludes=(Fact.WHOLE_CLUSTER,),
        ),
        "{detail}.",
    ),
    advice="Nothing has to change in the clients: find out why that broker stopped, stood still or gave up its"
    " partitions. Why a member dropped out then is not known, unless its own log says so.",
    settings=(),
    root=roots.COORDINATOR_FAILOVER,
    confidence=0.7,
)
ZOMBIE_COORDINATOR = IncidentKind(
    name="zombie_coordinator",
    meaning="A broker continued to act for a group that it no longer coordinated.",
    happened=(
        "{detail} logged {times} that it acted for the group, which it no longer coordinated: ",
        Clause("another broker had loaded the group before", needs=(Fact.OTHER_COORDINATOR,)),
        Clause(
            "it could not store an assignment (NOT_COORDINATOR)",
            needs=(Fact.NOT_COORDINATOR,),
            excludes=(Fact.OTHER_COORDINATOR,),
        ),
        Clause(
            "the records show that members that it removed stayed",
            excludes=(Fact.OTHER_COORDINATOR, Fact.NOT_COORDINATOR),
        ),
        ".",
    ),
    advice="Its log lines changed nothing in the group. Nothing has to change in the clients: look at that broker.",
    settings=(),
    root=roots.COORDINATOR_FAILOVER,
    is_pattern=True,
)
COORDINATOR_NOT_FOUND = IncidentKind(
    name="coordinator_not_found",
    meaning="A client cannot find the coordinator of its group for a long time.",
    happened="{who} looked for the group's coordinator for {seconds} s and got {times} the answer"
    " COORDINATOR_NOT_AVAILABLE: there was none.",
    advice="It can't join or commit until a broker leads the partition of __consumer_offsets with the"
    " group. Look at its replicas and at the brokers. Nothing has to change in the client.",
    settings=(),
    root=roots.OFFSETS_TOPIC_UNAVAILABLE,
    severity=Severity.ERROR,
    error_code=Error.COORDINATOR_NOT_AVAILABLE.value,
    apis=(ApiKey.FIND_COORDINATOR.name,),
    # Clients ask again at once, or after retry.backoff.ms; a slow one each minute.
    repeats_within_ms=90_000,
)

KINDS = rows_of(globals(), IncidentKind)
