"""Groups that stand still while records wait for them."""

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
COMMIT_GAP = IncidentKind(
    name="commit_gap",
    meaning="A member stopped committing everything that it owns, while records waited for it.",
    happened="{who} stopped committing all of its partitions for {seconds} s, though it had a steady rhythm.",
    advice="Records waited for it, and it has processed none or not committed: look at its lag then.",
    root=roots.COMMITS_STOPPED,
    severity=Severity.INFO,
    confidence=0.8,
)

KINDS = rows_of(globals(), IncidentKind)
