"""Holds the committed offsets and lags of a group on a partition that the rounds of a window saw: the newest point of
each twentieth of the window.

Slope, mean and highest offset are needed for every partition in every round. So the sums behind them are stored, and
updated with each point that is added or removed. The sums are whole numbers from one fixed origin of time, so they are
exact, whether the points were added one by one or restored from the table. An array holds the points, since objects
would take five times as much memory.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.transforms.lag.rules.thresholds import StatusRules

POINTS_PER_WINDOW = 20
POINTS_FOR_SLOPE = 4


class Point(NamedTuple):
    """One point: the values that one round saw."""

    sampled_at_ms: int
    committed_offset: int
    lag: int


SIZE = len(Point._fields)


class Points:
    """The points of the last window, oldest first."""

    __slots__ = ("_highest", "_kept", "_origin_ms", "_sum_lag", "_sum_t", "_sum_t_lag", "_sum_tt")

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._kept = array("q")  # the three numbers of each point
        self._origin_ms = self._sum_t = self._sum_lag = self._sum_tt = self._sum_t_lag = 0
        self._highest = -1  # committed offset
        for point in points:
            self._append(*point)

    def __iter__(self) -> Iterator[Point]:
        kept = self._kept
        return map(Point, kept[::SIZE], kept[1::SIZE], kept[2::SIZE])

    def add(self, sampled_at_ms: int, committed_offset: int, lag: int, rules: StatusRules) -> None:
        """Adds the newest point. It replaces the last one if both lie in the same twentieth of the window."""
        kept, gone = self._kept, []
        width_ms = max(rules.window_ms // POINTS_PER_WINDOW, 1)
        if kept and kept[-SIZE] // width_ms == sampled_at_ms // width_ms:
            gone.append(self._remove(len(kept) - SIZE))
        while kept and sampled_at_ms - kept[0] > rules.window_ms:
            gone.append(self._remove(0))
        self._append(sampled_at_ms, committed_offset, lag)
        if committed_offset < self._highest and self._highest in gone:
            self._highest = max(kept[1::SIZE])

    @property
    def times_ms(self) -> array[int]:
        return self._kept[::SIZE]

    @property
    def is_free_of_lag(self) -> bool:
        return self._sum_lag == 0

    def follow(self, others: Points, committed_offset: int, rules: StatusRules) -> None:
        """Adds the points of `others` that are later than the last one, with another offset."""
        for at_ms in others.times_ms:
            if not self._kept or at_ms > self._kept[-SIZE]:
                self.add(at_ms, committed_offset, 0, rules)

    def slope_per_s(self) -> float | None:
        """Returns the slope of the least-squares line through the lags, in records per second; None if there are fewer
        than POINTS_FOR_SLOPE points."""
        count = len(self._kept) // SIZE
        if count < POINTS_FOR_SLOPE:
            return None
        covariance = count * self._sum_t_lag - self._sum_t * self._sum_lag
        return covariance * 1_000 / (count * self._sum_tt - self._sum_t * self._sum_t)

    def is_growing(self, slope: float | None, rules: StatusRules) -> bool:
        if slope is None:
            return False
        kept = self._kept
        span_s = (kept[-SIZE] - kept[0]) / 1_000
        is_long_enough = span_s * 2_000 >= rules.window_ms
        fraction = rules.growth_fraction_min * (self._sum_lag / (len(kept) // SIZE))
        return is_long_enough and slope * span_s >= max(rules.growth_records_min, fraction)

    def is_rewound(self) -> bool:
        """Returns whether the newest committed offset is below an earlier one of the window."""
        return bool(self._kept) and self._kept[-2] < self._highest

    def _append(self, sampled_at_ms: int, committed_offset: int, lag: int) -> None:
        if not self._kept:  # and all sums are 0
            self._origin_ms = sampled_at_ms
            self._highest = committed_offset
        self._kept += array("q", (sampled_at_ms, committed_offset, lag))  # all of them, or none if one is too large
        elapsed_ms = sampled_at_ms - self._origin_ms
        self._sum_t += elapsed_ms
        self._sum_lag += lag
        self._sum_tt += elapsed_ms * elapsed_ms
        self._sum_t_lag += elapsed_ms * lag
        self._highest = max(self._highest, committed_offset)

    def _remove(self, index: int) -> int:
        """Removes the point that begins at `index`, and returns its committed offset."""
        remove = self._kept.pop
        sampled_at_ms, committed_offset, lag = remove(index), remove(index), remove(index)
        elapsed_ms = sampled_at_ms - self._origin_ms
        self._sum_t -= elapsed_ms
        self._sum_lag -= lag
        self._sum_tt -= elapsed_ms * elapsed_ms
        self._sum_t_lag -= elapsed_ms * lag
        return committed_offset
