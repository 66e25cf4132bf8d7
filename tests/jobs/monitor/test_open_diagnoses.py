"""Goal: /metrics counts the diagnoses of open episodes by cause, asks for few at a time, and again after a change."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import DeltaError

from groupledger.jobs.ask.one_diagnosis import DIAGNOSED_MAX
from groupledger.jobs.monitor.open_diagnoses import OpenDiagnoses
from tests.jobs.summaries import summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.ask.verdict import EpisodeSummary

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def row(number: int, group: str | None = "g", minutes: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "incident_id": f"i{number}",
        "episode_id": f"e{number}",
        "group_id": group,
        "severity": "warning",
        "first_seen_at": AT,
        "last_seen_at": AT + timedelta(minutes=minutes),
        **fields,
    }


def caused(cause: str | None = "crash_loop", since: datetime = AT) -> EpisodeSummary:
    return summary(severity="error", cause=cause, since=since)


def counting(answer: Callable[[str], EpisodeSummary | None]) -> tuple[OpenDiagnoses, list[str]]:
    """Returns the diagnoses, and the list of episodes that are asked for."""
    asked: list[str] = []

    def ask(_group: str, episode_id: str, _since: datetime) -> EpisodeSummary | None:
        asked.append(episode_id)
        return answer(episode_id)

    return OpenDiagnoses(ask), asked


def test_one_diagnosis_of_two_episodes() -> None:
    """Goal: two episodes of one diagnosis count once; one without a proved cause says so."""
    causes = {"e1": caused(), "e2": caused(), "e3": caused(None), "e4": None}
    diagnoses, _ = counting(causes.get)
    rows = [row(1), row(2), row(3, "h"), row(4)]
    assert diagnoses.of(rows) == {("g", "crash_loop", "error"): 1, ("h", "not_proved", "error"): 1}
    assert diagnoses.of([]) == {}


def test_what_is_not_asked() -> None:
    """Goal: an episode of severity info, or of no group, is not diagnosed; one that did not change is not again."""
    diagnoses, asked = counting(lambda _: caused())
    rows = [row(1), row(2, severity="info"), row(3, None)]
    assert diagnoses.of(rows) == diagnoses.of(rows) == {("g", "crash_loop", "error"): 1}
    assert asked == ["e1"]
    diagnoses.of([row(1, minutes=2)])
    assert asked == ["e1", "e1"]


def test_many_episodes() -> None:
    """Goal: one pass asks for so many at most, and the next one for the others, even if all have changed."""
    diagnoses, asked = counting(lambda key: caused(since=AT + timedelta(minutes=int(key[1:]))))
    rows = [row(number) for number in range(DIAGNOSED_MAX + 5)]
    assert diagnoses.of(rows).total() == DIAGNOSED_MAX == len(asked)
    assert diagnoses.of(rows).total() == DIAGNOSED_MAX + 5 == len(asked)
    more = [row(number, minutes=2) for number in range(DIAGNOSED_MAX + 6)]
    assert diagnoses.of(more).total() == DIAGNOSED_MAX + 6


def test_tables_that_cannot_be_read() -> None:
    """Goal: a diagnosis that fails is not counted, costs no other one, and is asked for again in the next pass."""
    broken = {"e1"}

    def answer(key: str) -> EpisodeSummary:
        if key in broken:
            raise DeltaError("a file is gone")
        return caused()

    diagnoses, asked = counting(answer)
    rows = [row(1), row(2, "h")]
    assert diagnoses.of(rows) == {("h", "crash_loop", "error"): 1}
    broken.clear()
    assert diagnoses.of(rows) == {("g", "crash_loop", "error"): 1, ("h", "crash_loop", "error"): 1}
    assert asked == ["e1", "e2", "e1"]
