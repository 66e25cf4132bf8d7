"""Holds the times of the samples of topic partitions, once for all partitions that were sampled in the same rounds.

All partitions of a cluster are sampled together, so nearly all have the same times. Together they take half as much
memory, and the samples to keep are chosen once, where each choice costs as much as a hundred rounds of a partition: all
partitions need it in the same round.

A partition has the first times of the list, one for each of its ends. The first one of a round adds the time, and the
others find it there. Partitions that missed a round, as all of a broker that was away, go on with another list, and one
that lost ends with a list of its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import compress
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW_MS = 86_400_000
BUCKETS_PER_AGE = 16


def bucket_ms(age_ms: int) -> int:
    """Returns the width in milliseconds of the bucket in which only one sample of that age stays; with width 1 each
    sample stays."""
    return 1 << max((age_ms // BUCKETS_PER_AGE).bit_length() - 1, 0)


class SampleTimes:
    """The times in milliseconds, oldest first. Only `after` adds to `ms`.

    A list knows those that partitions left it for, as long as one of them is still there: a partition that is no longer
    sampled must not keep all lists of its former companions.
    """

    __slots__ = ("__weakref__", "_kept", "_others", "_thinned", "ms")

    def __init__(self, times_ms: Iterable[int] = ()) -> None:
        self.ms = array("q", times_ms)
        self._others: WeakValueDictionary[tuple[int, int], SampleTimes] | None = None  # by what `after` was asked
        self._thinned: ref[SampleTimes] | None = None
        self._kept = b""  # for each time that `_thinned` was made of, whether it stays

    def after(self, count: int, at_ms: int) -> SampleTimes:
        """Returns the first `count` times and `at_ms`, which is later: this list, if no other partition has gone on
        otherwise."""
        if len(self.ms) == count:
            self.ms.append(at_ms)
        if len(self.ms) == count + 1 and self.ms[count] == at_ms:
            return self
        if self._others is None:
            self._others = WeakValueDictionary()
        times = array("q", (*self.ms[:count], at_ms))
        other = self._others.get((count, at_ms))
        if other is None or other.ms != times:
            other = self._others[count, at_ms] = SampleTimes(times)
        return other

    def thinned(self, count: int) -> tuple[bytes, SampleTimes]:
        """Returns for each of the first `count` samples whether it stays, and the times of those that do: the same list
        for all partitions."""
        found = None if self._thinned is None else self._thinned()
        if found is None or len(self._kept) != count:
            self._kept = bytes(self.stays(index, count) for index in range(count))
            found = SampleTimes(compress(self.ms, self._kept))
            self._thinned = ref(found)
        return self._kept, found

    def begin(self, count: int) -> int:
        """Returns the index of the oldest sample in the window that the first `count` samples end, which are some."""
        return bisect_left(self.ms, self.ms[count - 1] - WINDOW_MS, 0, count)

    def stays(self, index: int, count: int) -> bool:
        """Returns whether one of the first `count` samples stays when they are thinned out. Buckets nest, so it is
        enough to look at the next sample."""
        times = self.ms
        if index + 1 == count:
            return True
        at_ms, next_ms = times[index], times[index + 1]
        age_ms = times[count - 1] - at_ms
        if age_ms > WINDOW_MS:
            return False
        if (next_ms - at_ms) * BUCKETS_PER_AGE >= age_ms:
            return True  # no bucket of that age is as wide as the time to the next sample
        width_ms = bucket_ms(age_ms)
        return at_ms // width_ms != next_ms // width_ms
