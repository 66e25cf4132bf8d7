"""Records which member consumed which partition when, and the commits, and computes the cost.

Records arrive in every partition at one rate. A consumer starts at the committed offset, catches up at ten times that
rate, and then follows the end. So an interval is a range of offsets, and records in two intervals were processed twice.
A paused member consumes nothing, though it may still believe that it owns its partitions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.protocols.world import World
    from groupledger.schemas.kafka.topic_partition import TopicPartition


CATCHES_UP: Final = 10


def life_of(name: str, number: int) -> str:
    """Returns the name of the life with this number of a member. A member has another life each time it joins; the
    first one has the member's name."""
    return name if number == 1 else f"{name}#{number}"


def name_of(life: str) -> str:
    return life.partition("#")[0]


@dataclass(frozen=True, slots=True)
class ConsumedInterval:
    """One member consumed one partition from `from_ms` to `to_ms`, and read the offsets [from_offset, to_offset)."""

    partition: TopicPartition
    member: str
    from_ms: int
    to_ms: int
    from_offset: int
    to_offset: int


@dataclass(slots=True)
class Consumption:
    """The intervals of a run in which members consumed partitions, and the committed offsets. `created_ms` is the time
    at which each partition was created."""

    world: World
    records_per_second: int
    created_ms: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    closed: list[ConsumedInterval] = field(default_factory=list)
    _open: dict[tuple[str, TopicPartition], tuple[int, int]] = field(default_factory=dict)

    def create(self, partition: TopicPartition) -> None:
        self.created_ms[partition] = self.world.now_ms

    def end(self, partition: TopicPartition) -> int:
        """Returns the offset at which the partition's log ends now."""
        return (self.world.now_ms - self.created_ms[partition]) * self.records_per_second // 1_000

    def position(self, life: str, partition: TopicPartition) -> int | None:
        """Returns the next offset that this life of a member reads. Returns None if it does not consume the
        partition."""
        begun = self._open.get((life, partition))
        return None if begun is None else self._reached(partition, *begun)

    def _reached(self, partition: TopicPartition, from_ms: int, from_offset: int) -> int:
        read = (self.world.now_ms - from_ms) * self.records_per_second * CATCHES_UP // 1_000
        return max(from_offset, min(self.end(partition), from_offset + read))

    def start(self, life: str, partition: TopicPartition, offset: int | None = None) -> None:
        begin = self.committed.get(partition, 0) if offset is None else offset
        self._open.setdefault((life, partition), (self.world.now_ms, begin))

    def stop(self, life: str, partition: TopicPartition) -> None:
        begun = self._open.pop((life, partition), None)
        if begun is not None:
            end = self._reached(partition, *begun)
            self.closed.append(ConsumedInterval(partition, name_of(life), begun[0], self.world.now_ms, begun[1], end))

    def stop_all(self, life: str) -> list[TopicPartition]:
        """Ends all consumption of one life of a member, and returns the partitions that it consumed."""
        ended = [partition for name, partition in self._open if name == life]
        for partition in ended:
            self.stop(life, partition)
        return ended

    def commit(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        self.committed.update(offsets)

    def intervals(self) -> list[ConsumedInterval]:
        """Returns the intervals of the whole run. An interval that is still open ends at the present time."""
        going_on = [
            ConsumedInterval(
                partition, name_of(life), begun_ms, self.world.now_ms, begin, self._reached(partition, begun_ms, begin)
            )
            for (life, partition), (begun_ms, begin) in self._open.items()
        ]
        return [*self.closed, *going_on]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost between two instants: how long nobody and how long more than one member consumed a partition (in
    partition-ms), and how many records were processed more than once."""

    unowned_ms: int
    doubled_ms: int
    processed_twice: int


def cost_of(
    intervals: Iterable[ConsumedInterval], created_ms: Mapping[TopicPartition, int], from_ms: int, until_ms: int
) -> Cost:
    """Returns the cost within [from_ms, until_ms] for the partitions in `created_ms`. Records that an interval read
    although an earlier one had read them count if the interval began within that time: an interval reads them first,
    so those of one that began before were read again before, too."""
    by_partition: dict[TopicPartition, list[ConsumedInterval]] = defaultdict(list)
    for interval in intervals:
        by_partition[interval.partition].append(interval)
    unowned = doubled = twice = 0
    for partition, created in created_ms.items():
        begin = max(from_ms, created)
        held = [(max(each.from_ms, begin), min(each.to_ms, until_ms)) for each in by_partition[partition]]
        none, more = _none_and_more(sorted(each for each in held if each[0] < each[1]), begin, until_ms)
        unowned, doubled = unowned + none, doubled + more
        twice += _repeated(by_partition[partition], from_ms, until_ms)
    return Cost(unowned, doubled, twice)


def _none_and_more(held: list[tuple[int, int]], begin: int, end: int) -> tuple[int, int]:
    """Returns how long no span and how long more than one covers the time from begin to end."""
    none, more, covered, doubly = 0, 0, begin, begin
    for start, stop in held:
        none += max(0, start - covered)
        # All that an earlier span covers, too, is covered twice; `doubly` keeps a third one from being counted.
        more += max(0, min(stop, covered) - max(start, doubly))
        doubly = max(doubly, min(stop, covered))
        covered = max(covered, stop)
    return none + max(0, end - covered), more


def _repeated(intervals: list[ConsumedInterval], from_ms: int, until_ms: int) -> int:
    """Returns how many records of a partition were read although an earlier interval had read them, by intervals that
    began from `from_ms` to `until_ms`."""
    seen = repeated = 0
    for interval in sorted(intervals, key=lambda each: (each.from_ms, each.to_ms)):
        again = max(0, min(interval.to_offset, seen) - interval.from_offset)
        repeated += again if from_ms <= interval.from_ms <= until_ms else 0
        if interval.from_offset < interval.to_offset:
            seen = max(seen, interval.to_offset)
    return repeated


def changes_ms(intervals: Iterable[ConsumedInterval], until_ms: int) -> list[int]:
    """Returns the instants at which a member began or stopped consuming a partition. Ends at `until_ms` are left out,
    because there the run ends."""
    return sorted({each.from_ms for each in intervals} | {each.to_ms for each in intervals if each.to_ms < until_ms})
