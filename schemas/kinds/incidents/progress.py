"""Groups that make no progress while records wait for them."""

from __future__ import annotations

from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import IncidentKind
from groupledger.schemas.words import Severity

_NOT_KNOWN_HOW = (Fact.LEFT_IN_ORDER, Fact.LEFT_WITHOUT_A_WORD, Fact.LEFT_UNPOLLED)
GROUP_WITHOUT_MEMBERS = IncidentKind(
    name="group_without_members",
    meaning="All consumers of a group are gone, and records wait in its partitions.",
    happened=(
        "For {seconds} s the group had no members, while up to {detail} records waited in {count} partitions",
        Clause("; {who} was the last", needs=(Fact.LAST_MEMBER_KNOWN,)),
        Clause(", and all of the last members left by themselves", needs=(Fact.LEFT_IN_ORDER,)),
        Clause(", and a session expired: a member disappeared without leaving", needs=(Fact.LEFT_WITHOUT_A_WORD,)),
        Clause(", and a member had not polled within max.poll.interval.ms", needs=(Fact.LEFT_UNPOLLED,)),
        Clause(", and they did not come back after their coordinator had failed", needs=(Fact.COORDINATOR_FAILED,)),
        ".",
    ),
    advice=(
        Clause(
            "Consumers that are stopped leave like this: start them again, or delete the group if it is no longer"
            " needed.",
            needs=(Fact.LEFT_IN_ORDER,),
        ),
        Clause(
            "Find out why their processes ended or were disconnected, and start them again.",
            needs=(Fact.LEFT_WITHOUT_A_WORD,),
        ),
        Clause(
            "Find out what their processing waits for, and start them again.",
            needs=(Fact.LEFT_UNPOLLED,),
            excludes=(Fact.LEFT_WITHOUT_A_WORD,),
        ),
        Clause("Start consumers again. It is unknown whether they were stopped or died", excludes=_NOT_KNOWN_HOW),
        Clause(": import the server log of that time", excludes=(*_NOT_KNOWN_HOW, Fact.LOG_IMPORTED)),
        Clause(".", excludes=_NOT_KNOWN_HOW),
    ),
    settings=(),
    root=roots.MEMBERS_GONE,
    confidence=0.95,
)
COMMIT_GAP = IncidentKind(
    name="commit_gap",
    meaning="A member stopped committing everything that it owns, while records waited for it.",
    happened="{who} stopped committing for all of its partitions for {seconds} s, although it had committed steadily.",
    advice="Records waited, and it processed none or did not commit. Look at its lag at that time.",
    root=roots.COMMITS_STOPPED,
    severity=Severity.INFO,
    confidence=0.8,
)

KINDS = rows_of(globals(), IncidentKind)
