"""Counts the events in groups since a monitor began, from the rows that its history has written.

An event counts once, and only if its record is from after the monitor's start: Prometheus expects counters to begin at
zero with the process. The history writes a row again when it learns more of it (the first commit after a rebalance ends
a pause). So the keys of the events of the last hours are remembered, and an event that is written later than that is
not counted. These hours end with the newest event that was read, not with the present, so a history that is hours late
loses no event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.triggers import UNKNOWN
from groupledger.transforms.history.rules.pause import NO_PAUSE, pause_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = Mapping[str, Any]

WINDOW_MS = 6 * 3_600_000
# How long rebalances take, in seconds: a sync takes milliseconds, max.poll.interval.ms is five minutes by default.
BOUNDS_S = (0.1, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 900.0)
REBALANCE_COLUMNS = (
    *("group_id", "incarnation", "to_generation", "from_generation", "happened_at", "inferred_trigger"),
    *("sync_wait_ms", "pause_scope", "pause_lower_ms", "pause_upper_ms", "partition_pauses", "partitions_moved"),
    "partitions_lost",
)
MEMBER_COLUMNS = (
    *("group_id", "incarnation", "member_id", "from_offset", "joined_at", "left_at", "is_start_known", "leave_cause"),
)
GENERATION_COLUMNS = ("group_id", "incarnation", "generation", "revision", "started_at", "converged_at")


class Count(Enum):
    """The kinds of events that are counted. TOOK and PAUSED are durations in histograms."""

    JOINED = auto()
    LEFT = auto()
    REBALANCES = auto()
    TOOK = auto()
    PAUSED = auto()


@dataclass(frozen=True, slots=True)
class Event:
    """An event in a group. `key` identifies it among the events of its kind, `count`. `why` is the cause of a departure
    or the trigger of a rebalance, as the ledger's tables name it. `seconds` is the duration, for kinds that are
    histograms."""

    count: Count
    key: tuple[Any, ...]
    at_ms: int
    group_id: str
    why: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Durations:
    """A histogram of durations. `counts` has how many fall into each of the intervals that end at `BOUNDS_S`, and how
    many are longer than the last; `sum_s` is their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0

    def plus(self, seconds: float) -> Durations:
        place = bisect_left(BOUNDS_S, seconds)
        counts = tuple(count + (number == place) for number, count in enumerate(self.counts))
        return Durations(counts, self.sum_s + seconds)


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts events by kind, then by group and `why`. `from_ms` is the beginning of the time in which the history may
    write an event again; `seen` has the keys of the events in that time."""

    from_ms: int
    counts: Mapping[Count, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    durations: Mapping[Count, Mapping[tuple[str, str], Durations]] = field(default_factory=dict)
    seen: frozenset[tuple[Any, ...]] = frozenset()

    def after(self, events: Iterable[Event]) -> Activity:
        """Returns the counts with the new ones of `events` added. `events` must be all events since `from_ms`."""
        counts = {kind: Counter(self.counts.get(kind, {})) for kind in Count}
        durations = {kind: dict(self.durations.get(kind, {})) for kind in (Count.TOOK, Count.PAUSED)}
        in_window = {(event.count, *event.key): event for event in events if event.at_ms >= self.from_ms}
        for key in in_window.keys() - self.seen:
            event = in_window[key]
            place = (event.group_id, event.why)
            if event.seconds is None:
                counts[event.count][place] += 1
            else:
                durations[event.count][place] = durations[event.count].get(place, Durations()).plus(event.seconds)
        from_ms = max((event.at_ms - WINDOW_MS for event in in_window.values()), default=self.from_ms)
        from_ms = max(from_ms, self.from_ms)
        seen = frozenset(key for key, event in in_window.items() if event.at_ms >= from_ms)
        return Activity(from_ms, counts, durations, seen)


def events_of(rebalances: Iterable[Row], members: Iterable[Row], generations: Iterable[Row]) -> Iterator[Event]:
    """Yields the events that rows of `rebalances`, `members` and `generations` show. The rows have times in
    microseconds. A group's creation does not count as a rebalance, and the first members of a group that existed before
    the log began do not count as joins."""
    triggers: dict[tuple[Any, ...], str] = {}
    for row in rebalances:
        if row["from_generation"]:
            place = (row["group_id"], row["incarnation"], row["to_generation"])
            triggers[place] = row["inferred_trigger"] or UNKNOWN.name
            yield from _of_rebalance(row, place, triggers[place], row["happened_at"] // 1_000)
    for row in members:
        tenure = (row["group_id"], row["incarnation"], row["member_id"], row["from_offset"])
        if row["is_start_known"]:
            yield Event(Count.JOINED, tenure, row["joined_at"] // 1_000, row["group_id"])
        if row["left_at"] is not None:
            cause = row["leave_cause"] or UNKNOWN.name
            yield Event(Count.LEFT, tenure, row["left_at"] // 1_000, row["group_id"], cause)
    for row in generations:
        place = (row["group_id"], row["incarnation"], row["generation"])
        if row["converged_at"] is not None and not row["revision"]:
            seconds = max(row["converged_at"] - row["started_at"], 0) / 1_000_000
            trigger = triggers.get(place, UNKNOWN.name)
            yield Event(Count.TOOK, place, row["converged_at"] // 1_000, row["group_id"], trigger, seconds)


def _of_rebalance(row: Row, key: tuple[Any, ...], trigger: str, happened_ms: int) -> Iterator[Event]:
    group_id = row["group_id"]
    yield Event(Count.REBALANCES, key, happened_ms, group_id, trigger)
    if row["sync_wait_ms"] is not None:
        yield Event(Count.TOOK, key, happened_ms, group_id, trigger, row["sync_wait_ms"] / 1_000)
    pause = pause_of(row)
    if pause.upper_ms is not None and pause != NO_PAUSE:
        yield Event(Count.PAUSED, key, happened_ms, group_id, trigger, pause.upper_ms / 1_000)
