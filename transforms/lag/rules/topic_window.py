"""Holds the recent ends of one topic partition's log, to compute lag in seconds, and to notice that the topic was
created again.

Samples stay for `WINDOW_MS` and are thinned out by age, so that about a hundred of them cover a day and the error stays
in proportion to the answer: a sample of age `a` stays if no later one lies in the same bucket of about a/16, aligned to
powers of two. Aligned buckets nest, so which samples stay depends only on the samples and the newest one's time, not on
when they were thinned out. Samples that a truncation of the log has made void count there like all others, for the same
reason. State that was recovered from the table is therefore equal to the state that was lost.

A record was appended between the last sample whose end is not above it and the next one. Within that time records are
assumed to come evenly: the k-th of n at (k + 1/2) / n of the way. The error is never more than the time between the two
samples. Of a record older than the oldest sample, only that is known: that it is older.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from groupledger.transforms.lag.rules.sample_times import WINDOW_MS, Thinning, after, stays

if TYPE_CHECKING:
    from groupledger.transforms.lag.rules.facts import Watermark

THIN_ABOVE = 256  # samples; more than stay ever do
RECENT_ENDS_MAX = 60


@dataclass(frozen=True, slots=True)
class FormerTopic:
    """A deleted topic of the same name, as its last sample showed it."""

    topic_id: str
    last_sampled_at_ms: int
    high_watermark: int


class TopicWindow:
    """Holds the state of one topic partition. `latest` is its newest sample; None before the first. When the state is
    recovered, `former`, `longest` and `has_transactions` are given, since they come from all samples in the table."""

    __slots__ = (
        *("_cut_times", "_ends", "_times", "changed_at_ms", "former"),
        *("has_transactions", "latest", "longest", "recent_ends"),
    )

    def __init__(self, former: FormerTopic | None = None, longest: int = 0, *, has_transactions: bool = False) -> None:
        self.latest: Watermark | None = None
        self.changed_at_ms = 0  # when a sample last differed from the one before
        self.former = former
        self.longest = longest  # the highest end that the topic of this id ever had
        self.has_transactions = has_transactions  # a sample has shown an open one
        self.recent_ends = array("q")  # of the last rounds, for Burrow's rules
        self._times = array("q")  # of the ends; there may be later ones, which are not of this partition
        self._ends = array("q")
        self._cut_times: tuple[int, ...] = ()  # of samples that a truncation has made void, oldest first

    def share(self, times_ms: array[int]) -> None:
        """Takes part in a list of times, which other partitions have from this round on. Call it before the first
        sample."""
        self._times = times_ms

    def add(self, sample: Watermark) -> bool:
        """Adds a sample. A sample that is not later than the latest one is ignored, so that a round may be added
        twice. Returns whether the sample is new and differs from the one before only in its time."""
        before = self.latest
        if before is not None and sample.sampled_at_ms <= before.sampled_at_ms:
            return False
        is_same = before is not None and sample[1:] == before[1:]
        if not is_same:
            self._change(sample, before)
        self.latest = sample
        self.recent_ends.append(sample.high_watermark)
        if len(self.recent_ends) > RECENT_ENDS_MAX:
            del self.recent_ends[0]
        self._times = after(self._times, len(self._ends), sample.sampled_at_ms)
        self._ends.append(sample.high_watermark)
        return is_same

    def _change(self, sample: Watermark, before: Watermark | None) -> None:
        if before is not None:
            self.changed_at_ms = sample.sampled_at_ms
            if before.topic_id is not None and sample.topic_id not in (None, before.topic_id):
                self.former = FormerTopic(before.topic_id, before.sampled_at_ms, self.longest)
                self._forget()
            elif sample.high_watermark < before.high_watermark:
                self._cut_to(sample.high_watermark)
        self.longest = max(self.longest, sample.high_watermark)
        self.has_transactions |= sample.last_stable_offset < sample.high_watermark

    def is_unchanged(self, since_ms: int, until_ms: int) -> bool:
        """Returns whether there is a sample of `until_ms`, and none after `since_ms` differs from that one."""
        latest = self.latest
        return latest is not None and latest.sampled_at_ms == until_ms and self.changed_at_ms <= since_ms

    @property
    def samples(self) -> list[tuple[int, int]]:
        """Returns (sampled_at_ms, high_watermark) of the samples that are kept, oldest first."""
        self.thin(Thinning())
        return list(zip(self._times, self._ends, strict=True))

    @property
    def is_full(self) -> bool:
        return len(self._ends) > THIN_ABOVE

    def thin(self, thinning: Thinning) -> None:
        """Drops the samples that need not be kept."""
        times = self._times[: len(self._ends)]
        kept, self._times = thinning.of(times, self._cut_times)
        self._ends = array("q", compress(self._ends, kept))
        self._cut_times = tuple(at_ms for at_ms in self._cut_times if times[-1] - at_ms <= WINDOW_MS)

    def appended_at_ms(self, offset: int) -> tuple[int | None, int | None]:
        """Returns when the record at an offset below the end was appended.

        Returns (instant, None) by interpolation. Returns (None, instant of the oldest sample) if the record existed at
        that sample already, and (None, None) if there is no sample.
        """
        times, ends = self._times, self._ends
        count = len(ends)
        if not count:
            return None, None
        # Only the samples around the offset are looked at, since to thin out all of them costs more than the row.
        first = bisect_left(times, times[count - 1] - WINDOW_MS, 0, count)
        above = bisect_right(ends, offset, first)
        if above == count:
            return times[count - 1], None
        below = above - 1
        while not self._stays(above):
            above += 1
        while below >= first and not self._stays(below):
            below -= 1
        if below < first:
            return None, times[above]
        begin_ms, end_ms, begin, end = times[below], times[above], ends[below], ends[above]
        # Numerator and denominator are doubled, so that (k + 1/2) is a whole number.
        return begin_ms + (2 * (offset - begin) + 1) * (end_ms - begin_ms) // (2 * (end - begin)), None

    def _stays(self, index: int) -> bool:
        return stays(self._times, index, len(self._ends), self._cut_times)

    def _cut_to(self, end: int) -> None:
        """Drops ends above the new end of a truncated log: records there were appended again, or will be."""
        times, kept = self._times, bisect_right(self._ends, end)
        self._cut_times = tuple(sorted([*self._cut_times, *times[kept : len(self._ends)]]))
        self._times = times[:kept]
        del self._ends[kept:]

    def _forget(self) -> None:
        self._times, self._ends, self._cut_times = array("q"), array("q"), ()
        del self.recent_ends[:]
        self.longest = 0
        self.has_transactions = False
