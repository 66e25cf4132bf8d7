"""Holds the committed offsets and lags of a group on a partition that the rounds of a window saw: the newest point of
each twentieth of the window.

Slope, mean and highest offset are needed for every partition in every round. So the sums behind them are stored, and
updated with each point that is added or removed. The sums are whole numbers from one fixed origin of time, so they are
exact, whether the points were added one by one or restored from the table.
"""

from __future__ import annotations

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


class Points:
    """The points of the last window, oldest first."""

    __slots__ = ("_highest", "_kept", "_origin_ms", "_sum_lag", "_sum_t", "_sum_t_lag", "_sum_tt")

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._kept: list[Point] = []
        self._origin_ms = self._sum_t = self._sum_lag = self._sum_tt = self._sum_t_lag = 0
        self._highest = -1  # committed offset
        for point in points:
            self._append(point)

    def __iter__(self) -> Iterator[Point]:
        return iter(self._kept)

    @property
    def last(self) -> Point | None:
        return self._kept[-1] if self._kept else None

    def add(self, point: Point, rules: StatusRules) -> None:
        """Adds the newest point. It replaces the last one if both lie in the same twentieth of the window."""
        kept, gone = self._kept, []
        width_ms = max(rules.window_ms // POINTS_PER_WINDOW, 1)
        if kept and kept[-1].sampled_at_ms // width_ms == point.sampled_at_ms // width_ms:
            gone.append(kept.pop())
        while kept and point.sampled_at_ms - kept[0].sampled_at_ms > rules.window_ms:
            gone.append(kept.pop(0))
        for each in gone:
            self._count(each, -1)
        self._append(point)
        if any(each.committed_offset == self._highest > point.committed_offset for each in gone):
            self._highest = max(each.committed_offset for each in kept)

    def slope_per_s(self) -> float | None:
        """Returns the slope of the least-squares line through the lags, in records per second; None if there are fewer
        than POINTS_FOR_SLOPE points."""
        count = len(self._kept)
        if count < POINTS_FOR_SLOPE:
            return None
        covariance = count * self._sum_t_lag - self._sum_t * self._sum_lag
        return covariance * 1_000 / (count * self._sum_tt - self._sum_t * self._sum_t)

    def is_growing(self, slope: float | None, rules: StatusRules) -> bool:
        if slope is None:
            return False
        kept = self._kept
        span_s = (kept[-1].sampled_at_ms - kept[0].sampled_at_ms) / 1_000
        is_long_enough = span_s * 2_000 >= rules.window_ms
        fraction = rules.growth_fraction_min * (self._sum_lag / len(kept))
        return is_long_enough and slope * span_s >= max(rules.growth_records_min, fraction)

    def is_rewound(self) -> bool:
        """Returns whether the newest committed offset is below an earlier one of the window."""
        return bool(self._kept) and self._kept[-1].committed_offset < self._highest

    def _append(self, point: Point) -> None:
        if not self._kept:  # and all sums are 0
            self._origin_ms = point.sampled_at_ms
            self._highest = point.committed_offset
        self._kept.append(point)
        self._count(point, 1)
        self._highest = max(self._highest, point.committed_offset)

    def _count(self, point: Point, sign: int) -> None:
        elapsed_ms = point.sampled_at_ms - self._origin_ms
        signed_ms = sign * elapsed_ms
        self._sum_t += signed_ms
        self._sum_lag += sign * point.lag
        self._sum_tt += signed_ms * elapsed_ms
        self._sum_t_lag += signed_ms * point.lag
