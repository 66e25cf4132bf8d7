"""Kafka's client-side assignors, by which a group's leader assigns partitions between JoinGroup and SyncGroup.

Each is a pure function `assign(topics, members)` in a file of its own. It returns what the class of the same name in
kafka-clients 4.2 returns, down to the order of every member's list, and raises AssignmentError where that class throws.
There is always at least one member: the leader.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from groupledger.coordinator.assignors import cooperative_sticky, round_robin, sticky
from groupledger.coordinator.assignors import range as range_assignor
from groupledger.coordinator.assignors.subscriptions import Assignment, AssignmentError, Subscription, TopicPartitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Assignor: TypeAlias = Callable[[Mapping[str, TopicPartitions], Mapping[str, Subscription]], Assignment]

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {
        "range": range_assignor.assign,
        "roundrobin": round_robin.assign,
        "sticky": sticky.assign,
        "cooperative-sticky": cooperative_sticky.assign,
    }
)

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "AssignmentError",
    "Subscription",
    "TopicPartitions",
]
