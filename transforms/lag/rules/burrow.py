"""Burrow's rules for the status of a partition, as its evaluator applies them (linkedin/Burrow, evaluator "caching" and
storage "inmemory", version of October 2025).

A window of the last `intervals` commits, and of as many samples of the log's end. In this order, with lag above
`allowed_lag` now, and as many commits as `minimum_complete` asks for:

    STOP     the last commit is longer ago than the window is long, and no sample of the end is at or below it
    REWIND   the first commit that is below the one before was not made good since
    OK       any commit of the window had no lag above `allowed_lag`
    STALL    all commits are of the same offset
    WARN     the lag never went down from commit to commit
    OK       else

Lag of a commit is that against the newest sample before it, never below 0, and not known (passed over) without one.
Burrow's clock has whole seconds. A group is as bad as its worst partition, and ERR for all that is worse than WARN.
"""

from __future__ import annotations

from collections import deque
from operator import gt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.lag.rules.facts import Commit
    from groupledger.transforms.lag.rules.thresholds import BurrowRules

OK, WARN, ERR, STOP, STALL, REWIND = "OK", "WARN", "ERR", "STOP", "STALL", "REWIND"
SEVERITY = {OK: 1, WARN: 2, ERR: 3, STOP: 4, STALL: 5, REWIND: 6}  # Burrow's own codes


class StoredCommit(NamedTuple):
    """One slot of the ring."""

    offset: int
    timestamp_ms: int
    lag: int | None


def new_ring(rules: BurrowRules) -> deque[StoredCommit]:
    return deque(maxlen=rules.intervals)


def store(ring: deque[StoredCommit], commit: Commit, high_watermark_before: int | None, rules: BurrowRules) -> None:
    """A commit with an offset, later than all before. One that comes within `min_distance_ms` of the one before takes
    its slot and keeps its time, or a fast committer would never fill a second slot."""
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
    """`recent_ends` are the newest samples of the log's end, `lag` that of now."""
    if lag <= rules.allowed_lag or not ring or len(ring) < rules.minimum_complete * rules.intervals:
        return OK
    first, last = ring[0], ring[-1]
    is_silent = now_ms // 1_000 * 1_000 - last.timestamp_ms > last.timestamp_ms - first.timestamp_ms
    if is_silent and min(recent_ends, default=last.offset + 1) > last.offset:
        return STOP
    if _is_rewound(ring):
        return REWIND
    lags = [stored.lag for stored in ring if stored.lag is not None]
    if lags and min(lags) <= rules.allowed_lag:
        return OK
    if all(stored.offset == first.offset for stored in ring):
        return STALL
    return OK if any(map(gt, lags, lags[1:])) else WARN


def _is_rewound(ring: Sequence[StoredCommit]) -> bool:
    offsets = [stored.offset for stored in ring]
    for index, is_lower in enumerate(map(gt, offsets, offsets[1:]), 1):
        if is_lower:
            return max(offsets[index:]) < offsets[index - 1]
    return False


def complete(ring: Sequence[StoredCommit], rules: BurrowRules) -> float:
    """How full the window is, from 0 to 1."""
    return len(ring) / rules.intervals


def group_status(statuses: Iterable[str]) -> str:
    worst = max(statuses, key=SEVERITY.__getitem__, default=OK)
    return ERR if SEVERITY[worst] > SEVERITY[ERR] else worst
