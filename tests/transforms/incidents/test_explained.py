"""Goal: the explanation of each kind of incident is divided where what happened ends, whatever facts it has."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kinds.clauses import clauses_of, filled
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS, SESSION_EXPIRED
from groupledger.transforms.incidents.explained import divided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.schemas.kinds.incidents import IncidentKind

ADVICE = "Look at its log. Then start it again."
NAMES = {
    **dict.fromkeys(("claimed", "current", "seconds", "partition"), "7"),
    "who": "pod 1. a at 10.0.0.1",
    "times": "3 times",
    "instance": "pod-1",
    "detail": "12",
    "duplicates": "",
}


def fact_sets(kind: IncidentKind) -> Iterator[set[str]]:
    """Yields the sets of at most three facts that clauses of the kind's sentence need or exclude."""
    facts = {fact for clause in clauses_of(kind.happened) for fact in (*clause.needs, *clause.excludes)}
    for chosen in chain.from_iterable(combinations(sorted(facts), size) for size in range(4)):
        yield {*chosen}


@pytest.mark.parametrize("count", ["1", "12"])
@pytest.mark.parametrize("kind", INCIDENT_KINDS, ids=lambda kind: kind.name)
def test_where_what_happened_ends(kind: IncidentKind, count: str) -> None:
    for facts in fact_sets(kind):
        happened = filled(kind.happened, facts, {**NAMES, "count": count})
        assert divided(kind.name, f"{happened} {ADVICE}") == (happened, ADVICE)
        assert divided(kind.name, happened) == (happened, None)


def test_words_of_another_release() -> None:
    """Goal: a text that is not of this release's clauses, or a kind that it does not know, stays whole."""
    for kind in (SESSION_EXPIRED.name, "offset_teleported"):
        assert divided(kind, "It was silent. Restart it.") == ("It was silent. Restart it.", None)
