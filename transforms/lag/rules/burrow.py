"""Judges a partition by Burrow's rules, as its evaluator applies them (linkedin/Burrow, evaluator "caching" and
storage "inmemory", version of October 2025).

A window has the last `intervals` commits, and as many samples of the log's end. The status is OK if lag is now at most
`allowed_lag`, or if there are fewer commits than `minimum_complete` asks for. Otherwise it is the first of these that
holds:

    STOP     the last commit is longer ago than the window is long, and no sample of the end is at or below it
    REWIND   a commit was below the one before, and no later commit has reached that one again
    OK       any commit of the window had no lag above `allowed_lag`
    STALL    all commits are of the same offset
    WARN     the lag never went down from commit to commit
    OK       else

The lag of a commit is counted against the newest sample before it, never below 0. A commit without such a sample has no
known lag, and is skipped. Burrow's clock has whole seconds. A group is as bad as its worst partition, and ERR if that
is worse than WARN.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

from groupledger.schemas.instants import INT64_MAX
from groupledger.schemas.words import BurrowStatus, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.lag.rules.facts import Commit
    from groupledger.transforms.lag.rules.thresholds import BurrowRules

SEVERITY = {status: code for code, status in enumerate(words_of(BurrowStatus), 1)}  # Burrow's own codes
SIZE = 3  # numbers of a commit
UNKNOWN_LAG = -1


class Ring:
    """Holds the last commits of a group on a partition. `numbers` has offset, time and lag of each, since objects would
    take five times as much memory. A lag that is not known is `UNKNOWN_LAG`."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers = array("q")

    def __len__(self) -> int:
        return len(self.numbers) // SIZE

    @property
    def lasted_ms(self) -> int:
        """Returns the time between the first commit and the last."""
        return self.numbers[-2] - self.numbers[1]

    def store(self, commit: Commit, high_watermark_before: int | None, rules: BurrowRules) -> None:
        """Stores a commit with an offset, later than all before.

        If it comes within `min_distance_ms` of the one before, it takes that one's slot and keeps its time: otherwise a
        fast committer would never fill a second slot.
        """
        numbers, offset, timestamp_ms = self.numbers, commit.committed_offset, commit.commit_timestamp_ms
        if offset is None:
            raise ValueError("A removal is no commit: the ring is cleared for it.")
        lag = UNKNOWN_LAG
        if high_watermark_before is not None:
            lag = min(max(high_watermark_before - offset, 0), INT64_MAX)  # a client may commit any offset
        if numbers and timestamp_ms - numbers[-2] < rules.min_distance_ms:
            timestamp_ms = numbers[-2]
            del numbers[-SIZE:]
        numbers.extend((offset, timestamp_ms, lag))
        if len(numbers) > SIZE * rules.intervals:
            del numbers[:SIZE]

    def clear(self) -> None:
        del self.numbers[:]


def partition_status(ring: Ring, recent_ends: Sequence[int], lag: int, now_ms: int, rules: BurrowRules) -> str:
    """Returns Burrow's status of a partition. `recent_ends` are the samples of the end of the log, and `lag` is the
    present lag in records."""
    numbers = ring.numbers
    if lag <= rules.allowed_lag or not numbers or len(ring) < rules.minimum_complete * rules.intervals:
        return BurrowStatus.OK
    offsets = numbers[::SIZE].tolist()
    if now_ms // 1_000 * 1_000 - numbers[-2] > ring.lasted_ms:
        last = offsets[-1]
        if min(recent_ends[-rules.intervals :], default=last + 1) > last:
            return BurrowStatus.STOP
    rising = sorted(offsets)
    if offsets != rising and _is_rewound(offsets):
        return BurrowStatus.REWIND
    lags = [each for each in numbers[2::SIZE] if each != UNKNOWN_LAG]
    if lags and min(lags) <= rules.allowed_lag:
        return BurrowStatus.OK
    if rising[0] == rising[-1]:
        return BurrowStatus.STALL
    return BurrowStatus.WARN if lags == sorted(lags) else BurrowStatus.OK


def _is_rewound(offsets: Sequence[int]) -> bool:
    """Returns whether the first commit below the one before was not made good. There must be such a commit."""
    fall = next(number for number, (before, after) in enumerate(pairwise(offsets)) if before > after)
    return max(offsets[fall + 1 :]) < offsets[fall]


def group_status(statuses: Iterable[str]) -> str:
    worst = max(statuses, key=SEVERITY.__getitem__, default=BurrowStatus.OK)
    return BurrowStatus.ERR if SEVERITY[worst] > SEVERITY[BurrowStatus.ERR] else worst
