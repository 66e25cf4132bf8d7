"""Holds the times of the samples of topic partitions, once for all partitions that were sampled in the same rounds.

All partitions of a cluster are sampled together, so nearly all have the same times. Together they take half as much
memory, and the samples to keep are chosen once: the choice costs as much as a hundred rounds of a partition, and all
partitions need it in the same round.

A partition has the first times of a list, one for each of its ends. The first one of a round adds the time, and the
others find it there. A partition that missed a round, or lost ends, goes on with a list of its own. All partitions are
thinned out together (`Thinning`), and those that have the same times then have one list again: what a partition missed
long ago makes no difference.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_MS = 86_400_000
BUCKETS_PER_AGE = 16


def bucket_ms(age_ms: int) -> int:
    """Returns the width in milliseconds of the bucket in which only one sample of that age stays; with width 1 each
    sample stays."""
    return 1 << max((age_ms // BUCKETS_PER_AGE).bit_length() - 1, 0)


def after(times_ms: array[int], count: int, at_ms: int) -> array[int]:
    """Returns the first `count` times and `at_ms`, which is later: the same list, if no other partition has gone on
    otherwise."""
    if len(times_ms) == count:
        times_ms.append(at_ms)
    if len(times_ms) == count + 1 and times_ms[count] == at_ms:
        return times_ms
    return array("q", (*times_ms[:count], at_ms))


def stays(times_ms: array[int], index: int, count: int, cut_times_ms: Sequence[int] = ()) -> bool:
    """Returns whether one of the first `count` samples stays when they are thinned out. Buckets nest, so it is enough
    to look at the next sample. `cut_times_ms` are those of samples that a truncation has made void, oldest first; they
    count like all others."""
    if index + 1 == count:
        return True
    at_ms, next_ms = times_ms[index], times_ms[index + 1]
    age_ms = times_ms[count - 1] - at_ms
    if age_ms > WINDOW_MS:
        return False
    if (next_ms - at_ms) * BUCKETS_PER_AGE >= age_ms and not cut_times_ms:
        return True  # no bucket of that age is as wide as the time to the next sample
    width_ms = bucket_ms(age_ms)
    bucket = at_ms // width_ms
    if bucket == next_ms // width_ms:
        return False
    cut = bisect_right(cut_times_ms, at_ms)
    return cut == len(cut_times_ms) or bucket != cut_times_ms[cut] // width_ms


class Thinning:
    """Thins out partitions, one after the other, and gives those that keep the same times one list of them."""

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, tuple[int, ...]], tuple[bytes, array[int]]] = {}  # by what `of` was asked
        self._lists: dict[bytes, array[int]] = {}

    def of(self, times_ms: array[int], cut_times_ms: tuple[int, ...]) -> tuple[bytes, array[int]]:
        """Returns for each sample whether it stays, and the times of those that do."""
        key = (times_ms.tobytes(), cut_times_ms)
        if key not in self._found:
            count = len(times_ms)
            kept = bytes(stays(times_ms, index, count, cut_times_ms) for index in range(count))
            left = array("q", compress(times_ms, kept))
            self._found[key] = kept, self._lists.setdefault(left.tobytes(), left)
        return self._found[key]
