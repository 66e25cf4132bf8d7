"""Holds the partitions of a share group that have a state in the share coordinator, as record type 15 describes them.

A partition is assigned to members only when the share coordinator knows it. The group coordinator first writes that the
partition is being initialized, then asks the share coordinator, and then writes that it is initialized. Before a group
is deleted, its topics are marked as deleting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.model.groups.modern.topics import Topic


class NamedPartitions(NamedTuple):
    name: str
    partitions: tuple[int, ...]


ByTopic = dict[str, NamedPartitions]
"""Partitions, with the topic's name, by topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStates:
    initializing: ByTopic = field(default_factory=dict)
    initialized: ByTopic = field(default_factory=dict)
    deleting: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> PartitionStates:
        return cls(
            initializing=_by_topic(value["initializing_topics"]),
            initialized=_by_topic(value["initialized_topics"]),
            deleting={each["topic_id"]: each["topic_name"] for each in value["deleting_topics"]},
        )

    def to_initialize(self, topics: Iterable[Topic]) -> ByTopic:
        """Returns the partitions of these topics that the share coordinator does not know yet."""
        known = _both(self.initialized, self.initializing)
        found = {}
        for topic in topics:
            numbers = known[topic.topic_id].partitions if topic.topic_id in known else ()
            if len(numbers) < topic.partition_count:
                missing = (number for number in range(topic.partition_count) if number not in numbers)
                found[topic.topic_id] = NamedPartitions(topic.name, tuple(missing))
        return found

    def with_initializing(self, partitions: ByTopic) -> PartitionStates:
        return PartitionStates(
            initializing=_both(self.initializing, partitions),
            initialized=self.initialized,
            deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions},
        )

    def with_initialized(self, partitions: ByTopic) -> PartitionStates:
        initializing = {}
        for topic_id, (name, numbers) in self.initializing.items():
            done = partitions[topic_id].partitions if topic_id in partitions else ()
            if left := tuple(number for number in numbers if number not in done):
                initializing[topic_id] = NamedPartitions(name, left)
        initialized = _both(self.initialized, partitions)
        return PartitionStates(initializing=initializing, initialized=initialized, deleting=self.deleting)

    def all_deleting(self) -> PartitionStates:
        known = _both(self.initialized, self.initializing)
        return PartitionStates(deleting=self.deleting | {topic_id: each.name for topic_id, each in known.items()})


def _by_topic(topics: Iterable[Mapping[str, Any]]) -> ByTopic:
    return {each["topic_id"]: NamedPartitions(each["topic_name"], tuple(sorted(each["partitions"]))) for each in topics}


def _both(one: ByTopic, other: ByTopic) -> ByTopic:
    both = dict(one)
    for topic_id, (name, numbers) in other.items():
        before = both[topic_id].partitions if topic_id in both else ()
        both[topic_id] = NamedPartitions(name, tuple(sorted({*before, *numbers})))
    return both
