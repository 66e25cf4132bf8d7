"""Goal: `bench.diagnosis` counts as right, left open, wrong or blamed as its judge's text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.words import Severity
from lab.diagnosis.judge import RIGHT, RIVALS, SILENT, WRONG, Said, judged
from lab.diagnosis.levels import said
from lab.diagnosis.plays import all_plays
from lab.diagnosis.truth import Cause, Played, read_truth, write_truth

if TYPE_CHECKING:
    from pathlib import Path


def played(*causes: Cause) -> Played:
    return Played("g0001", "play", "java", 1_800_000_000_000, list(causes), ["g0001-1", "g0001-2"])


def left(*rivals: str, who: str | None = None) -> Said:
    return Said(rivals, () if who is None else (who,), is_proved=False)


KILLED = Cause("session_timeout", ["network"], ["zombie"], ["g0001-2"])


@pytest.mark.parametrize(
    ("said", "outcome", "false_claims"),
    [
        ([Said(("session_timeout",))], RIGHT, ()),
        ([Said(("network",))], RIGHT, ()),
        ([left("poll_timeout", "session_timeout")], RIVALS, ()),
        ([left("session_timeout")], RIVALS, ()),
        ([Said(("poll_timeout",))], WRONG, ("poll_timeout",)),
        ([Said(("session_timeout",)), Said(("poll_timeout",))], RIGHT, ("poll_timeout",)),
        ([Said(("zombie",))], SILENT, ()),
        ([left("poll_timeout", "deploy")], SILENT, ()),
        ([left()], SILENT, ()),
        ([Said(("scaling",), severity=Severity.INFO)], SILENT, ()),
        ([], SILENT, ()),
    ],
)
def test_a_cause_is_right_among_rivals_wrong_or_silent(
    said: list[Said], outcome: str, false_claims: tuple[str, ...]
) -> None:
    found = judged(played(KILLED), said)
    assert found.outcomes == (("session_timeout", outcome),)
    assert found.false_claims == false_claims


def test_normal_operation_beside_a_cause_claims_nothing() -> None:
    """Goal: a cause beside a grave cause is as grave as it is by itself: normal operation beside it claims nothing."""
    found: dict[str, Any] = {
        "cause": "poll_timeout",
        "fault": None,
        "client_id": None,
        "severity": "warning",
        "rivals": [],
    }
    said_of = said({"diagnosis": [found | {"beside": ["scaling", "session_timeout"]}]})
    assert [(each.causes[0], each.claims) for each in said_of] == [
        ("poll_timeout", True),
        ("scaling", False),
        ("session_timeout", True),
    ]


def test_each_of_two_causes_is_judged() -> None:
    causes = (KILLED, Cause("inconsistent_protocol", who=["g0001-3"]))
    found = judged(played(*causes), [Said(("inconsistent_protocol",))])
    assert found.outcomes == (("session_timeout", SILENT), ("inconsistent_protocol", RIGHT))


def test_who_is_named_and_well_is_blamed() -> None:
    claim = Said(("session_timeout",), ("g0001-1", "g0001-2"))
    assert judged(played(KILLED), [claim]).blamed == ("g0001-1",)
    assert judged(played(), [Said(("deploy",), ("g0001-1",), Severity.INFO)]).blamed == ()
    assert judged(played(), [left("slow", "stuck", who="g0001-1")]).blamed == ("g0001-1",)
    assert judged(played(), [Said(("slow",), ("of-somebody-else",))]).blamed == ()


def test_anything_said_of_a_group_that_is_well_is_a_false_claim() -> None:
    assert judged(played(), [Said(("session_timeout",))]).false_claims == ("session_timeout",)


def test_the_truth_comes_back_from_its_file(tmp_path: Path) -> None:
    plays = [played(KILLED), played()]
    write_truth(tmp_path / "truth.jsonl", plays)
    assert read_truth(tmp_path / "truth.jsonl") == plays


def test_enough_causes_are_played() -> None:
    assert len(all_plays()) >= 50
    assert sum(len(each.clients) for each in all_plays().values()) >= 100
