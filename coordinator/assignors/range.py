"""The `range` assignor: it assigns each topic by itself, in contiguous runs, to the topic's subscribers in their order.

Of n partitions each of c consumers gets n // c, and the first n % c of them get one more. Where racks can help (see
racks.py), a first phase gives partitions to consumers within their rack, without changing anybody's share, and then the
rest is filled up as usual. Topics with the same subscribers and partition count are co-partitioned: in the first phase
a partition number goes to the same consumer in all of them, or to nobody. In any other topic each consumer gets
partitions that match its rack, in order. A member's list is in topic-map order, or in (topic, partition) order if racks
were used. Source: Kafka RangeAssignor; KIP-881.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from groupledger.coordinator.assignors.java_order import utf16_order
from groupledger.coordinator.assignors.racks import racks_can_help
from groupledger.coordinator.assignors.subscriptions import (
    Assignment,
    Subscription,
    TopicPartitions,
    member_order,
    members_in_map_order,
    topics_in_map_order,
)
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def assign(topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]) -> Assignment:
    ordered = members_in_map_order(members)
    known = topics_in_map_order(topics, ordered.values())
    subscribers: dict[str, list[str]] = {topic: [] for topic in known}
    for member_id in sorted(ordered, key=lambda member_id: member_order(member_id, ordered[member_id])):
        for topic in known.keys() & ordered[member_id].topics:
            subscribers[topic].append(member_id)
    racks = {member_id: member.rack_id or None for member_id, member in ordered.items()}
    shares = [
        _TopicShares(topic, known[topic], {member_id: racks[member_id] for member_id in consumers})
        for topic, consumers in subscribers.items()
    ]
    use_racks = any(share.racks_can_help for share in shares)
    if use_racks:
        for alike in _co_partitioned(shares):
            _match_racks(alike)
    for share in shares:
        share.fill()
    assignment: Assignment = {member_id: [] for member_id in members}
    for share in shares:
        for consumer, partitions in share.taken.items():
            assignment[consumer] += (TopicPartition(share.topic, partition) for partition in partitions)
    if use_racks:
        for assigned in assignment.values():
            assigned.sort(key=_by_topic_and_number)
    return assignment


class _TopicShares:
    """One topic during the assignment: its subscribers in order, the number of partitions each has taken, and those
    left."""

    __slots__ = (
        "consumers",
        "extra_shares",
        "partitions",
        "quota",
        "racks_can_help",
        "taken",
        "topic",
        "unassigned",
    )

    def __init__(self, topic: str, partitions: TopicPartitions, consumers: Mapping[str, str | None]) -> None:
        self.topic = topic
        self.partitions = partitions
        self.consumers = consumers
        self.taken: dict[str, list[int]] = {consumer: [] for consumer in consumers}
        self.unassigned = dict.fromkeys(range(partitions.partition_count))
        self.quota, self.extra_shares = divmod(partitions.partition_count, len(consumers))
        self.racks_can_help = racks_can_help(
            {rack for rack in consumers.values() if rack is not None},
            [partitions.racks(partition) for partition in self.unassigned],
        )

    def matches(self, consumer: str, partition: int) -> bool:
        rack = self.consumers[consumer]
        return rack is None or rack in self.partitions.racks(partition)

    def room(self, consumer: str) -> int:
        """Returns how many more partitions this consumer may take. The shares with one partition more go to the
        consumers that take them first."""
        return max(0, self.quota + (self.extra_shares > 0) - len(self.taken[consumer]))

    def take(self, consumer: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            del self.unassigned[partition]
            self.taken[consumer].append(partition)
        if len(self.taken[consumer]) > self.quota:
            self.extra_shares -= 1

    def fill(self, *, within_racks: bool = False) -> None:
        for consumer in self.consumers:
            assignable = (
                partition for partition in self.unassigned if not within_racks or self.matches(consumer, partition)
            )
            if partitions := list(islice(assignable, self.room(consumer))):
                self.take(consumer, partitions)


def _co_partitioned(shares: Iterable[_TopicShares]) -> Iterable[list[_TopicShares]]:
    """Groups topics by their consumers and partition count, without topics whose consumers name no rack."""
    groups: dict[tuple[frozenset[str], int], list[_TopicShares]] = {}
    for share in shares:
        if any(rack is not None for rack in share.consumers.values()):
            key = frozenset(share.consumers), share.partitions.partition_count
            groups.setdefault(key, []).append(share)
    return groups.values()


def _match_racks(alike: list[_TopicShares]) -> None:
    first = alike[0]
    if len(alike) == 1:
        if first.racks_can_help:
            first.fill(within_racks=True)
        return
    remaining = dict.fromkeys(first.consumers)
    for partition in range(first.partitions.partition_count):
        for consumer in remaining:
            if all(share.matches(consumer, partition) and share.room(consumer) for share in alike):
                break
        else:
            continue
        for share in alike:
            share.take(consumer, (partition,))
        if not any(share.room(consumer) for share in alike):
            del remaining[consumer]


def _by_topic_and_number(topic_partition: TopicPartition) -> tuple[bytes, int]:
    return utf16_order(topic_partition.topic), topic_partition.partition
