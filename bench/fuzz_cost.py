"""Measures the time per byte that hostile inputs cost a reader, and reports inputs that cost too much.

A shape is an input in which something is repeated until it has a given length. Two ratios are measured. The first is
the time per byte of the worst of many shapes of 64 KiB, compared with the usual time: the median of the shapes or, if
most of them are refused at once, the time that Python's own JSON needs on this machine at this moment. The second is
the time per byte of the worst shape at eight times the length, compared with the worst one at 64 KiB: 1 if the time is
linear in the length, 8 if it is quadratic. The bounds of both ratios are far above what is measured, and no time itself
has a bound. Only processor time counts, so that other work on the machine matters as little as possible.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHAPE_BYTES = 64 * 1024
GROWTH = 8
TRIES = 3
ENOUGH_NS = 1_000_000_000
TIMES_USUAL_MAX = 100
TIMES_LONGER_MAX = 4
ORDINARY = json.dumps([{"name": "orders", "partitions": [0, 1, 2], "lag": 12.5}] * (SHAPE_BYTES // 58))


class Shape(NamedTuple):
    """An input that can have any size. `make` takes the number of bytes, and returns an input of about that size with
    its exact size."""

    make: Callable[[int], tuple[Any, int]]
    name: str


class Cost(NamedTuple):
    """Time per byte: of the worst shape, the usual one, and how it grows with the length."""

    worst_ns: float
    usual_ns: float
    growth: float
    shape: str

    @property
    def times_usual(self) -> float:
        return self.worst_ns / self.usual_ns

    @property
    def is_bounded(self) -> bool:
        return self.times_usual <= TIMES_USUAL_MAX and self.growth <= TIMES_LONGER_MAX

    def __str__(self) -> str:
        return (
            f"time per byte: at worst {self.worst_ns:,.1f} ns, {self.times_usual:.1f} times the usual, and"
            f" {self.growth:.1f} times that at {GROWTH} times the length: {self.shape[:200]}"
        )


def cost(check: Callable[[Any], Any], shapes: Sequence[Shape]) -> Cost:
    found = [(_ns_per_byte(check, shape, SHAPE_BYTES), shape.name) for shape in shapes]
    worst_ns, name = max(found)
    reference_ns = _ns_of(json.loads, ORDINARY) / len(ORDINARY)
    usual_ns = max(median(ns for ns, _ in found), reference_ns)
    longer_ns, longer_name = max((_ns_per_byte(check, shape, SHAPE_BYTES * GROWTH), shape.name) for shape in shapes)
    growth = longer_ns / worst_ns
    return Cost(worst_ns, usual_ns, growth, name if growth < 1 else longer_name)


def _ns_per_byte(check: Callable[[Any], Any], shape: Shape, size: int) -> float:
    content, length = shape.make(size)
    return _ns_of(check, content) / length


def _ns_of(check: Callable[[Any], Any], content: Any) -> int:
    """Returns the least time of some tries, of fewer if they take long."""
    best = 0
    for _ in range(TRIES):
        start = time.process_time_ns()
        check(content)
        taken = time.process_time_ns() - start
        best = min(best or taken, taken)
        if taken > ENOUGH_NS:
            break
    return best
