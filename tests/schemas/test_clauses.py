"""Goal: each clause about an incident rests on facts: without a fact, the clauses that need it are gone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.kinds.clauses import Clause, Fact, clauses_of, filled, said
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.roots import ROOTS
from groupledger.schemas.words import words_of
from groupledger.transforms.incidents.rules.explain import REFUSED_COMMIT

if TYPE_CHECKING:
    from groupledger.schemas.kinds.clauses import Text

TEXTS: dict[str, Text] = {
    **{f"{kind.name} happened": kind.happened for kind in INCIDENT_KINDS},
    **{f"{kind.name} advice": kind.advice for kind in INCIDENT_KINDS if kind.advice is not None},
    **{f"{root.name} advice": root.advice for root in ROOTS},
    "a refused commit": REFUSED_COMMIT,
}
CONDITIONAL = {
    f"{name} {number}": (text, clause)
    for name, text in TEXTS.items()
    for number, clause in enumerate(clauses_of(text))
    if clause.needs or clause.excludes
}
# What only a fact allows to say: the words that once were said without it, and the fact that each clause needs.
CLAIMS = {
    "had removed it": Fact.WAS_REMOVED,
    "new owner": Fact.NEW_OWNER,
    "cooperative-sticky": Fact.CLASSIC_GROUP,
}
NEVER_WITH = {"mport the server log": Fact.LOG_IMPORTED}


@pytest.mark.parametrize(("text", "clause"), CONDITIONAL.values(), ids=CONDITIONAL)
def test_without_its_facts_a_clause_is_not_said(text: Text, clause: Clause) -> None:
    assert clause.text in said(text, {*clause.needs})
    for fact in clause.needs:
        assert not clause.holds({*words_of(Fact)} - {fact})
    for fact in clause.excludes:
        assert not clause.holds({*clause.needs, fact})


@pytest.mark.parametrize("name", TEXTS)
def test_a_claim_needs_its_fact(name: str) -> None:
    for clause in clauses_of(TEXTS[name]):
        for words, fact in CLAIMS.items():
            assert words not in clause.text or fact in clause.needs
        for words, fact in NEVER_WITH.items():
            assert words not in clause.text or fact in clause.excludes


def test_every_fact_is_used() -> None:
    """Goal: no fact is looked for in vain."""
    settings = [kind.settings or () for kind in INCIDENT_KINDS] + [root.settings for root in ROOTS]
    settings += [cause.settings for cause in CAUSES]
    texts = [*TEXTS.values(), *(cause.advice for cause in CAUSES), *map(tuple, settings)]
    clauses = itertools.chain(*map(clauses_of, texts))
    used = {fact for clause in clauses for fact in (*clause.needs, *clause.excludes)}
    assert {*words_of(Fact)} <= used


def test_one_partition_is_singular() -> None:
    """Goal: a count of one is one partition, and a client's name stays as it is."""
    text = "{who} holds {count} partitions."
    assert filled(text, (), {"who": "1 partitions", "count": "1"}) == "1 partitions holds 1 partition."
    assert filled(text, (), {"who": "pod", "count": "11"}) == "pod holds 11 partitions."
