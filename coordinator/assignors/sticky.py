"""The `sticky` assignor, and what it shares with `cooperative-sticky`.

Balance comes first. Among balanced assignments, members keep as many of their partitions as possible. Groups whose
members all subscribe to the same topics use the constrained algorithm (sticky_constrained.py), others the general one
(sticky_general.py). This assignor has no memory. A leader's assignor in Java also remembers the highest generation that
it ever saw, which matters only in a group whose members have all gone back to earlier generations. Source: Kafka
StickyAssignor, AbstractStickyAssignor; KIP-54.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import sticky_constrained, sticky_general
from groupledger.coordinator.assignors.ownership import MemberData, previous_owners, resolve_claims
from groupledger.coordinator.assignors.racks import RackInfo
from groupledger.coordinator.assignors.subscriptions import (
    Assignment,
    Subscription,
    TopicPartitions,
    members_in_map_order,
    topics_in_map_order,
)
from groupledger.coordinator.assignors.user_data import sticky_member_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition


def assign(topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]) -> Assignment:
    assignment, _ = assign_sticky(topics, members, sticky_member_data)
    return assignment


def assign_sticky(
    topics: Mapping[str, TopicPartitions],
    members: Mapping[str, Subscription],
    read_member_data: Callable[[Subscription], MemberData],
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Returns the assignment, with members in the order of the Java map, and the partitions that change hands, each
    with its new owner.

    The general algorithm does not compute which partitions change hands: the second value is then None. Raises
    AssignmentError if Kafka's assignor would throw.
    """
    ordered = members_in_map_order(members)
    known = topics_in_map_order(topics, ordered.values())
    racks = RackInfo.of(known, ordered)
    member_data = {member_id: read_member_data(member) for member_id, member in ordered.items()}
    ownership = resolve_claims(known, ordered, member_data)
    if _subscriptions_equal(ordered.values()):
        return sticky_constrained.assign(known, racks, ownership)
    return sticky_general.assign(known, ordered, racks, ownership, previous_owners(member_data)), None


def _subscriptions_equal(members: Iterable[Subscription]) -> bool:
    """Compares as Kafka does: members before the first one that has topics count as equal, whatever follows."""
    topics: frozenset[str] = frozenset()
    for member in members:
        if not topics:
            topics = frozenset(member.topics)
        elif len(member.topics) != len(topics) or not topics.issuperset(member.topics):
            return False
    return True
