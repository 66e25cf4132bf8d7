"""Holds the recent state of one group on one topic partition: its last commits, and its last positions by time.

`absorb` takes the commits of a round in the order of the log, and `observe` takes the lag that the round then found.
Both ignore what they were given before. `restore` restores the state from the tables: the last commits with the
watermark before each, and the rows of `lag` of the last window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.transforms.lag.rules import burrow
from groupledger.transforms.lag.rules.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.facts import Commit
    from groupledger.transforms.lag.rules.points import Point
    from groupledger.transforms.lag.rules.thresholds import LagRules, StatusRules


class PartitionWindow:
    """Holds the state of a group on a partition.

    `latest` is the newest commit; None if there is no commit, or if the newest one was removed. `no_progress_since_ms`
    is the first round that saw lag at the offset that was committed in the last round.
    """

    __slots__ = (
        *("_at_rest", "_last_kafka_offset", "_observed_offset", "_points"),
        *("latest", "no_progress_since_ms", "removed_at", "ring"),
    )

    def __init__(self) -> None:
        self.latest: Commit | None = None
        self.ring = burrow.Ring()
        self._points = Points()
        self._at_rest: tuple[Points, StatusRules] | None = None
        self.no_progress_since_ms: int | None = None
        self.removed_at = -1  # the record that last removed the commit
        self._last_kafka_offset = -1
        self._observed_offset: int | None = None  # what was committed in the last round

    def absorb(self, commit: Commit, high_watermark_before: int | None, rules: LagRules) -> None:
        """Adds a commit or a removal. `high_watermark_before` is the high watermark in the newest sample before it; a
        commit that has its own ignores this one."""
        if commit.kafka_offset <= self._last_kafka_offset:
            return
        self._last_kafka_offset = commit.kafka_offset
        if commit.committed_offset is None:
            self.removed_at = commit.kafka_offset
            self._forget()
            return
        self.latest = commit
        before = commit.high_watermark_before
        self.ring.store(commit, high_watermark_before if before is None else before, rules.burrow)

    @property
    def commit_interval_ms(self) -> int | None:
        """Returns the mean time between the commits of the ring; None below two commits."""
        commits = len(self.ring)
        return self.ring.lasted_ms // (commits - 1) if commits > 1 else None

    @property
    def points(self) -> Points:
        """Returns the points up to the last round."""
        if self._at_rest is not None and self.latest is not None and self.latest.committed_offset is not None:
            self._points.follow(self._at_rest[0], self.latest.committed_offset, self._at_rest[1])
        return self._points

    def rest(self, common: Points, rules: LagRules) -> None:
        """Takes the points without lag of the rounds to come from `common`, until `wake`. No commit may come between,
        and `observe` need not be called."""
        self._at_rest = (common, rules.status)

    def wake(self) -> None:
        """Ends `rest`. Call it before a later round."""
        self._points, self._at_rest = self.points, None

    def observe(self, sampled_at_ms: int, lag: int | None, rules: LagRules, *, is_waiting: bool = False) -> None:
        """Adds the lag that a round found; None if it found no lag. A group that waits for the end of a transaction
        (`is_waiting`) can't make progress, so its time without progress begins when the transaction is over."""
        committed = self.latest.committed_offset if self.latest is not None else None
        if committed != self._observed_offset:
            self._observed_offset, self.no_progress_since_ms = committed, None
        if lag is None or committed is None:
            return
        if lag == 0 or is_waiting:
            self.no_progress_since_ms = None
        elif self.no_progress_since_ms is None:
            self.no_progress_since_ms = sampled_at_ms
        self._points.add(sampled_at_ms, committed, lag, rules.status)

    def restore(self, points: Iterable[Point], observed_offset: int, no_progress_since_ms: int | None) -> None:
        """Restores the window from the table `lag`, after a restart. `points` are in order of time: of each twentieth
        of the window, the newest row with a lag. The others are of the last row, whether it has a lag or not."""
        self._points = Points(points)
        self._observed_offset = observed_offset
        self.no_progress_since_ms = no_progress_since_ms

    def _forget(self) -> None:
        self.latest = self._observed_offset = self.no_progress_since_ms = None
        self.ring.clear()
        self._points = Points()
