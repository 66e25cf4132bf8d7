"""Goal: a group that was judged is judged again for as long as time alone may change its incidents."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.transforms.incidents.rules import Commit, CommitStep, GroupFacts, Rules
from groupledger.transforms.incidents.rules.settling import ALWAYS_MS, KNOWN_WITHIN_MS, settling

AT_MS, LATER_MS = 1_760_000_000_000, 1_760_000_500_000
REFUSAL = next(kind.name for kind in INCIDENT_KINDS if kind.error_code is not None)


def commit(at_ms: int) -> Commit:
    return Commit(kafka_partition=0, kafka_offset=at_ms, at_ms=at_ms, topic="t", partition=0, offset=1)


def facts(**given: Any) -> GroupFacts:
    return GroupFacts("g", LATER_MS, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"members": [{"joined_at": AT_MS * 1_000, "left_at": LATER_MS * 1_000}]},
        {"generations": [{"started_at": LATER_MS * 1_000, "current_state_at": None, "ended_at": None}]},
        {"rebalances": [{"happened_at": LATER_MS * 1_000}]},
        {"steps": [CommitStep(commit=commit(AT_MS), next_commit=commit(LATER_MS), interval_ms=None)]},
    ],
)
def test_waits_after_the_last_fact(given: dict[str, Any]) -> None:
    """Goal: rules wait for what follows the last fact, and samples and coverage of its time may come later."""
    found = settling(facts(**given), [], Rules())
    assert found == {
        "may_change_until_ms": LATER_MS + 2 * KNOWN_WITHIN_MS,
        "waits_for_commits": False,
        "away": [],
    }


def test_waits_for_a_join_phase() -> None:
    """Goal: a member that a log says departed may be contradicted until all could have joined again."""
    members = [{"joined_at": AT_MS * 1_000, "left_at": None, "rebalance_timeout_ms": 7}]
    found = settling(facts(members=members), [], Rules(open_ms=900_000))
    assert found["may_change_until_ms"] == AT_MS + 1_800_000 + 7


def test_open_incidents_and_commits() -> None:
    """Goal: a group with an open incident is judged in every pass; one that may have processed records twice, with its
    next commit."""
    row = {"is_open": True, "kind": REFUSAL, "duplicates_min": 1, "duplicates_max": 1}
    found = settling(facts(), [row], Rules())
    assert found == {"may_change_until_ms": ALWAYS_MS, "waits_for_commits": False, "away": []}
    row |= {"is_open": False, "duplicates_max": 2}
    assert settling(facts(), [row], Rules())["waits_for_commits"]


def test_lost_offsets() -> None:
    """Goal: a group that lost an offset is judged when its partition is committed again."""
    lost = {"topic": "t", "partition": 1, "at_ms": AT_MS}
    found = settling(facts(lost=[{**lost, "row_key": "r", "kafka_offset": 7}]), [], Rules())
    assert (found["waits_for_commits"], found["away"]) == (False, [lost])
