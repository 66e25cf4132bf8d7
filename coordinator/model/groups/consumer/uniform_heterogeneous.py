"""Implements the assignor `uniform` for members that subscribe to different topics.

Members keep the partitions of topics to which they still subscribe. Then topics are handled one after the other, those
with the most partitions per subscriber first: free partitions go to the least loaded subscribers of the topic, in turn.
Last, partitions of each topic move from its most to its least loaded subscribers until these differ by one. That is
repeated for all topics until a whole round moves nothing, sixteen times at most.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import hash_map_order, signed64
from groupledger.coordinator.model.groups.modern.target import Target
from groupledger.schemas.kafka.uuids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.coordinator.model.partitions import Partitions

ROUNDS_MAX: Final = 16
NOBODY: Final = -1


def assign_unequal(
    members: Mapping[str, tuple[tuple[str, ...], Partitions]], counts: Mapping[str, int]
) -> dict[str, Partitions]:
    """Returns the target of each member. `members` have for each the ids of its topics and its present target; `counts`
    are the numbers of partitions by topic id."""
    return _Assignment(members, counts).targets()


class _Assignment:
    def __init__(self, members: Mapping[str, tuple[tuple[str, ...], Partitions]], counts: Mapping[str, int]) -> None:
        self.names = hash_map_order(members)
        self.sizes = [0] * len(self.names)
        self._subscribers: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            for topic in members[name][0]:
                self._subscribers.setdefault(topic, []).append(index)
        self._owners = {topic: [NOBODY] * counts[topic] for topic in self._subscribers}
        self._targets = [Target(members[name][1]) for name in self.names]
        for index, name in enumerate(self.names):
            topics, target = members[name]
            for topic, numbers in target.items():
                if topic in topics:
                    for number in numbers:
                        self._owners[topic][number] = index
                    self.sizes[index] += len(numbers)
                else:
                    self._targets[index].remove_topic(topic)

    def targets(self) -> dict[str, Partitions]:
        topics = sorted(self._subscribers, key=cmp_to_key(self._compare))
        for topic in topics:
            loads = _Loads(self.sizes, self._subscribers[topic])
            for number, owner in enumerate(self._owners[topic]):
                if owner == NOBODY:
                    self._give(topic, number, loads.least())
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        return {name: target.partitions() for name, target in zip(self.names, self._targets, strict=True)}

    def _compare(self, one: str, other: str) -> int:
        """Compares topics: more partitions a subscriber first, then fewer subscribers, then the id."""
        subscribers = len(self._subscribers[one]), len(self._subscribers[other])
        load = len(self._owners[other]) / subscribers[1] - len(self._owners[one]) / subscribers[0]
        if load:
            return 1 if load > 0 else -1
        if subscribers[0] != subscribers[1]:
            return subscribers[0] - subscribers[1]
        return -1 if _halves(one) < _halves(other) else 1

    def _give(self, topic: str, number: int, index: int) -> None:
        before = self._owners[topic][number]
        if before != NOBODY:
            self.sizes[before] -= 1
            self._targets[before].remove(topic, number)
        self._owners[topic][number] = index
        self.sizes[index] += 1
        self._targets[index].add(topic, number)

    def _balance(self, topics: Sequence[str]) -> None:
        unmoved_since = None
        for _ in range(ROUNDS_MAX):
            for place, topic in enumerate(topics):
                if place == unmoved_since:
                    return
                if self._balance_topic(topic) or unmoved_since is None:
                    unmoved_since = place

    def _balance_topic(self, topic: str) -> int:
        """Moves partitions of a topic among its subscribers, and returns how many."""
        loads = _Loads(self.sizes, self._subscribers[topic])
        if loads.spread <= 1:
            return 0
        had: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic]):
            had.setdefault(owner, []).append(number)
        moved = 0
        while not loads.is_balanced:
            most = loads.most()
            while most is not None and not had.get(most):
                loads.exclude_most()
                most = loads.most()
            if most is None:
                break
            number = had[most].pop()
            least = loads.least()
            if loads.is_balanced:
                break
            self._give(topic, number, least)
            moved += 1
        return moved


class _Loads:
    """The subscribers of a topic from the least to the most loaded. `least` and `most` go round those of one load, and
    then on to the next, as if each had been given, or had lost, one in every round."""

    def __init__(self, sizes: Sequence[int], subscribers: Sequence[int]) -> None:
        self._sizes = sizes
        self._order = sorted(subscribers, key=lambda index: (sizes[index], index))
        lowest, highest = sizes[self._order[0]], sizes[self._order[-1]]
        self.spread = highest - lowest
        self._low_end, self._low, self._next_low = 0, lowest - 1, 0
        self._high_begin = self._high_end = len(self._order)
        self._high, self._next_high = highest + 1, len(self._order) - 1

    @property
    def is_balanced(self) -> bool:
        return self._high - self._low <= 1

    def least(self) -> int:
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(self._order) and self._sizes[self._order[self._low_end]] == self._low:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._order[self._next_low - 1]

    def most(self) -> int | None:
        if self._next_high < self._high_begin:
            if self._high_end <= self._high_begin and self._high_begin > 0:
                self._high = self._sizes[self._order[self._high_begin - 1]]
            else:
                self._high -= 1
            while self._high_begin > 0 and self._sizes[self._order[self._high_begin - 1]] == self._high:
                self._high_begin -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._order[self._next_high + 1]

    def exclude_most(self) -> None:
        """Leaves out the member that `most` has returned last."""
        place, last = self._next_high + 1, self._high_end - 1
        self._order[place], self._order[last] = self._order[last], self._order[place]
        self._high_end -= 1


def _halves(topic_id: str) -> tuple[int, int]:
    """Returns the two halves of an id as signed longs, by which Kafka compares ids."""
    number = uuid_of(topic_id).int
    return signed64(number >> 64), signed64(number & (1 << 64) - 1)
