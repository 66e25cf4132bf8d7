"""Forecasts when a group will have caught up, and when retention will overtake its commit, as an interval of times.

An offset is a count of events, so the values that rounds see are sums: their errors add up, and do not scatter around a
line. A line through such points (least squares, Theil-Sen) gives an interval that is far too narrow. So the method is
that of a random walk with drift, the "drift method" of forecasting: the rate is the whole change over the whole time,
and the scatter is that of the changes around it, from point to point or, since bursts last, over more points if that is
larger. The future adds its own scatter, and the rate is the more certain the longer it was seen. At `t` seconds from
now a distance `d` that changes by `rate` lies between

    d + rate t  ±  q √(noise t + rate_variance t²)        q: Student's t, for 95 of 100

The distance reaches zero at the earliest when the lower bound does, and at the latest when the upper bound does; these
times are the roots of a quadratic equation. If the upper bound never reaches zero, there is no latest time: the event
may never happen. `python -m bench.forecasts` measures how often the interval holds.

A group has caught up if no more is left than it leaves anyway between its commits. The rate at which lag shrinks is
measured since lag was highest, because it grew before. The start of a log moves by whole segments. So its pace is
measured from move to move, and a loss may come a segment sooner or later. As long as the start has not moved a few
times within the known rounds, nobody knows its pace, and no loss is forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

from groupledger.schemas.words import LagStatus, LagTrend

if TYPE_CHECKING:
    from collections.abc import Sequence

CHANGES_MIN = 5  # fewest changes whose scatter can be estimated
CHANGES_MAX = 1_000  # of what is known for certain
CONFIDENCE = 0.95
PACE_S, PACE_OF_STARTS_S = 3_600, 43_200  # for how long rates are seen, and how the starts of logs move
STANDING = (LagStatus.STOPPED, LagStatus.STALLED)
COMMITS_LEFT = 2.0  # intervals of commits whose records a group leaves anyway
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True)
class Drift:
    """Says how a number changes: by `rate` per second, with a variance of `noise` per second and a variance of the rate
    itself (`rate_variance`). `changes` is the number of changes from which this was computed."""

    rate: float
    noise: float
    rate_variance: float
    changes: int

    def less(self, other: Drift) -> Drift:
        """Returns the drift of this number minus `other`, if the two change independently of each other."""
        return Drift(
            self.rate - other.rate,
            self.noise + other.noise,
            self.rate_variance + other.rate_variance,
            min(self.changes, other.changes),
        )

    @property
    def trend(self) -> str:
        """Returns whether the number certainly grows or shrinks; `level` if neither is certain."""
        if abs(self.rate) <= quantile(self.changes) * math.sqrt(self.rate_variance):
            return LagTrend.LEVEL
        return LagTrend.GROWING if self.rate > 0 else LagTrend.SHRINKING


STANDSTILL = Drift(0.0, 0.0, 0.0, CHANGES_MAX)
"""Says how the committed offset of a group without progress changes: not at all."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Says in how many seconds an event is expected: at the present rate, at the earliest, and at the latest. `latest`
    is None if the event may never happen."""

    seconds: float
    earliest: float
    latest: float | None


def drift(points: Sequence[tuple[float, float]]) -> Drift | None:
    """Returns how a number changes; None if there are fewer than CHANGES_MIN changes. `points` are pairs of a time in
    seconds and the number's value then, in order."""
    changes = len(points) - 1
    if changes < CHANGES_MIN:
        return None
    lasted = points[-1][0] - points[0][0]
    rate = (points[-1][1] - points[0][1]) / lasted
    noise, count = max(_noise(points[::-step], rate) for step in range(1, changes // CHANGES_MIN + 1))
    return Drift(rate, noise, noise / lasted, count)


def _noise(points: Sequence[tuple[float, float]], rate: float) -> tuple[float, int]:
    """Returns the variance of the changes around the rate, for each second, and how many changes these are. Points are
    backwards in time."""
    squares = [
        (after[1] - before[1] - rate * (after[0] - before[0])) ** 2 / (after[0] - before[0])
        for after, before in pairwise(points)
    ]
    return sum(squares) / (len(squares) - 1), len(squares)


def quantile(changes: int) -> float:
    """Returns the quantile of Student's t for 95 of 100, by Hill's expansion. From `CHANGES_MIN` changes on its error
    is below 1%."""
    free = changes - 1
    return _Z + (_Z**3 + _Z) / (4 * free) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)


def reaches_zero(distance: float, by: Drift, step: float = 0.0) -> Expected | None:
    """Returns in how many seconds a distance above 0 becomes 0, if it changes by `by`; None if it does not shrink. The
    distance changes in steps of up to `step`, so the event may come one step sooner or later."""
    if by.rate >= 0:
        return None
    earliest, latest = _bounds(max(distance - step, 0.0), by)[0], _bounds(distance + step, by)[1]
    return Expected(distance / -by.rate, earliest, latest)


def _bounds(distance: float, by: Drift) -> tuple[float, float | None]:
    scale = quantile(by.changes) ** 2
    quadratic = by.rate**2 - scale * by.rate_variance
    linear = scale * by.noise - 2 * distance * by.rate
    twice = linear + math.sqrt(max(linear**2 - 4 * quadratic * distance**2, 0.0))
    earliest = 2 * distance**2 / twice if distance else 0.0
    return earliest, twice / (2 * quadratic) if quadratic > 0 else None


def left_anyway(produced_per_second: float, commit_interval_s: float) -> float:
    """Returns the lag in records that a group has between two commits even if it has caught up."""
    return max(produced_per_second, 0.0) * COMMITS_LEFT * commit_interval_s


def since_highest(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Returns the points from the highest one on: how fast lag shrinks shows only after its maximum."""
    highest = max(range(len(points)), key=lambda number: (points[number][1], number), default=0)
    return points[highest:]


def overtaken(left: float, consumed: Drift, start: tuple[Drift, float]) -> Expected | None:
    """Returns in how many seconds the start of a log reaches a commit that is `left` offsets ahead of it; None if the
    start does not come nearer. `consumed` says how the committed offset changes, and `start` is the pace of the log's
    start and its largest step."""
    pace, step = start
    return reaches_zero(left, consumed.less(pace), step)


def pace_of_start(*seen: Sequence[tuple[float, float]]) -> tuple[Drift, float] | None:
    """Returns how the start of a log moves, and its largest step. Uses the first of the given series in which the start
    moved often enough; returns None if there is no such series."""
    for points in seen:
        pace = drift([after for before, after in pairwise(points) if after[1] != before[1]])
        if pace is not None:
            return pace, max(after[1] - before[1] for before, after in pairwise(points))
    return None
