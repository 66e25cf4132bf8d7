"""Goal: the table of causes is whole and consistent: each cause can be stated, claims no more than its signs show, and
gives no advice that a type of group refuses."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kinds import causes, incidents, signs
from groupledger.schemas.kinds.causes import CAUSE_NAMED, CAUSES, FAMILIES
from groupledger.schemas.kinds.causes.cause import WHO_CAN_FIX, Cause, Fault, owner_of, who_can_fix
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Clause, Fact, clauses_of, said, settings_of
from groupledger.schemas.kinds.signs import COMPUTED_SIGNS
from groupledger.schemas.kinds.symptoms import SYMPTOMS, symptom_of_kind
from groupledger.schemas.words import words_of
from groupledger.transforms.incidents.diagnosis.evidence import Seen
from groupledger.transforms.incidents.diagnosis.judge import judged, proof_of
from groupledger.transforms.incidents.diagnosis.signs_seen import ALL_SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.schemas.kinds.clauses import Text
    from groupledger.schemas.kinds.signs import Sign

FOLDER = Path(causes.__file__).parent
# What no client with group.protocol=consumer (KIP-848), share or streams starts with.
CLASSIC_ONLY = re.compile(r"(?<![\w.])(partition\.assignment\.strategy|session\.timeout\.ms|heartbeat\.interval\.ms)")
CONDITIONAL = {
    f"{cause.name} {part} {number}": (text, clause)
    for cause in CAUSES
    for part, text in (("happened", cause.happened), ("by", cause.by), ("advice", cause.advice))
    for number, clause in enumerate(clauses_of(text))
    if clause.needs or clause.excludes
}
PROOFS = [(cause, proof) for cause in CAUSES for proof in cause.proved_by]
FACTS = {*words_of(Fact), *ALL_SIGNS, *(sign.name for sign in COMPUTED_SIGNS)}
# What may be said of a group only if the sign is there: words that once were said without.
CLAIMS = {"records wait, and nobody": signs.RECORDS_WAIT.name, "cooperative-sticky": Fact.CLASSIC_GROUP}


def named(cause: Cause) -> str:
    return cause.name


def test_a_cause_is_one_row() -> None:
    """Goal: no name occurs twice, and no family is left out."""
    assert len({cause.name for cause in CAUSES}) == len(CAUSES) >= 60
    assert len(FAMILIES) == len([*FOLDER.glob("[!_]*.py")]) - 1  # cause.py has the class of a row


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda each: each.name)
def test_a_symptom_has_causes(symptom: object) -> None:
    """Goal: each symptom has causes, and one of them at least can be proved."""
    assert any(symptom in cause.symptoms and cause.proved_by for cause in CAUSES)


@pytest.mark.parametrize("kind", incidents.INCIDENT_KINDS, ids=lambda each: each.name)
def test_an_incident_shows_a_symptom(kind: incidents.IncidentKind) -> None:
    """Goal: no incident is without a symptom, and each is a sign of a cause that shows it."""
    symptom = symptom_of_kind(kind.name)
    assert symptom is not None
    causes = [cause for cause in CAUSES if symptom in cause.symptoms]
    assert any(
        kind.name in sign.kinds or cause.kind == kind.name or (kind.root is not None and kind.root.name in sign.roots)
        for cause in causes
        for sign in cause.signs
    ) or kind in {incidents.REBALANCE_STORM, incidents.MEMBER_FLAPPING, incidents.GROUP_WITHOUT_MEMBERS}


@pytest.mark.parametrize("cause", CAUSES, ids=named)
def test_a_cause_can_be_stated(cause: Cause) -> None:
    """Goal: whatever is known, its sentence has words for all places, ends as a sentence does, and says what would
    prove it."""
    assert cause.symptoms
    assert cause.decided_by.endswith((".", "?"))
    assert cause.fault in words_of(Fault)
    for facts in known_facts(cause):
        text = said(cause.happened, facts).format(**PLACES)
        assert text.endswith(".")
        assert not {"{", "}"} & {*said(cause.advice, facts)}
        assert "" not in settings_of(cause.settings, facts)


def known_facts(cause: Cause) -> Iterable[set[str]]:
    """Yields the signs that prove it, or that it needs, for each type of group."""
    proofs = cause.proved_by or ((*cause.needs, *cause.suspected_by),)
    for proof, of_type in itertools.product(proofs, (Fact.CLASSIC_GROUP, *MODERN_GROUP)):
        yield {of_type, *(sign.name for sign in (*cause.needs, *proof))}


@pytest.mark.parametrize(("text", "clause"), CONDITIONAL.values(), ids=CONDITIONAL)
def test_without_its_facts_a_clause_is_not_said(text: Text, clause: Clause) -> None:
    """Goal: with a fact or a sign taken away, the clauses that need it are gone; and no clause needs a fact that nobody
    can see."""
    assert {*clause.needs, *clause.excludes} <= FACTS
    assert clause.text in said(text, {*clause.needs})
    for name in clause.needs:
        assert clause.text not in said(text, FACTS - {name} - {*clause.excludes})
    for name in clause.excludes:
        assert not clause.holds({*clause.needs, name})


@pytest.mark.parametrize(("cause", "proof"), PROOFS, ids=lambda each: getattr(each, "name", ""))
def test_a_proof_needs_each_sign(cause: Cause, proof: tuple[Sign, ...]) -> None:
    """Goal: all signs of a proof prove the cause; with one taken away, it is not proved by the others; with one
    against it, it is not said at all."""
    names = {sign.name for sign in (*cause.needs, *proof)}
    assert proof_of(cause, Seen(known=dict.fromkeys(names, 1.0))) is not None
    others = [{sign.name for sign in (*cause.needs, *each)} for each in cause.proved_by]
    for name in names:
        left = names - {name}
        found = proof_of(cause, Seen(known=dict.fromkeys(left, 1.0)))
        assert (found is None) == (not any(each <= left for each in others))
    for sign in cause.against:
        judgement = judged(cause.symptoms, Seen(known=dict.fromkeys({*names, sign.name}, 1.0)))
        assert cause not in (judgement.cause, *judgement.beside, *judgement.rivals)


@pytest.mark.parametrize("cause", CAUSES, ids=named)
def test_advice_fits_the_group(cause: Cause) -> None:
    """Goal: no group whose brokers decide is advised to change what its clients refuse, and no client is advised to
    change anything where the brokers are at fault."""
    for of_type, more in itertools.product(MODERN_GROUP, ((), ALL_SIGNS)):
        facts = {of_type, *more}
        words = [said(cause.advice, facts), *settings_of(cause.settings, facts)]
        if cause.kind is None:
            assert not [each for each in words if CLASSIC_ONLY.search(each)]
    if cause.fault == Fault.BROKERS:
        assert "group.instance.id" not in str(cause.settings)
        assert "max.poll" not in str(cause.settings)


@pytest.mark.parametrize("cause", CAUSES, ids=named)
def test_who_has_a_setting_is_named(cause: Cause) -> None:
    """Goal: whoever can change one of the settings is among those who can fix the cause, unless nobody has to."""
    names = [clause.text for clause in clauses_of(tuple(cause.settings))]
    whom = who_can_fix(cause.fault, ", ".join(names) or None)
    assert whom.startswith(WHO_CAN_FIX[cause.fault])
    for name in names:
        assert cause.fault == Fault.NOBODY or WHO_CAN_FIX[owner_of(name)] in whom


def test_a_setting_of_somebody_else() -> None:
    """Goal: of two who share the settings, each is named with what is its own."""
    cause = CAUSE_NAMED["passed_by_retention"]
    assert who_can_fix(cause.fault, ", ".join(settings_of(cause.settings, ()))) == (
        "whoever operates topics, offsets, rights and deployments; auto.offset.reset: whoever runs the group's"
        " consumers"
    )


@pytest.mark.parametrize("cause", CAUSES, ids=named)
def test_a_claim_needs_its_sign(cause: Cause) -> None:
    for text in (cause.happened, cause.advice, tuple(cause.settings)):
        for clause in clauses_of(text):
            for words, fact in CLAIMS.items():
                assert words not in clause.text or fact in clause.needs


PLACES = dict.fromkeys(
    (
        "who",
        "last",
        "times",
        "seconds",
        "records",
        "place",
        "offset",
        "members",
        "topics",
        "count",
        "duplicates",
        "detail",
        "hosts",
        "session",
        "expires",
    ),
    "x",
)
