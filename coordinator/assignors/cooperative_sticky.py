"""The `cooperative-sticky` assignor: sticky, but a partition changes hands in two rebalances.

Members keep consuming while they rejoin, so a partition that moves is first left unassigned: its owner revokes it and
rejoins, and the follow-up rebalance assigns it to the new owner. Source: Kafka CooperativeStickyAssignor; KIP-429.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors.sticky import assign_sticky
from groupledger.coordinator.assignors.user_data import cooperative_member_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.assignors.subscriptions import Assignment, Subscription, TopicPartitions
    from groupledger.schemas.kafka.topic_partition import TopicPartition


def assign(topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]) -> Assignment:
    assignment, transferring = assign_sticky(topics, members, cooperative_member_data)
    if transferring is None:
        transferring = _partitions_transferring_ownership(members, assignment)
    for partition, new_owner in transferring.items():
        assignment[new_owner].remove(partition)
    return assignment


def _partitions_transferring_ownership(
    members: Mapping[str, Subscription], assignment: Assignment
) -> dict[TopicPartition, str]:
    """Returns the partitions that one member gives up and another one newly gets, each with its new owner, according to
    the members' claims of any generation."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for consumer, assigned in assignment.items():
        owned = frozenset(members[consumer].owned_partitions)
        added.update((partition, consumer) for partition in assigned if partition not in owned)
        revoked |= owned.difference(assigned)
    return {partition: consumer for partition, consumer in added.items() if partition in revoked}
