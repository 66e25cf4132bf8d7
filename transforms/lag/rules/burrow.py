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

from collections import deque
from operator import gt
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import BurrowStatus, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.lag.rules.facts import Commit
    from groupledger.transforms.lag.rules.thresholds import BurrowRules

SEVERITY = {status: code for code, status in enumerate(words_of(BurrowStatus), 1)}  # Burrow's own codes


class StoredCommit(NamedTuple):
    """One commit in the ring of the last commits."""

    offset: int
    timestamp_ms: int
    lag: int | None


def new_ring(rules: BurrowRules) -> deque[StoredCommit]:
    return deque(maxlen=rules.intervals)


def store(ring: deque[StoredCommit], commit: Commit, high_watermark_before: int | None, rules: BurrowRules) -> None:
    """Stores a commit with an offset, later than all before.

    If it comes within `min_distance_ms` of the one before, it takes that one's slot and keeps its time: otherwise a
    fast committer would never fill a second slot.
    """
    offset = commit.committed_offset
    if offset is None:
        raise ValueError("A removal is no commit: the ring is cleared for it.")
    lag = None if high_watermark_before is None else max(high_watermark_before - offset, 0)
    timestamp_ms = commit.commit_timestamp_ms
    if ring and timestamp_ms - ring[-1].timestamp_ms < rules.min_distance_ms:
        timestamp_ms = ring.pop().timestamp_ms
    ring.append(StoredCommit(offset, timestamp_ms, lag))


def partition_status(
    ring: Sequence[StoredCommit], recent_ends: Iterable[int], lag: int, now_ms: int, rules: BurrowRules
) -> str:
    """Returns Burrow's status of a partition. `recent_ends` are the newest samples of the end of the log, and `lag` is
    the present lag in records."""
    if lag <= rules.allowed_lag or not ring or len(ring) < rules.minimum_complete * rules.intervals:
        return BurrowStatus.OK
    first, last = ring[0], ring[-1]
    is_silent = now_ms // 1_000 * 1_000 - last.timestamp_ms > last.timestamp_ms - first.timestamp_ms
    if is_silent and min(recent_ends, default=last.offset + 1) > last.offset:
        return BurrowStatus.STOP
    offsets, _, of_commits = zip(*ring, strict=True)
    if _is_rewound(offsets):
        return BurrowStatus.REWIND
    lags = [each for each in of_commits if each is not None]
    if lags and min(lags) <= rules.allowed_lag:
        return BurrowStatus.OK
    if offsets.count(first.offset) == len(offsets):
        return BurrowStatus.STALL
    return BurrowStatus.OK if any(map(gt, lags, lags[1:])) else BurrowStatus.WARN


def _is_rewound(offsets: Sequence[int]) -> bool:
    falls = [*map(gt, offsets, offsets[1:])]
    if True not in falls:
        return False
    index = falls.index(True)
    return max(offsets[index + 1 :]) < offsets[index]


def complete(ring: Sequence[StoredCommit], rules: BurrowRules) -> float:
    """Returns which part of the window is filled, from 0 to 1."""
    return len(ring) / rules.intervals


def group_status(statuses: Iterable[str]) -> str:
    worst = max(statuses, key=SEVERITY.__getitem__, default=BurrowStatus.OK)
    return BurrowStatus.ERR if SEVERITY[worst] > SEVERITY[BurrowStatus.ERR] else worst
