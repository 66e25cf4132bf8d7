"""Goal: words and kinds are each there once, and every kind can be stated."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas import words
from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Fact
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS, IncidentKind
from groupledger.schemas.kinds.roots import ROOTS
from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.words import one_of, words_of
from groupledger.transforms.incidents.rules.explain import explanation, setting_to_change

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = [
    frozenset({group_type, *known})
    for group_type in (Fact.CLASSIC_GROUP, *MODERN_GROUP)
    for known in ((), (Fact.INFERRED,), (Fact.LOG_IMPORTED, Fact.NEW_OWNER))
]
CLASSES = [each for each in vars(words).values() if isinstance(each, type)]
ROW: dict[str, Any] = {
    **dict.fromkeys(("client_id", "member_id", "client_host"), "name"),
    "group_instance_id": "i",
    "claimed_generation": 1,
    "current_generation": 2,
    "occurrences": 2,
    "first_seen_at": 0,
    "last_seen_at": 1,
    "duplicates_min": 1,
    "duplicates_max": 2,
    "severity": "error",
    "partitions": [{"topic": "t", "partition": 0}],
}


@pytest.mark.parametrize("column", CLASSES, ids=lambda column: column.__name__)
def test_the_words_of_a_column_differ(column: type) -> None:
    """Goal: no word of a column occurs twice, and no class is empty."""
    assert len(set(words_of(column))) == len(words_of(column)) > 0


@pytest.mark.parametrize(
    "rows", [INCIDENT_KINDS, ROOTS, CHANGE_KINDS, TRIGGERS], ids=lambda rows: type(rows[0]).__name__
)
def test_a_kind_is_one_row(rows: Sequence[Any]) -> None:
    """Goal: no name occurs twice, and a module's last line collects all its rows."""
    assert len({row.name for row in rows}) == len(rows) > 0


def test_lists_of_words() -> None:
    """Goal: comments list words as a sentence does."""
    assert one_of(("a", "b", "c")) == "a, b or c"
    assert one_of(["a"]) == "a"


@pytest.mark.parametrize("kind", INCIDENT_KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_reported_with_every_root(kind: IncidentKind) -> None:
    """Goal: the sentences name nothing that an incident lacks, and a setting is a name or nothing."""
    for root, facts in itertools.product(ROOTS, GROUPS):
        message = explanation(kind, root, ROW, "3", facts)
        assert message.endswith(".")
        assert "{" not in message
        assert setting_to_change(kind, root, facts) != ""
