"""The `roundrobin` assignor: all partitions of all subscribed topics, dealt in a circle over the sorted members.

A member that does not subscribe to the partition's topic loses its turn. Racks and owned partitions play no part.
Source: Kafka RoundRobinAssignor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors.java_order import utf16_order
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
    from collections.abc import Mapping


def assign(topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]) -> Assignment:
    ordered = members_in_map_order(members)
    known = topics_in_map_order(topics, ordered.values())
    circle = sorted(ordered, key=lambda member_id: member_order(member_id, ordered[member_id]))
    subscribed = {member_id: frozenset(ordered[member_id].topics) for member_id in circle}
    assignment: Assignment = {member_id: [] for member_id in members}
    turn = 0
    for topic in sorted(known, key=utf16_order):
        for partition in range(known[topic].partition_count):
            while topic not in subscribed[circle[turn]]:
                turn = (turn + 1) % len(circle)
            assignment[circle[turn]].append(TopicPartition(topic, partition))
            turn = (turn + 1) % len(circle)
    return assignment
