"""Encodes the bytes that members and their leader exchange through the group, and runs the chosen assignor for the
leader.

Subscriptions and assignments are written in version 3. A subscription names the owned partitions, the generation in
which they were assigned, and the rack. The user data of the sticky assignors is kept here, for each assignor its own,
because Java's assignor objects keep it. Source: Kafka ConsumerProtocol, ConsumerCoordinator#onLeaderElected.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.assignors import ASSIGNORS, Subscription, TopicPartitions
from groupledger.coordinator.assignors.java_order import hash_map_order
from groupledger.coordinator.assignors.user_data import cooperative_sticky_user_data, sticky_user_data
from groupledger.coordinator.model.messages import NO_GENERATION
from groupledger.schemas.codec.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.model.messages import JoinedMember, Protocols

CONSUMER_PROTOCOL_VERSION = 3


class RebalanceProtocol(Enum):
    EAGER = "eager"  # members give up all partitions before each join
    COOPERATIVE = "cooperative"  # members keep their partitions, and give up those that the assignment lacks


def rebalance_protocol(assignors: Iterable[str]) -> RebalanceProtocol:
    """Returns the best rebalance protocol that all configured assignors support. Only cooperative-sticky supports
    cooperative rebalancing, so a list with any other assignor is eager, whichever assignor the group chooses."""
    is_cooperative = all(name == "cooperative-sticky" for name in assignors)
    return RebalanceProtocol.COOPERATIVE if is_cooperative else RebalanceProtocol.EAGER


class AssignorMemory:
    """The user data that each assignor puts into the member's next subscription; it depends on the member's last
    assignment."""

    def __init__(self) -> None:
        self._user_data: dict[str, bytes] = {"cooperative-sticky": cooperative_sticky_user_data(NO_GENERATION)}

    def user_data(self, assignor: str) -> bytes | None:
        return self._user_data.get(assignor)

    def on_assignment(self, assignor: str, partitions: tuple[TopicPartition, ...], generation_id: int) -> None:
        if assignor == "sticky":
            self._user_data[assignor] = sticky_user_data(partitions, generation_id)
        elif assignor == "cooperative-sticky":
            self._user_data[assignor] = cooperative_sticky_user_data(generation_id)


def offered_protocols(
    config: ConsumerConfig,
    memory: AssignorMemory,
    topics: tuple[str, ...],
    owned: tuple[TopicPartition, ...],
    generation_id: int,
) -> Protocols:
    """Returns the protocols in a member's JoinGroup: its subscription for each assignor, in order of preference."""
    fields = {
        "topics": list(topics),
        "owned_partitions": _by_topic(owned),
        "generation_id": generation_id,
        "rack_id": config.client_rack,
    }
    return tuple(
        (name, encode_subscription(ProtocolMessage(CONSUMER_PROTOCOL_VERSION, {**fields, "user_data": data})))
        for name in config.assignors
        for data in (memory.user_data(name),)
    )


def read_subscriptions(members: Iterable[JoinedMember]) -> dict[str, Subscription]:
    """Returns subscriptions by member id. Raises DecodeError for bytes that Kafka's leader could not read either."""
    return {member.member_id: _subscription(member) for member in members}


def _subscription(member: JoinedMember) -> Subscription:
    fields = decode_subscription(member.metadata).fields
    return Subscription(
        topics=tuple(fields["topics"]),
        owned_partitions=_flat(fields.get("owned_partitions") or ()),
        generation_id=fields.get("generation_id", NO_GENERATION),
        rack_id=fields.get("rack_id"),
        group_instance_id=member.group_instance_id,
        user_data=fields["user_data"],
    )


def assign(
    assignor: str, cluster: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]
) -> tuple[tuple[str, bytes], ...]:
    """Returns the encoded assignment of every member as (member id, bytes). Raises AssignmentError if Kafka's assignor
    would throw."""
    assignment = ASSIGNORS[assignor](cluster, members)
    return tuple((member_id, _write_assignment(assignment[member_id])) for member_id in hash_map_order(assignment))


def _write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    fields = {"assigned_partitions": _by_topic(partitions), "user_data": None}
    return encode_assignment(ProtocolMessage(CONSUMER_PROTOCOL_VERSION, fields))


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Returns the partitions of an encoded assignment, in the order of its bytes. Raises DecodeError if they cannot be
    decoded."""
    return _flat(decode_assignment(data).fields["assigned_partitions"])


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in grouped.items()]


def _flat(topics: Iterable[dict[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic["topic"], number) for topic in topics for number in topic["partitions"])
