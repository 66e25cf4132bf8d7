"""Forecasts when retention deletes records that a group has not committed, from the rounds of this monitor.

The time is that at which the start of the log, at its present pace, reaches the committed offset
(`transforms.lag.rules.forecast` has the method). The module remembers when the start of each log moved, and takes the
commits of the status window from the state of the lag. Until the start of a log has moved six times since the monitor
began, there is no forecast for it. `groupledger forecast` also shows the earliest and the latest time, from the tables.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules.forecast import STANDING, STANDSTILL, drift, reaches_zero

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.lag.rules import LagRow, PartitionWindow

MOVES_KEPT = 24


class RetentionAhead:
    def __init__(self) -> None:
        self._starts: dict[TopicPartition, int] = {}
        self._moves: dict[TopicPartition, deque[tuple[float, float]]] = {}

    def look(self, rows: Iterable[LagRow]) -> None:
        """Records the starts of the logs of a round's partitions."""
        for row in rows:
            place, start = TopicPartition(row.topic, row.partition), row.log_start_offset
            if start is None:
                continue
            before = self._starts.get(place, start)
            self._starts[place] = start
            if start < before:  # of another topic of the same name
                self._moves.pop(place, None)
            elif start > before:
                moves = self._moves.setdefault(place, deque(maxlen=MOVES_KEPT))
                moves.append((row.sampled_at_ms / 1_000, start))

    def seconds(
        self, rows: Iterable[LagRow], windows: Mapping[str, Mapping[TopicPartition, PartitionWindow]]
    ) -> dict[str, float]:
        """Returns, by group, the seconds until the start of a log reaches the group's committed offset, for the
        partition where that is first. Groups without a forecast are left out. `windows` has the recent commits, by
        group and partition."""
        found: dict[str, float] = {}
        moving = (row for row in rows if (row.topic, row.partition) in self._moves)
        for row in moving:
            place = TopicPartition(row.topic, row.partition)
            window = windows.get(row.group_id, {}).get(place)
            left_s = None if window is None or row.lag is None else self._overtakes(row, place, window)
            if left_s is not None:
                found[row.group_id] = min(left_s, found.get(row.group_id, left_s))
        return found

    def _overtakes(self, row: LagRow, place: TopicPartition, window: PartitionWindow) -> float | None:
        pace = drift(list(self._moves[place]))
        if pace is None or row.committed_offset is None or row.log_start_offset is None:
            return None
        left = row.committed_offset - row.log_start_offset
        commits = [(each.sampled_at_ms / 1_000, float(each.committed_offset)) for each in window.points]
        consumed = STANDSTILL if row.status in STANDING else drift(commits)
        if left < 0 or consumed is None:
            return None
        expected = reaches_zero(left, consumed.less(pace))
        return None if expected is None else expected.seconds
