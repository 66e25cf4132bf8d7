"""Measures the time per byte that hostile inputs cost a reader, and reports where that is too much.

A shape is an input with something in it repeated, as long as one likes. Of many shapes of 64 KiB the worst is printed,
beside what is usual: the median of the shapes or, where most of them are passed over at once, what Python's own JSON
costs on this machine at this moment. And the worst of the same shapes at eight times the length, beside that: 1 where
the time is linear in the length, 8 where it is quadratic. Both are ratios, and their bounds are far above what is
measured; no time is bounded as such. It measures processor time, so that other work on the machine counts as
little as it can.
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
