"""Holds a target while an assignor works on it, with the topic order that the broker's map would have.

A broker keeps the former target as it is until the assignor changes something in it. Then it works on a copy, and the
copy's map has a smaller capacity, and so another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import HashOrder, uuid_number

if TYPE_CHECKING:
    from groupledger.coordinator.model.partitions import Partitions


class Target:
    def __init__(self, before: Partitions) -> None:
        self._before = before
        self._order: HashOrder | None = None
        self._topics: dict[int, str] = {}
        self._numbers: dict[str, set[int]] = {}

    def alter(self) -> None:
        """Replaces the former target by a copy on which the assignor works, unless that has happened already."""
        if self._order is None:
            self._topics = {uuid_number(topic): topic for topic in self._before}
            self._numbers = {topic: set(numbers) for topic, numbers in self._before.items()}
            self._order = HashOrder(self._topics, room=len(self._before))

    def add(self, topic: str, number: int) -> None:
        self.alter()
        if self._order is not None:
            self._order.compute(uuid_number(topic))
        self._topics[uuid_number(topic)] = topic
        self._numbers.setdefault(topic, set()).add(number)

    def remove(self, topic: str, number: int) -> None:
        self.alter()
        self._numbers[topic].remove(number)
        if not self._numbers[topic]:
            self.remove_topic(topic)

    def take(self, topic: str, number: int) -> None:
        """Removes a partition. Unlike `remove` it keeps the topic, even if no partition of it is left."""
        self.alter()
        self._numbers[topic].remove(number)

    def remove_topic(self, topic: str) -> None:
        self.alter()
        self._numbers.pop(topic)
        if self._order is not None:
            self._order.remove(uuid_number(topic))

    def partitions(self) -> Partitions:
        if self._order is None:
            return self._before
        topics = [self._topics[int(number)] for number in self._order]
        return {topic: tuple(sorted(self._numbers[topic])) for topic in topics}
