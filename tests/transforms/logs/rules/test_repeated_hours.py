"""Goal: which pass of an hour that comes twice a line is of, by the order of lines; nothing where that can't decide."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from groupledger.schemas.instants import us_of
from groupledger.transforms.logs.rules.repeated_hours import HOURS_MAX, RepeatedHours

LATER_US = us_of(datetime(2026, 11, 1, tzinfo=timezone.utc))


def seen(times: str, hours: RepeatedHours | None = None) -> RepeatedHours:
    """Sees lines of the day on which Vienna's clocks go back from 3:00 to 2:00."""
    hours = hours or RepeatedHours("Europe/Vienna")
    for number, time in enumerate(times.split(), 1):
        hours.see(number, f"2026-10-25 {time}:00")
    return hours


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("01:50 02:10 02:50 02:05 02:40 03:10", [(2, 3, 0), (4, 5, 1)]),
        ("02:10 02:50 02:05", [(1, 2, 0), (3, None, 1)]),
        ("02:20 02:10 03:00", [(1, 1, 0), (2, 2, 1)]),  # the step back is less than an hour by the silence before it
        ("02:10 02:50", []),
        ("01:50 02:10 02:50 03:10", []),
        ("02:10 02:50 02:05 02:50 02:10", []),  # two steps back: a clock that is wrong
        ("01:10 01:50 03:10", []),
        ("02:50 02:05 03:30 01:00 02:30 02:10", [(1, 1, 0), (2, 2, 1), (5, 5, 0), (6, None, 1)]),  # two files in one
    ],
)
def test_the_order_decides(times: str, expected: list[tuple[int, int | None, int]]) -> None:
    assert [tuple(each) for each in seen(times).passes(LATER_US)] == expected


@pytest.mark.parametrize(
    ("time", "hour", "minute", "is_known"),
    [("02:50", 0, 51, True), ("02:50", 1, 40, True), ("02:50", 1, 50, False), ("02:10", 0, 20, True)],
)
def test_when_the_file_was_written_decides(time: str, hour: int, minute: int, *, is_known: bool) -> None:
    """Goal: a file that is followed is of the first pass while the second reading of its last line is to come."""
    written_us = us_of(datetime(2026, 10, 25, hour, minute, tzinfo=timezone.utc))
    assert [tuple(each) for each in seen(f"02:05 {time}").passes(written_us)] == ([(1, None, 0)] if is_known else [])


@pytest.mark.parametrize(
    ("before", "times", "expected"),
    [
        ("02:50 02:05", "02:10 02:40", [(1, None, 1)]),
        ("02:50", "02:05 02:40 03:00", [(1, 2, 1)]),
        ("02:10", "02:20", []),
        ("02:50 02:05 03:10", "02:20", []),
    ],
)
def test_a_rotated_file_goes_on(before: str, times: str, expected: list[tuple[int, int | None, int]]) -> None:
    """Goal: a file that begins within the hour is of the pass in which the one before it ended, or of the next."""
    found = seen(times, seen(before).continued())
    assert [tuple(each) for each in found.passes(LATER_US)] == expected


def test_no_hour_is_repeated() -> None:
    """Goal: an hour that a clock leaves out, and any other hour, has no pass; a time that can't be read changes
    nothing."""
    hours = RepeatedHours("Europe/Vienna")
    for second in ("2026-03-29 01:59:59", "2026-03-29 02:30:00", "2026-03-29 03:00:00", "2026-99-99 00:00:00"):
        assert not hours.see(1, second)
    assert hours.passes(LATER_US) == ()


def test_a_clock_that_goes_to_and_fro() -> None:
    """Attack: a log whose times leave the hour and come back for ever is not followed for ever."""
    hours = seen("02:50 02:05 04:00 " * 1_000)
    assert len(hours.passes(LATER_US)) == 2 * HOURS_MAX
