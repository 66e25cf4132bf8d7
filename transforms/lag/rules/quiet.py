"""Holds groups at rest: nothing has changed on any of their partitions for a round, and nothing was left to read.

The rows of such a group differ only in `sampled_at_ms` until something changes. So a round neither looks at its
partitions nor adds points to their windows: one set of points without lag stands for all of them, and the windows take
over its times when they are asked, or wake up. Slopes are 0, or None while there are few points, so they are the same
on all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.transforms.lag.rules.points import Point, Points
from groupledger.transforms.lag.rules.row import AFTER_TIME, LagRow, is_settled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.lag.rules.facts import GroupFacts
    from groupledger.transforms.lag.rules.partition_window import PartitionWindow
    from groupledger.transforms.lag.rules.thresholds import LagRules
    from groupledger.transforms.lag.rules.topic_window import TopicWindow


class Situation(NamedTuple):
    """Holds what is the same for all partitions of a group in a round."""

    sampled_at_ms: int
    facts: GroupFacts
    commits_until_ms: int | None
    has_hidden_commits: bool


class Judged(NamedTuple):
    """Holds the rows of a group in a round."""

    situation: Situation
    rows: dict[TopicPartition, LagRow]


class QuietGroup:
    """Holds the rows of a group at rest, in the last round that had them."""

    __slots__ = ("_columns", "_places", "_points", "_situation", "_slope", "_windows")

    def __init__(self, found: Judged, windows: Sequence[PartitionWindow], rules: LagRules) -> None:
        self._situation = found.situation
        self._places = tuple(found.rows)
        self._columns = [AFTER_TIME(row) for row in found.rows.values()]
        self._windows = windows
        times_ms = windows[0].points.times_ms if windows else ()
        self._points = Points(Point(at_ms, 0, 0) for at_ms in times_ms)
        self._slope = self._points.slope_per_s()
        for window in windows:
            window.rest(self._points, rules)

    def goes_on(self, situation: Situation, restless: AbstractSet[TopicPartition], rules: LagRules) -> bool:
        """Returns whether the group has the same rows in the next round, if it has no commit by then. `restless` are
        the topic partitions whose sample has changed, or that have none."""
        if situation[1:] != self._situation[1:] or not restless.isdisjoint(self._places):
            return False
        if self._windows:
            self._points.add(situation.sampled_at_ms, 0, 0, rules.status)
        if self._points.slope_per_s() != self._slope:
            return False
        self._situation = situation
        return True

    def rows(self) -> list[LagRow]:
        at_ms = self._situation.sampled_at_ms
        return [LagRow(at_ms, *columns) for columns in self._columns]

    def wake(self) -> Judged:
        """Returns the rows of the last round, and brings the windows up to it."""
        for window in self._windows:
            window.wake()
        return Judged(self._situation, dict(zip(self._places, self.rows(), strict=True)))


def quiet_group(
    found: Judged,
    windows: Mapping[TopicPartition, PartitionWindow],
    topics: Mapping[TopicPartition, TopicWindow],
    rules: LagRules,
) -> QuietGroup | None:
    """Returns the group at rest, if it is. `found` are the rows of a round in which nothing had changed."""
    at_ms = found.situation.sampled_at_ms
    for place, row in found.rows.items():
        topic = topics.get(place)
        if not is_settled(row) or topic is None or topic.latest is None or topic.latest.sampled_at_ms != at_ms:
            return None
        if (place in windows) != (row.kafka_offset is not None):
            return None
    of_group = list(windows.values())
    times_ms = of_group[0].points.times_ms if of_group else None
    if any(each.points.times_ms != times_ms or not each.points.is_free_of_lag for each in of_group):
        return None
    return QuietGroup(found, of_group, rules)
