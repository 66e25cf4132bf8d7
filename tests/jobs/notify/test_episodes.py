"""Goal: each receiver gets the messages that it asked for, once when it begins and once when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from groupledger.jobs.notify.episodes import (
    SET_BACK_MS,
    IncidentEpisode,
    Notified,
    ReceiverFilter,
    after,
    episodes_of,
    messages,
    still_needed,
)

MINUTE_MS = 60_000
NOW_MS = 1_760_000_000_000
SINCE_MS = NOW_MS - 60 * MINUTE_MS
EPISODE = IncidentEpisode(
    episode_id="e1",
    group_id="pay-eu",
    team="payments",
    kinds=("session_expired", "illegal_generation"),
    severity="error",
    sentence="pod-a was refused.",
    settings=("session.timeout.ms",),
    first_seen_ms=NOW_MS - 5 * MINUTE_MS,
    last_seen_ms=NOW_MS - MINUTE_MS,
    is_open=True,
)
OVER = replace(EPISODE, is_open=False)
OLD = replace(EPISODE, last_seen_ms=SINCE_MS - 1)
ALL = ReceiverFilter(severity="error", kinds=(), teams=(), groups=frozenset({"pay-eu", "other"}))


def events_of(
    *episodes: IncidentEpisode, reported: dict[str, Notified] | None = None, wanted: ReceiverFilter = ALL
) -> tuple[list[str], dict[str, Notified]]:
    """Returns the events of one look, and the notes after it."""
    known = dict(reported or {})
    events: list[str] = []
    for message in messages(episodes, known, wanted, SINCE_MS):
        events.append(message.event)
        known = after(known, message)
    return events, known


def test_an_episode_is_reported_once_and_ends_once() -> None:
    """Goal: found, going on, over, and over still are sent as two messages."""
    events, reported = events_of(EPISODE)
    assert events == ["fired"]
    for episode, expected in ((EPISODE, []), (OVER, ["resolved"]), (OVER, []), (OVER, [])):
        events, reported = events_of(episode, reported=reported)
        assert events == expected


def test_what_is_over_when_it_is_found() -> None:
    """Goal: an hourly pipeline sends what has come and gone meanwhile, with its end; a second one says nothing."""
    events, reported = events_of(OVER)
    assert events == ["fired", "resolved"]
    assert events_of(OVER, reported=reported) == ([], reported)


def test_an_old_episode_is_history() -> None:
    """Goal: no message is sent about old episodes that a first run finds, but a receiver that got one gets its end."""
    assert events_of(OLD) == ([], {})
    assert events_of(replace(OLD, is_open=False), reported={"e1": Notified(0)})[0] == ["resolved"]


def test_an_episode_that_is_seen_again() -> None:
    """Goal: an episode that was over and goes on is sent again, under the same id."""
    reported = {"e1": Notified(SINCE_MS, is_over=True)}
    assert events_of(EPISODE, reported=reported)[0] == ["fired"]


def test_an_episode_that_a_log_refutes() -> None:
    """Goal: an episode that the table has no longer is taken back, once."""
    events, reported = events_of(reported={"e1": Notified(NOW_MS)})
    assert events == ["resolved"]
    assert events_of(reported=reported)[0] == []


def test_a_receiver_that_forgets() -> None:
    """Goal: a receiver that forgets gets an episode at each look as long as it is open."""
    forgets = replace(ALL, forgets=True)
    events, reported = events_of(EPISODE, wanted=forgets)
    assert events == ["fired"]
    assert events_of(EPISODE, reported=reported, wanted=forgets)[0] == ["repeated"]
    assert events_of(OVER, reported=reported, wanted=forgets)[0] == ["resolved"]


@pytest.mark.parametrize(
    ("wanted", "is_reported"),
    [
        ({"severity": "info"}, True),
        ({"kinds": ("illegal_generation",)}, True),
        ({"kinds": ("commit_gap",)}, False),
        ({"teams": ("payments",)}, True),
        ({"teams": ("search",)}, False),
        ({"groups": frozenset({"other"})}, False),
    ],
)
def test_what_a_receiver_asks_for(wanted: dict[str, Any], is_reported: bool) -> None:
    """Goal: severity, kinds, teams and names of groups decide, each by itself."""
    assert bool(events_of(EPISODE, wanted=replace(ALL, **wanted))[0]) == is_reported


def test_a_warning_is_no_error() -> None:
    """Goal: a receiver of errors gets no warning, and one of a whole partition of the log passes any name."""
    assert events_of(replace(EPISODE, severity="warning"))[0] == []
    assert events_of(replace(EPISODE, group_id=None), wanted=replace(ALL, groups=frozenset()))[0] == ["fired"]


def test_what_is_kept() -> None:
    """Goal: an episode that was sent is kept while it is not over, or recent enough to be sent again."""
    reported = {
        "open": Notified(0),
        "recent": Notified(SINCE_MS, is_over=True),
        "old": Notified(SINCE_MS - SET_BACK_MS - 1, is_over=True),
    }
    assert still_needed(reported, SINCE_MS).keys() == {"open", "recent"}


@pytest.mark.parametrize("set_ms", [60 * MINUTE_MS, -60 * MINUTE_MS, 1_440 * MINUTE_MS, -1_440 * MINUTE_MS])
def test_a_clock_that_is_set(set_ms: int) -> None:
    """Attack: the host's clock jumps by an hour or a day while an episode of another group begins, and is set right
    again. What was sent and is over is not sent again."""
    reported: dict[str, Notified] = {}
    events: list[tuple[str, str]] = []
    other = replace(EPISODE, episode_id="e2")
    for since_ms, episodes in (
        (SINCE_MS, [OVER]),
        (SINCE_MS + set_ms, [OVER, replace(other, last_seen_ms=other.last_seen_ms + max(set_ms, 0))]),
        (SINCE_MS, [OVER, other]),
    ):
        for message in messages(episodes, dict(reported), ALL, since_ms):
            events.append((message.episode_id, message.event))
            reported = still_needed(after(reported, message), since_ms)
    assert events == [("e1", "fired"), ("e1", "resolved"), ("e2", "fired")]


def test_rows_become_episodes() -> None:
    """Goal: the gravest incident of an episode speaks for it; times, kinds and settings, each once, are those of
    all its rows."""

    def row(kind: str, severity: str, second: int, setting: str | None, *, is_open: bool) -> dict[str, Any]:
        at = datetime(2026, 1, 1, 12, 0, second, tzinfo=timezone.utc)
        return {
            "episode_id": "e1",
            "group_id": "pay-eu",
            "kind": kind,
            "severity": severity,
            "is_open": is_open,
            "first_seen_at": at,
            "last_seen_at": at,
            "explanation": f"About {kind}.",
            "setting_to_change": setting,
        }

    rows = [
        row("session_expired", "warning", 1, "session.timeout.ms", is_open=False),
        row("illegal_generation", "error", 5, "session.timeout.ms, group.id", is_open=True),
        {**row("offset_rewind", "warning", 3, None, is_open=False), "episode_id": "e2", "group_id": None},
    ]
    first, second = episodes_of(rows, {"pay-eu": "payments"})
    assert (first.episode_id, first.severity, first.sentence) == ("e1", "error", "About illegal_generation.")
    assert first.kinds == ("illegal_generation", "session_expired")
    assert first.settings == ("session.timeout.ms", "group.id")
    assert (first.last_seen_ms - first.first_seen_ms, first.is_open, first.team) == (4_000, True, "payments")
    assert (second.episode_id, second.team, second.is_open) == ("e2", None, False)
