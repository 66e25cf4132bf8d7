"""Goal: a forecast has an interval that holds, and there is no forecast where nobody can know."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest

from groupledger.transforms.lag.rules.forecast import (
    CHANGES_MIN,
    STANDSTILL,
    Drift,
    drift,
    left_anyway,
    pace_of_start,
    quantile,
    reaches_zero,
    since_highest,
)

CERTAIN = Drift(-2.0, 0.0, 0.0, 20)


def line(rate: float, count: int = 20, step_s: float = 60.0) -> list[tuple[float, float]]:
    return [(number * step_s, 10_000 + rate * number * step_s) for number in range(count)]


def test_a_steady_rate() -> None:
    """Goal: the interval of an exact rate is the instant itself."""
    found = drift(line(-2))
    assert found is not None
    assert (found.rate, found.noise, found.trend) == (-2.0, 0.0, "shrinking")
    answer = reaches_zero(600, found)
    assert answer is not None
    assert (answer.seconds, answer.earliest, answer.latest) == (300.0, 300.0, 300.0)


@pytest.mark.parametrize(("rate", "trend"), [(3, "growing"), (0, "level"), (-3, "shrinking")])
def test_trend(rate: float, trend: str) -> None:
    """Goal: a trend is reported only if the scatter can't be all of it."""
    source = random.Random(rate)
    scattered = accumulate(source.gauss(rate * 60, 100) for _ in range(60))
    found = drift([(number * 60.0, value) for number, value in enumerate(scattered)])
    assert found is not None
    assert found.trend == trend


def test_too_little_is_known() -> None:
    """Goal: a few points are no pace."""
    assert drift(line(-2, CHANGES_MIN)) is None
    assert drift([]) is None
    assert drift(line(-2, CHANGES_MIN + 1)) is not None


@pytest.mark.parametrize("rate", [0.0, 2.0])
def test_what_does_not_come_nearer(rate: float) -> None:
    assert reaches_zero(600, Drift(rate, 1.0, 0.1, 20)) is None


def test_it_may_never_happen() -> None:
    """Goal: if the rate may be 0, there is an earliest time and no latest."""
    answer = reaches_zero(600, Drift(-2.0, 400.0, 4.0, 20))
    assert answer is not None
    assert answer.latest is None
    assert 0 < answer.earliest < answer.seconds == 300


def test_bursts_that_last_widen_the_interval() -> None:
    """Goal: changes that stay for several points are not counted as independent."""
    rates = [4 if number // 5 % 2 else 0 for number in range(40)]
    lasting = drift([(number * 60.0, value * 60.0) for number, value in enumerate(accumulate(rates))])
    mixed = drift([(number * 60.0, value * 60.0) for number, value in enumerate(accumulate([0, 4] * 20))])
    assert lasting is not None
    assert mixed is not None
    assert lasting.noise > 2 * mixed.noise


def test_steps() -> None:
    """Goal: the pace of a start that moves by segments is that between its moves, and a loss may come one sooner."""
    starts = [(number * 60.0, float(number // 10 * 500)) for number in range(80)]
    found = pace_of_start(starts[:50], starts)
    assert found is not None
    pace, step = found
    assert (pace.rate, pace.noise, pace.changes, step) == (500 / 600, 0.0, 6, 500)
    answer = reaches_zero(1_000, STANDSTILL.less(pace), step)
    assert answer is not None
    assert (answer.earliest, answer.seconds, answer.latest) == pytest.approx((600, 1_200, 1_800))
    near = reaches_zero(400, STANDSTILL.less(pace), step)
    assert near is not None
    assert near.earliest == 0
    assert pace_of_start(starts[:50], []) is None


def test_lag_since_it_was_highest() -> None:
    """Goal: a lag that grew before a restart does not count for how it shrinks since."""
    assert since_highest([(0.0, 1.0), (1.0, 9.0), (2.0, 9.0), (3.0, 4.0)]) == [(2.0, 9.0), (3.0, 4.0)]
    assert since_highest([]) == []


def test_what_is_left_between_commits() -> None:
    assert left_anyway(30.0, 5.0) == 300
    assert left_anyway(-1.0, 5.0) == 0


@pytest.mark.parametrize(("changes", "student"), [(6, 2.571), (11, 2.228), (31, 2.042), (1_001, 1.962)])
def test_student(changes: int, student: float) -> None:
    """Goal: the quantile is Student's, of the tables."""
    assert quantile(changes) == pytest.approx(student, rel=0.01)


def test_the_interval_holds() -> None:
    """Goal: 19 of 20 random walks reach zero within the interval."""
    held = []
    for seed in range(200):
        source = random.Random(seed)
        walk = [*accumulate((source.gauss(-20, 60) for _ in range(4_000)), initial=20_000.0)]
        answer = drift([(float(at), walk[at]) for at in range(0, 601, 20)])
        assert answer is not None
        expected = reaches_zero(walk[600], answer)
        really = next((at - 600 for at in range(600, 4_001) if walk[at] <= 0), None)
        if expected is not None and really is not None:
            held.append(expected.earliest <= really and (expected.latest is None or really <= expected.latest))
    assert len(held) > 190
    assert sum(held) / len(held) > 0.93
