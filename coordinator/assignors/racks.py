"""Determines when racks can improve an assignment, and which consumers read which partitions within their rack.

Racks count only if some consumer names a rack that some replica lies in, and only if not every partition has
replicas in the same set of racks: otherwise every choice is as good as any other, and stickiness is worth more.
A consumer that names no rack matches every partition. Source: Kafka AbstractPartitionAssignor#useRackAwareAssignment,
AbstractStickyAssignor.RackInfo; KIP-881.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from groupledger.coordinator.assignors.subscriptions import Subscription, TopicPartitions


def racks_can_help(consumer_racks: Collection[str], partition_racks: Collection[frozenset[str]]) -> bool:
    every_rack = frozenset[str]().union(*partition_racks)
    return not every_rack.isdisjoint(consumer_racks) and any(racks != every_rack for racks in partition_racks)


@dataclass(frozen=True, slots=True)
class RackInfo:
    """The racks of consumers and of partitions as the sticky assignors see them. Both maps are empty if racks cannot
    improve the assignment."""

    consumer_racks: Mapping[str, str]
    partition_racks: Mapping[TopicPartition, frozenset[str]]

    @classmethod
    def of(cls, topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]) -> RackInfo:
        consumer_racks = {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}
        partition_racks = {
            TopicPartition(topic, partition): partitions.racks(partition)
            for topic, partitions in topics.items()
            for partition in range(partitions.partition_count)
        }
        if racks_can_help(consumer_racks.values(), partition_racks.values()):
            return cls(consumer_racks, partition_racks)
        return cls({}, {})

    def mismatch(self, consumer: str, partition: TopicPartition) -> bool:
        rack = self.consumer_racks.get(consumer)
        return rack is not None and rack not in self.partition_racks.get(partition, ())

    def rarest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions sorted by how many consumers can read them within their rack, the fewest first."""
        consumer_count: dict[str, int] = {}
        for rack in self.consumer_racks.values():
            consumer_count[rack] = consumer_count.get(rack, 0) + 1
        matches = {
            partition: sum(consumer_count.get(rack, 0) for rack in racks)
            for partition, racks in self.partition_racks.items()
        }
        return sorted(partitions, key=lambda partition: matches.get(partition, 0))

    def next_match(self, partition: TopicPartition, consumers: Sequence[str], first: int) -> int:
        """Returns the index in `consumers` of the first one that is in a rack of the partition, or -1. The search
        begins at `first` and wraps around the end of the list."""
        racks = self.partition_racks[partition]
        for index in chain(range(first, len(consumers)), range(first)):
            if self.consumer_racks.get(consumers[index]) in racks:
                return index
        return -1
