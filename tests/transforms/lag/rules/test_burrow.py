"""Goal: Burrow's rules, on windows worked out by hand, for every rule and edge.

A commit is (offset, seconds, lag); now is 100 s unless given otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.transforms.lag.rules import BurrowRules, burrow
from groupledger.transforms.lag.rules.facts import Commit

RULES = BurrowRules()
Window = list[tuple[int, int, "int | None"]]

STEADY: Window = [(10, 60, 5), (20, 70, 6), (30, 80, 7), (40, 90, 8)]


def status(window: Window, *, lag: int = 9, now_s: float = 100, ends: tuple[int, ...] = (90, 99), **rules: Any) -> str:
    ring = burrow.Ring()
    for offset, at_s, stored_lag in window:
        before = None if stored_lag is None else offset + stored_lag
        ring.store(Commit(offset, at_s * 1_000, 0, offset), before, RULES)
    return burrow.partition_status(ring, ends, lag, round(now_s * 1_000), BurrowRules(**rules))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (STEADY, "WARN"),  # the lag never went down
        ([(10, 60, 5), (20, 70, 6), (30, 80, 6), (40, 90, 6)], "WARN"),  # staying equal is not going down
        ([(10, 60, 5), (20, 70, 9), (30, 80, 8), (40, 90, 20)], "OK"),  # one dip hides the growth
        ([(10, 60, 5), (10, 70, 6), (10, 80, 7), (10, 90, 8)], "STALL"),
        ([(10, 60, 5), (10, 70, 6), (10, 80, 5), (10, 90, 8)], "STALL"),  # before the lag is looked at
        ([(10, 60, 5), (30, 70, 6), (20, 80, 7), (25, 90, 8)], "REWIND"),
        ([(10, 60, 5), (30, 70, 6), (20, 80, 7), (30, 90, 8)], "WARN"),  # recovered: as far as it was
        ([(10, 60, 5), (30, 70, 6), (20, 80, 7), (31, 85, 7), (25, 90, 8)], "WARN"),  # only the first one counts
        ([(50, 60, 0), (50, 70, 0), (10, 80, 60), (20, 90, 70)], "REWIND"),  # zero lag does not excuse a rewind
        ([(10, 60, 5), (20, 70, 0), (30, 80, 7), (40, 90, 8)], "OK"),  # zero lag at any commit
        ([(10, 60, None), (20, 70, 6), (30, 80, None), (40, 90, 8)], "WARN"),  # unknown lag is passed over
        ([(10, 60, 9), (20, 70, None), (30, 80, 7), (40, 90, None)], "OK"),  # 9 went down to 7
        ([(10, 60, None), (20, 70, None), (30, 80, None), (40, 90, None)], "WARN"),
        ([], "OK"),
    ],
)
def test_rules(window: Window, expected: str) -> None:
    """Goal: the first rule that holds, in Burrow's order."""
    assert status(window) == expected


def test_nothing_to_read_is_ok() -> None:
    """Goal: a group without lag now is OK, whatever its history."""
    assert status([(10, 10, 5), (10, 20, 5)], lag=0) == "OK"
    assert status([(10, 10, 5), (10, 20, 5)], lag=3, allowed_lag=3) == "OK"
    assert status([(10, 10, 5), (10, 20, 5)], lag=4, allowed_lag=3) == "STOP"


@pytest.mark.parametrize(
    ("now_s", "expected"),
    # The window is 30 s long; Burrow's clock has whole seconds.
    [(119, "WARN"), (120, "WARN"), (120.9, "WARN"), (121, "STOP")],
)
def test_stop_when_silent_for_longer_than_the_window(now_s: float, expected: str) -> None:
    """Goal: STOP strictly beyond the window's own length."""
    assert status(STEADY, now_s=now_s) == expected


def test_stop_before_rewind_and_zero_lag() -> None:
    """Goal: a group that has stopped is that, whatever its window held."""
    assert status([(30, 60, 0), (20, 70, 7)], now_s=200) == "STOP"


def test_recent_zero_lag_is_a_grace() -> None:
    """Goal: no STOP while a sample of the end at or below the last commit is remembered."""
    assert status(STEADY, now_s=1_000, ends=(40, 99)) == "WARN"
    assert status(STEADY, now_s=1_000, ends=(41, 99)) == "STOP"
    assert status(STEADY, now_s=1_000, ends=()) == "STOP"


def test_one_commit() -> None:
    """Goal: a window of one commit has no length: STOP at once, or STALL within the second and within the grace."""
    assert status([(10, 99, 5)]) == "STOP"
    assert status([(10, 100, 5)]) == "STALL"
    assert status([(10, 50, 5)], ends=(10,)) == "STALL"
    assert status([(10, 50, 0)], ends=(10,)) == "OK"


def test_minimum_complete() -> None:
    """Goal: a window that is not full enough says nothing."""
    assert status(STEADY, minimum_complete=0.5) == "OK"
    assert status(STEADY, minimum_complete=0.4) == "WARN"


def test_ring() -> None:
    """Goal: the last commits, their lag against the end before each and never below 0; commits that come too close take
    the slot of the one before and keep its time."""
    rules = BurrowRules(intervals=3, min_distance_ms=1_000)
    ring = burrow.Ring()
    for offset, at_ms, before in [
        (1, 0, 1),
        (2, 5_000, None),
        (3, 7_000, 10),
        (4, 7_600, 2),
        (5, 7_999, 9),
        (6, 8_000, 9),
    ]:
        ring.store(Commit(offset, at_ms, 0, offset), before, rules)
    assert [*ring.numbers] == [2, 5_000, burrow.UNKNOWN_LAG, 5, 7_000, 4, 6, 8_000, 3]


def test_group_status() -> None:
    """Goal: the worst partition, where all that is worse than a warning is an error."""
    assert burrow.group_status(["OK", "WARN"]) == "WARN"
    for error in ("STOP", "STALL", "REWIND"):
        assert burrow.group_status(["OK", error, "WARN"]) == "ERR"
    assert burrow.group_status([]) == "OK"
