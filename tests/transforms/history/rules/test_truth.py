"""The ledger beside the simulator's truth: every scenario, from the bytes of its capture."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from lab.truth.against_truth import (
    by_confidence,
    differences,
    holes,
    leaves,
    logged_triggers,
    lost_generations,
    owner_answers,
    scores,
    triggers,
    untimely_tenures,
    wrong_claims,
)
from lab.truth.mixed import MIXED
from lab.truth.simulated import PLAYED, Group, Ledger, groups_of, ledger_of, thinned

pytestmark = pytest.mark.slow

SEED = 7
COMPACTED = "compaction"
COMPLETE = tuple(name for name in PLAYED if name != COMPACTED)
# Played at leisure, its processes die after their first commit, or before it: then no record says why.
UNTOLD = "job-crashes"
MIXED_GROUPS = 5  # of the one in which guesses are hard
SURE = 0.8
FLOORS = (
    ("joined", 0.85, 0.9),
    ("left", 0.85, 0.9),
    ("session_expired", 0.75, 0.75),
    ("leader_rejoined", 0.8, 0.5),
    ("metadata_changed", 0.6, 0.6),
)
"""(trigger, precision, recall)"""


@cache
def played(name: str) -> list[tuple[Group, Ledger]]:
    count = MIXED_GROUPS if name == MIXED.name else None
    return [(group, ledger_of(group)) for group in groups_of(name, SEED, count, is_leisurely=True)]


def all_complete() -> list[tuple[Group, Ledger]]:
    return [each for name in COMPLETE for each in played(name)]


def all_ledgers() -> list[tuple[Group, Ledger]]:
    return [each for name in COMPLETE if name != UNTOLD for each in played(name)]


@pytest.mark.parametrize("name", COMPLETE)
def test_tables_equal_the_truth(name: str) -> None:
    """Goal: no generation, interval of ownership, tenure or rebalance is missing, none is too many, and the changes of
    a rebalance are named; holes are exactly where a generation has no record."""
    for group, ledger in played(name):
        assert differences(group, ledger) == {"generations": [], "assignments": [], "members": [], "rebalances": []}
        assert untimely_tenures(group, ledger) == []
        assert holes(ledger) == lost_generations(group)


def test_owners_at_a_thousand_instants() -> None:
    """Goal: each partition of a group has the owner that it had at that instant, or none; nothing is unknown."""
    random = Random(SEED)
    complete = all_complete()
    for _ in range(1_000):
        group, ledger = random.choice(complete)
        answers = owner_answers(group, ledger, random.randrange(BEGAN_AT_MS, group.until_ms))
        assert (answers.wrong, answers.unknown) == ([], 0)
        assert answers.definite


def test_triggers_by_log() -> None:
    """Goal: with the brokers' server logs imported, the trigger of every rebalance is known."""
    found = [each for group, ledger in all_complete() for each in logged_triggers(group, ledger)]
    assert [each for each in found if each.truth != each.guess] == []
    assert len({each.truth for each in found}) >= 6


def test_inferred_triggers() -> None:
    """Goal: at least nine of ten guesses are right; for each frequent trigger, most cases are found and most guesses
    are right; the guesses with the highest confidence are right more often than the others."""
    guesses = [guess for group, ledger in all_ledgers() for guess in triggers(group, ledger)]
    assert sum(guess.truth == guess.guess for guess in guesses) >= 0.9 * len(guesses)
    of = scores(guesses)
    for name, precision, recall in FLOORS:
        assert of[name].guess_count
        assert of[name].right_count >= precision * of[name].guess_count, name
        assert of[name].right_count >= recall * of[name].truth_count, name
    steps = by_confidence(guesses)
    sure, unsure = ([step for step in steps if (step[0] >= SURE) is is_sure] for is_sure in (True, False))
    assert share_right(sure) >= 0.95
    assert share_right(sure) > share_right(unsure)


def share_right(steps: list[tuple[float, int, int]]) -> float:
    return sum(right for *_, right in steps) / sum(count for _, count, _ in steps)


def test_leave_causes() -> None:
    """Goal: why a member went is right nine times of ten, and always where the records say it."""
    guesses = [guess for group, ledger in all_ledgers() for guess in leaves(group, ledger)]
    assert sum(guess.truth == guess.guess for guess in guesses) >= 0.9 * len(guesses)
    stated = {guess.truth for guess in guesses if guess.confidence == 1}
    assert stated == {"replaced"}


def test_who_dies_before_its_first_commit() -> None:
    """Goal: if no record shows why a member left or a rebalance began, the guess is marked as unsure; one commit is
    enough to know."""
    ((group, ledger),) = played(UNTOLD)
    reported = [guess for guess in leaves(group, ledger) if guess.guess == "session_expired"]
    assert len(reported) >= 0.6 * len(leaves(group, ledger))
    guesses = [*leaves(group, ledger), *triggers(group, ledger)]
    wrong = [guess for guess in guesses if guess.guess != guess.truth]
    assert {(guess.truth, guess.guess, guess.confidence) for guess in wrong} == {("session_expired", "left", 0.5)}


def test_a_planted_difference_is_found() -> None:
    """Goal: the comparison itself misses nothing: a row that is gone, doubled or altered is named, in every table."""
    for table in ("generations", "assignments", "members", "rebalances"):
        (group, ledger), *_ = played("leader-loss")
        rows = ledger.rows[table]
        last = rows[-1]
        altered = {**last, "kafka_offset": 1, "from_offset": 1}
        for planted, count in ((rows[:-1], 1), ([*rows, last], 1), ([*rows[:-1], altered], 2)):
            found = differences(group, replace(ledger, rows={**ledger.rows, table: planted}))
            assert {name: len(lines) for name, lines in found.items() if lines} == {table: count}


@pytest.mark.parametrize("name", COMPLETE)
def test_nothing_is_wrong_after_compaction(name: str) -> None:
    """Goal: of a log that was thinned up to some instant, every statement and claim is right, and a definite owner was
    the owner; after that instant owners are known again."""
    random = Random(f"{name} {SEED}")
    for group, _ in played(name):
        late = thinned(group, random)
        ledger = ledger_of(late)
        assert wrong_claims(late, ledger) == []
        answers = [owner_answers(late, ledger, random.randrange(BEGAN_AT_MS, late.until_ms)) for _ in range(50)]
        assert [each.wrong for each in answers] == [[]] * 50
        assert any(each.definite for each in answers)


def test_a_compacted_capture_claims_nothing() -> None:
    """Goal: if the manifest says compacted, records still state what they state, and no owner is definite."""
    for group, ledger in played(COMPACTED):
        assert wrong_claims(group, ledger) == []
        assert ledger.rows["generations"]
        assert all(row["is_hole"] for row in ledger.rows["rebalances"])
        assert not any(row["is_start_known"] or row["is_end_known"] for row in ledger.rows["assignments"])
        answers = owner_answers(group, ledger, (BEGAN_AT_MS + group.until_ms) // 2)
        assert (answers.definite, answers.wrong) == (0, [])
