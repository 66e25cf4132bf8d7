"""Goal: the instants that people type mean what they expect, in the zone that they read in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from groupledger.jobs.process.instants import read_instant

VIENNA = ZoneInfo("Europe/Vienna")
NOW = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)  # half an hour after Vienna's clocks went from 2:00 to 3:00


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("now", timezone.utc, NOW),
        (" 2h ", timezone.utc, NOW - timedelta(hours=2)),
        ("90s", VIENNA, NOW - timedelta(seconds=90)),
        ("15m", VIENNA, NOW - timedelta(minutes=15)),
        ("3d", VIENNA, NOW - timedelta(days=3)),
        ("1w", VIENNA, NOW - timedelta(weeks=1)),
        ("01:30", timezone.utc, NOW),
        ("01:30:01", timezone.utc, NOW - timedelta(days=1) + timedelta(seconds=1)),
        ("03:15", VIENNA, NOW - timedelta(minutes=15)),
        ("23:15", VIENNA, datetime(2026, 3, 28, 22, 15, tzinfo=timezone.utc)),
        ("2026-01-31T14:03:00Z", VIENNA, datetime(2026, 1, 31, 14, 3, tzinfo=timezone.utc)),
        ("2026-01-31T14:03", VIENNA, datetime(2026, 1, 31, 13, 3, tzinfo=timezone.utc)),
        ("2026-07-31", VIENNA, datetime(2026, 7, 30, 22, 0, tzinfo=timezone.utc)),
        ("2026-01-31 14:03:00.250+05:30", VIENNA, datetime(2026, 1, 31, 8, 33, 0, 250_000, tzinfo=timezone.utc)),
    ],
)
def test_what_is_meant(text: str, zone: timezone | ZoneInfo, expected: datetime) -> None:
    """Goal: ISO, times of day and durations are read in their zone; a time of day is the last one."""
    assert read_instant(text, NOW, zone) == expected
    assert read_instant(text, NOW, zone).utcoffset() == timedelta(0)


AUTUMN = datetime(2026, 10, 25, tzinfo=timezone.utc)  # at 01:00 UTC Vienna's clocks go from 3:00 back to 2:00


@pytest.mark.parametrize(
    ("text", "hour", "expected_hour"),
    [
        ("02:30", 6, 1.5),  # the second one is the last
        ("02:30", 1.75, 1.5),
        ("02:30", 1.25, 0.5),  # the second one is to come
        ("02:30", 0.25, -24 + 0.5),
        ("03:30", 6, 2.5),
        ("01:30", 1.25, -0.5),
    ],
)
def test_an_hour_that_comes_twice(text: str, hour: float, expected_hour: float) -> None:
    """Goal: the last time that it was half past two, while both come and after them."""
    found = read_instant(text, AUTUMN + timedelta(hours=hour), VIENNA)
    assert found == AUTUMN + timedelta(hours=expected_hour)


def test_an_hour_that_is_left_out() -> None:
    """Goal: on the day when clocks are put forward it was half past two the day before; after the next it was."""
    day_before = datetime(2026, 3, 28, 1, 30, tzinfo=timezone.utc)
    assert read_instant("02:30", NOW, VIENNA) == day_before
    assert read_instant("02:30", NOW + timedelta(hours=20), VIENNA) == day_before
    assert read_instant("02:30", NOW + timedelta(days=1), VIENNA) == datetime(2026, 3, 30, 0, 30, tzinfo=timezone.utc)


def test_a_date_whose_time_is_not_one_instant() -> None:
    """Goal: a date whose time is not one instant is refused with the text to write in its place, and read if it is
    written so."""
    with pytest.raises(ValueError, match=r"came twice in Europe/Vienna: write 2026-10-25T02:30:00\+02:00 or .*\+01:00"):
        read_instant("2026-10-25T02:30", NOW, VIENNA)
    with pytest.raises(ValueError, match="did not come in Europe/Vienna"):
        read_instant("2026-03-29T02:30", NOW, VIENNA)
    assert read_instant("2026-10-25T02:30+01:00", NOW, VIENNA) == AUTUMN + timedelta(hours=1.5)


@pytest.mark.parametrize(
    "text",
    ["", "2x", "h", "-2h", "25:00", "9:05", "14:03Z", "yesterday", "999999999w", "0001-01-01T00:00:00+14:00", "٣h"],
)
def test_what_is_no_instant(text: str) -> None:
    """Goal: anything else is refused, also what lies outside the calendar."""
    with pytest.raises((ValueError, OverflowError)):
        read_instant(text, NOW, timezone.utc)
