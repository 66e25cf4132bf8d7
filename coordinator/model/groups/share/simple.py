"""Implements `simple`, the assignor of share groups: every partition gets about as many members as any other, with as
few moves as possible.

If all members subscribe to the same topics, all partitions are divided at once, otherwise topic by topic. Each member
has a quota, a whole number that differs by at most one between members. It gives up partitions above its quota. A
partition with more members than its share loses some; a partition with too few then gets members that are below their
quota, in turn.

If order decides the result, it is the order of Java's hash maps, with one exception: if a topic has more than sixteen
partitions, two in one bucket of a broker's set are in the order of insertion there, and in numerical order here. Two
oddities of a broker are reproduced: a topic whose last partition is removed stays in the target without any, and so
does a topic without subscribers if members subscribe to different topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import (
    HashOrder,
    JavaHashMap,
    hash_map_order,
    int_order,
    topic_partition_number,
    uuid_order,
)
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.groups.modern.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.coordinator.model.partitions import Partitions

_Partition = tuple[str, int]  # the topic's id and the number


@dataclass(frozen=True, slots=True)
class ShareSubscriber:
    """What the assignor knows about a member: the ids of its topics, and its present target."""

    topics: tuple[str, ...]
    target: Partitions


def assign_simple(
    members: Mapping[str, ShareSubscriber], assignable: Mapping[str, Sequence[int]], *, is_equal: bool
) -> dict[str, Partitions]:
    """Returns targets by member id. `assignable` are the partitions of each topic id that can be assigned; `is_equal`
    says that all members subscribe to the same topics."""
    order = hash_map_order(members)
    subscribers = [members[name] for name in order]
    if is_equal:
        topics = subscribers[0].topics if subscribers else ()
    else:
        topics = tuple(uuid_order([topic for each in subscribers for topic in each.topics]))
    if not topics:
        return {}
    targets = [Target(each.target) for each in subscribers]
    if is_equal:
        partitions = [(topic, number) for topic in topics for number in assignable.get(topic, ())]
        _divide_all(targets, subscribers, topics, partitions)
    else:
        for topic in topics:
            _divide_topic(targets, subscribers, topic, assignable.get(topic, ()))
    return {name: target.partitions() for name, target in zip(order, targets, strict=True)}


def _divide_all(
    targets: list[Target], members: Sequence[ShareSubscriber], topics: Sequence[str], partitions: list[_Partition]
) -> None:
    division = _Division(targets, range(len(members)), partitions, is_of_one_topic=False)
    for member, each in enumerate(members):
        for topic, numbers in each.target.items():
            if topic not in topics:
                targets[member].remove_topic(topic)
                continue
            for number in int_order(numbers):
                division.keep(member, (topic, number))
                if division.has_due(member):
                    targets[member].alter()
    division.divide()


def _divide_topic(
    targets: list[Target], members: Sequence[ShareSubscriber], topic: str, numbers: Sequence[int]
) -> None:
    """Divides one topic. A member that does not subscribe to it any more is due nothing, and gives up all of it."""
    subscribers = [member for member, each in enumerate(members) if topic in each.topics]
    division = _Division(targets, subscribers, [(topic, number) for number in numbers], is_of_one_topic=True)
    for member, each in enumerate(members):
        for number in int_order(each.target.get(topic, ())):
            division.keep(member, (topic, number))
    division.divide()


class _Division:
    """Partitions while they are divided among the members that subscribe to them. Members are known by their places."""

    def __init__(
        self, targets: list[Target], subscribers: Sequence[int], partitions: list[_Partition], *, is_of_one_topic: bool
    ) -> None:
        self._targets, self._partitions, self._is_of_one_topic = targets, partitions, is_of_one_topic
        count = len(partitions)
        self._share = (len(subscribers) + count - 1) // count if count else 0
        each = self._share * count / len(subscribers)
        self._due = {member: ceil(each * (place + 1)) - ceil(each * place) for place, member in enumerate(subscribers)}
        self._subscribers = subscribers
        self._numbers: dict[_Partition, int] = {}
        self._holders: dict[_Partition, JavaHashMap[int, None]] = {}
        self._held: dict[int, JavaHashMap[int, _Partition]] = {}

    def keep(self, member: int, partition: _Partition) -> None:
        self._holders.setdefault(partition, JavaHashMap()).put(member, None)
        self._hold(member, partition)

    def has_due(self, member: int) -> bool:
        return self._count(member) >= self._due.get(member, 0)

    def divide(self) -> None:
        for member, held in self._held.items():
            surplus = max(len(held) - self._due.get(member, 0), 0)
            for partition in held.values()[:surplus]:
                self._take(member, partition)
        for partition, holders in self._holders.items():
            for member in [*holders][: max(len(holders) - self._share, 0)]:
                self._take(member, partition)
        for partition in self._partitions:
            self._holders.setdefault(partition, JavaHashMap())
        self._give_missing()

    def _give_missing(self) -> None:
        waiting = [member for member in self._subscribers if not self.has_due(member)]
        turn, has_given = 0, False
        for partition in self._in_order():
            missing = self._share - len(self._holders[partition])
            while waiting and missing > 0:
                if turn == len(waiting):
                    if not has_given:
                        break
                    turn, has_given = 0, False
                member = waiting[turn]
                turn += 1
                if member in self._holders[partition]:
                    continue
                self._targets[member].add(*partition)
                self._hold(member, partition)
                missing, has_given = missing - 1, True
                if self.has_due(member):
                    turn -= 1
                    del waiting[turn]
                if missing > 0 and not waiting:
                    raise IllegalStateError("a broker looks for a next member where none is left")
            if not waiting:
                return

    def _in_order(self) -> list[_Partition]:
        """Returns the partitions in the order of the broker's map of them, which was made with room for all."""
        by_number = {self._number(partition): partition for partition in self._holders}
        order = HashOrder(room=int((len(self._partitions) + 1) / 0.75 + 1))
        for number in by_number:
            order.compute(number)
        return [by_number[int(number)] for number in order]

    def _take(self, member: int, partition: _Partition) -> None:
        self._targets[member].take(*partition)
        self._holders[partition].pop(member)
        self._held[member].pop(self._number(partition))

    def _hold(self, member: int, partition: _Partition) -> None:
        self._held.setdefault(member, JavaHashMap()).put(self._number(partition), partition)

    def _count(self, member: int) -> int:
        return len(self._held.get(member, ()))

    def _number(self, partition: _Partition) -> int:
        if self._is_of_one_topic:
            return partition[1]
        if partition not in self._numbers:
            self._numbers[partition] = topic_partition_number(*partition, place=len(self._numbers))
        return self._numbers[partition]
