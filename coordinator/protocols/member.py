"""Defines a member of a group for all protocols: its partitions, and the events that can happen to it from outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from groupledger.coordinator.protocols.consumption import life_of
from groupledger.coordinator.protocols.world import Process
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.world import Steps, World

Offsets: TypeAlias = list[tuple[TopicPartition, int]]


class Member(Process, ABC):
    """One life of a member. A member that comes back after it left is another object with the same name."""

    def __init__(self, world: World, name: str, consumption: Consumption) -> None:
        super().__init__(world, name)
        self.consumption = consumption
        self.owned: dict[TopicPartition, None] = {}
        self.busy_from_ms = self.busy_until_ms = 0

    @abstractmethod
    def begin(self) -> None:
        """Starts the generators of this life of the member."""

    @abstractmethod
    def goodbye(self) -> Steps:
        """Yields the steps of an orderly shutdown."""

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.owned[partition] = None
            self.consumption.start(self.life, partition)

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self.consumption.stop(self.life, partition)
            self.owned.pop(partition, None)

    def positions(self, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Returns the offsets that the member would commit: of the given partitions, or of all that it owns. Partitions
        that it does not consume are left out."""
        mine = self.owned if partitions is None else partitions
        found = [(partition, self.consumption.position(self.life, partition)) for partition in mine]
        return [(partition, offset) for partition, offset in found if offset is not None]

    @property
    def is_busy(self) -> bool:
        return self.world.now_ms < self.busy_until_ms

    def until_idle(self) -> Steps:
        """Yields until the application polls the client again. Only then can the member rejoin."""
        while self.is_busy:
            yield self.busy_until_ms - self.world.now_ms

    def leave(self) -> None:
        self.start(self._leave())

    def _leave(self) -> Steps:
        yield from self.goodbye()
        self.crash()

    def crash(self) -> None:
        self.consumption.stop_all(self.life)
        self.die()

    def pause(self, for_ms: int) -> None:
        """Stops the whole process for a while. Afterwards the member continues at the offsets where it stopped, if it
        still owns the partitions."""
        stood = self.positions()
        self.consumption.stop_all(self.life)
        super().pause(for_ms)
        self.world.after(for_ms, lambda: self._goes_on(stood))

    def _goes_on(self, stood: Offsets) -> None:
        for partition, offset in stood:
            if self.is_alive and partition in self.owned:
                self.consumption.start(self.life, partition, offset)

    def slow(self, for_ms: int) -> None:
        self.busy_from_ms, self.busy_until_ms = self.world.now_ms, self.world.now_ms + for_ms


class Group(ABC):
    """The members of a group by name, and the partition counts of its topics, under one protocol."""

    def __init__(self, world: World, consumption: Consumption, topics: Iterable[tuple[str, int]]) -> None:
        self.world = world
        self.consumption = consumption
        self.topics: dict[str, int] = {}
        self.members: dict[str, Member] = {}
        self._lives: Counter[str] = Counter()
        for topic, count in topics:
            self._create(topic, count)

    @abstractmethod
    def make(self, name: str) -> Member:
        """Returns a new member of this protocol."""

    @abstractmethod
    def topic_grew(self) -> None:
        """Notifies the members or servers that watch topics, after `topics` has the new partition count."""

    def join(self, name: str) -> None:
        """Starts a new life of the member `name`. An earlier life with the same name may still exist, if it is
        paused."""
        self._lives[name] += 1
        self.members[name] = self.make(name)
        self.members[name].life = life_of(name, self._lives[name])
        self.members[name].begin()

    def grow(self, topic: str, count: int) -> None:
        self._create(topic, count)
        self.topic_grew()

    def _create(self, topic: str, count: int) -> None:
        for number in range(self.topics.get(topic, 0), count):
            self.consumption.create(TopicPartition(topic, number))
        self.topics[topic] = count

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, count in self.topics.items() for number in range(count)]
