"""Answers the requests of a sampling round like a cluster's brokers, without network and processes, and keeps the
requests, so that they can be counted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.admin import OffsetSpec
from kafka.errors import KafkaConnectionError, NotLeaderForPartitionError
from kafka.protocol.admin.groups import DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.offsets import ListOffsetsResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from groupledger.jobs.kafka.messages import ConsumerGroupDescribeResponse
from groupledger.schemas.codec.consumer_protocol import encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC_ID = UUID(int=1)
ID_TEXT = "AAAAAAAAAAAAAAAAAAAAAQ"  # of the same id


class SimulatedBrokers:
    """Brokers from 1 on. `topics` has the number of partitions of each topic. Partition `p` of every topic is led by
    broker `p % count + 1` and reaches from 10 + p to 100 + p, where a transaction has been open since 90 + p. `groups`
    has the names of the groups that each broker lists; a name begins with the group's type."""

    def __init__(self, topics: dict[str, int], *, count: int = 2, dead: Iterable[int] = (), moves: int = 0) -> None:
        self.topics, self.count = topics, count
        self.dead = set(dead)
        self.moves = moves  # how often a leader has just moved when it is asked
        self.groups: dict[int, list[str]] = defaultdict(list)
        self.requests: list[tuple[int | None, Any]] = []

    def nodes(self) -> list[int]:
        return [*range(1, self.count + 1)]

    def send(self, request: Any, node: int | None = None) -> Any:
        self.requests.append((node, request))
        if node in self.dead:
            raise KafkaConnectionError
        return getattr(self, type(request).__name__)(request, node)

    def MetadataRequest(self, request: Any, _node: int | None) -> Any:  # noqa: N802 - the message's own name
        topic = MetadataResponse.MetadataResponseTopic
        asked = self.topics if request.topics is None else [one.name for one in request.topics]
        return MetadataResponse(
            topics=[
                topic(
                    error_code=0 if name in self.topics else 3,
                    name=name,
                    topic_id=TOPIC_ID,
                    is_internal=name.startswith("__"),
                    partitions=[
                        topic.MetadataResponsePartition(partition_index=partition, leader_id=partition % self.count + 1)
                        for partition in range(self.topics.get(name, 0))
                    ],
                )
                for name in asked
            ]
        )

    def ListOffsetsRequest(self, request: Any, _node: int | None) -> Any:  # noqa: N802 - as above
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        is_moved, self.moves = self.moves > 0, max(self.moves - 1, 0)

        def offset(partition: int, timestamp: int) -> int:
            if timestamp == OffsetSpec.EARLIEST:
                return 10 + partition
            return (90 if request.isolation_level == IsolationLevel.READ_COMMITTED else 100) + partition

        return ListOffsetsResponse(
            topics=[
                topic(
                    name=asked.name,
                    partitions=[
                        topic.ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            error_code=NotLeaderForPartitionError.errno if is_moved else 0,
                            offset=offset(one.partition_index, one.timestamp),
                            leader_epoch=7,
                        )
                        for one in asked.partitions
                    ],
                )
                for asked in request.topics
            ]
        )

    def ListGroupsRequest(self, _request: Any, node: int | None) -> Any:  # noqa: N802 - as above
        listed = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(
            error_code=0,
            groups=[
                listed(group_id=name, protocol_type="consumer", group_state="Stable", group_type=name.split("-")[0])
                for name in self.groups[node or 0]
            ],
        )

    def DescribeGroupsRequest(self, request: Any, _node: int | None) -> Any:  # noqa: N802 - as above
        group = DescribeGroupsResponse.DescribedGroup
        subscription = {"topics": ["b", "a"], "user_data": None, "owned_partitions": []}
        metadata = encode_subscription(ProtocolMessage(1, subscription, b""))
        return DescribeGroupsResponse(
            groups=[
                group(
                    error_code=16 if name.endswith("moved") else 0,
                    group_id=name,
                    group_state="PreparingRebalance",
                    protocol_type="consumer",
                    protocol_data="range",
                    members=[
                        group.DescribedGroupMember(member_id=str(number), member_metadata=bytes_)
                        for number, bytes_ in enumerate((metadata, b"\xff broken"))
                    ],
                )
                for name in request.groups
            ]
        )

    def ConsumerGroupDescribeRequest(self, request: Any, _node: int | None) -> Any:  # noqa: N802 - as above
        group = ConsumerGroupDescribeResponse.DescribedGroup
        return ConsumerGroupDescribeResponse(
            groups=[
                group(
                    error_code=0,
                    group_id=name,
                    group_state="Reconciling",
                    group_epoch=9,
                    assignor_name="uniform",
                    members=[group.Member(member_id="m", subscribed_topic_names=["c"])],
                )
                for name in request.group_ids
            ]
        )

    def sent(self, kind: type[Any]) -> list[tuple[int | None, Any]]:
        return [(node, request) for node, request in self.requests if isinstance(request, kind)]
