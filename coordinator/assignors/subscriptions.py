"""What the leader knows when it assigns: the members' subscriptions and the topics' partitions, in Java's order.

`members` are the members of the JoinGroup response, in its order. `topics` is the cluster's metadata; a topic that is
absent or has no partitions is not assigned. Kafka holds both in HashMaps, whose order decides which member keeps the
larger share and in which order partitions are listed. So assignors first bring both into that order.
Source: Kafka ConsumerPartitionAssignor, AbstractPartitionAssignor, ConsumerCoordinator#onLeaderElected; KIP-54,
KIP-345 (group.instance.id), KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (racks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from groupledger.coordinator.assignors.java_order import hash_map_order, utf16_order
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Assignment: TypeAlias = dict[str, list[TopicPartition]]


class AssignmentError(Exception):
    """Kafka's own assignor throws on this input: the leader sends no assignment, and the rebalance fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One member's subscription as ConsumerProtocol carries it. A negative `generation_id` means that the member has
    none.

    `owned_partitions` are in the order of the subscription's bytes. `group_instance_id` comes from the JoinGroup
    response, not from these bytes.
    """

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """A topic's partitions 0..partition_count-1, and the racks of each one's replicas if brokers have racks."""

    partition_count: int
    replica_racks: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        if self.replica_racks and len(self.replica_racks) != self.partition_count:
            raise ValueError(
                f"{len(self.replica_racks)} sets of racks for {self.partition_count} partitions:"
                " give one for each partition, or none at all"
            )

    def racks(self, partition: int) -> frozenset[str]:
        return self.replica_racks[partition] if self.replica_racks else frozenset()


def members_in_map_order(members: Mapping[str, Subscription]) -> dict[str, Subscription]:
    return {member_id: members[member_id] for member_id in hash_map_order(members)}


def topics_in_map_order(
    topics: Mapping[str, TopicPartitions], members: Iterable[Subscription]
) -> dict[str, TopicPartitions]:
    """Returns the subscribed topics that have partitions, in the order of Kafka's HashMap. `members` have to be in the
    order of theirs."""
    subscribed = hash_map_order(topic for member in members for topic in member.topics)
    known = (topic for topic in subscribed if topic in topics and topics[topic].partition_count)
    return {topic: topics[topic] for topic in hash_map_order(known)}


def member_order(member_id: str, subscription: Subscription) -> tuple[bool, bytes]:
    """Returns the key by which range and roundrobin sort members: first static members by instance id, then dynamic
    members by member id."""
    instance_id = subscription.group_instance_id
    if instance_id is None:
        return True, utf16_order(member_id)
    return False, utf16_order(instance_id)
