"""Sampling rounds run without real brokers: the tests look at which broker gets which request, and at the cost of a
failure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kafka.admin import OffsetSpec
from kafka.errors import KafkaConnectionError, NotLeaderForPartitionError
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse

from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from groupledger.jobs.kafka.sampling import (
    SampledGroupState,
    SampledWatermark,
    ends_of,
    sample_groups,
    sample_watermarks,
    take_round,
)
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.codec.consumer_protocol import encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS = load_settings().sampling.model_copy(update={"retry_backoff_ms": 1, "partitions_per_request": 2})
TOPIC_ID = UUID(int=1)
ID_TEXT = "AAAAAAAAAAAAAAAAAAAAAQ"


class Cluster:
    """Brokers 1 and 2; partition `p` of every topic is led by broker `p % 2 + 1` and reaches from 10 + p to 100 + p,
    where a transaction has been open since 90 + p."""

    def __init__(self, topics: dict[str, int], *, dead: Iterable[int] = (), moves: int = 0) -> None:
        self.topics = topics
        self.dead = set(dead)
        self.moves = moves  # how often a leader has just moved when it is asked
        self.groups: dict[int, list[str]] = defaultdict(list)
        self.requests: list[tuple[int | None, Any]] = []

    def nodes(self) -> list[int]:
        return [1, 2]

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
                        topic.MetadataResponsePartition(partition_index=partition, leader_id=partition % 2 + 1)
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


def row(topic: str, partition: int) -> SampledWatermark:
    return SampledWatermark(topic, partition, 10 + partition, 100 + partition, 90 + partition, 7, ID_TEXT)


def test_every_partition_is_asked_of_its_leader_in_batches() -> None:
    """Goal: all offsets of many partitions in few requests, each to the broker that leads, none larger than allowed."""
    cluster = Cluster({"a": 5, "b": 2})
    rows, unseen = sample_watermarks(cluster, SETTINGS, ["a", "b"])
    assert rows == (*[row("a", partition) for partition in range(5)], *[row("b", partition) for partition in range(2)])
    assert unseen == {}
    sent = cluster.sent(ListOffsetsRequest)
    assert len(sent) == 3 * (2 + 2)  # four and three partitions, two to a request, three questions about each
    for node, request in sent:
        asked = [one.partition_index for topic in request.topics for one in topic.partitions]
        assert len(asked) <= SETTINGS.partitions_per_request
        assert {partition % 2 + 1 for partition in asked} == {node}


def test_metadata_creates_no_topic() -> None:
    """Goal: asking about a topic that was deleted does not bring it back, and it is named as unseen."""
    cluster = Cluster({"a": 1})
    rows, unseen = sample_watermarks(cluster, SETTINGS, ["a", "gone"])
    assert [found.topic for found in rows] == ["a"]
    assert unseen == {"gone": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert not any(request.allow_auto_topic_creation for _, request in cluster.sent(MetadataRequest))


def test_all_topics_leave_out_internal_ones() -> None:
    """Goal: if the topics are not known, all topics except Kafka's own are sampled."""
    rows, _ = sample_watermarks(Cluster({"a": 1, "__consumer_offsets": 4}), SETTINGS, None)
    assert rows == (row("a", 0),)


def test_a_dead_broker_costs_its_own_partitions() -> None:
    """Goal: the others have their offsets; its own have rows that say why they have none; it was asked again."""
    cluster = Cluster({"a": 4}, dead=[2])
    rows, _ = sample_watermarks(cluster, SETTINGS, ["a"])
    assert rows == (
        row("a", 0),
        SampledWatermark("a", 1, topic_id=ID_TEXT, error="BROKER_NOT_AVAILABLE"),
        row("a", 2),
        SampledWatermark("a", 3, topic_id=ID_TEXT, error="BROKER_NOT_AVAILABLE"),
    )
    assert [node for node, _ in cluster.sent(ListOffsetsRequest)].count(2) == SETTINGS.attempts
    assert [node for node, _ in cluster.sent(ListOffsetsRequest)].count(1) == 3


def test_a_leader_that_moved_is_looked_up_again() -> None:
    """Goal: a partition that its broker no longer leads is asked about once more, after a new look at the metadata."""
    cluster = Cluster({"a": 1}, moves=3)
    rows, _ = sample_watermarks(cluster, SETTINGS, ["a"])
    assert rows == (row("a", 0),)
    assert len(cluster.sent(MetadataRequest)) == 2


def test_no_broker_at_all() -> None:
    """Goal: a clear error, since there is nothing to write."""
    with pytest.raises(OutsideError, match="No broker answers"):
        sample_watermarks(Cluster({}, dead=[1, 2, None]), SETTINGS, ["a"])  # type: ignore[list-item]  # any broker


def test_a_last_stable_offset_is_never_above_the_high_watermark() -> None:
    """Goal: a log that grows between the questions does not seem to hold an open transaction."""
    cluster = Cluster({"a": 1})
    answer = cluster.ListOffsetsRequest

    def grow(request: Any, node: int | None) -> Any:
        reported = answer(request, node)
        if request.isolation_level == IsolationLevel.READ_COMMITTED:
            reported.topics[0].partitions[0].offset = 105
        return reported

    cluster.ListOffsetsRequest = grow  # type: ignore[method-assign, assignment]  # one answer differs
    ((found,), _) = sample_watermarks(cluster, SETTINGS, ["a"])
    assert found.offsets == (10, 100, 100)


def test_groups_are_described_by_the_broker_that_lists_them() -> None:
    """Goal: each type by the request that knows it; broken bytes of one member hide nothing of the others."""
    cluster = Cluster({})
    cluster.groups = defaultdict(list, {1: ["classic-1"], 2: ["consumer-1", "share-1", "classic-moved"]})
    rows, silent = sample_groups(cluster, SETTINGS)
    assert rows == (
        SampledGroupState("classic-1", "classic", "PreparingRebalance", "consumer", "range", 2, None, ("a", "b")),
        SampledGroupState("classic-moved", "classic", "Stable", "consumer", error="NOT_COORDINATOR"),
        SampledGroupState("consumer-1", "consumer", "Reconciling", "consumer", "uniform", 1, 9, ("c",)),
        SampledGroupState("share-1", "share", "Stable", "consumer"),
    )
    assert silent == {}
    assert [node for node, _ in cluster.sent(ConsumerGroupDescribeRequest)] == [2]
    assert sorted(node or 0 for node, _ in cluster.sent(DescribeGroupsRequest)) == [1, 2]


def test_a_dead_broker_hides_its_groups_only() -> None:
    """Goal: the others' groups are there, and the round says which broker was silent."""
    cluster = Cluster({}, dead=[2])
    cluster.groups = defaultdict(list, {1: ["classic-1"], 2: ["classic-2"]})
    rows, silent = sample_groups(cluster, SETTINGS)
    assert [found.group_id for found in rows] == ["classic-1"]
    assert silent == {2: "BROKER_NOT_AVAILABLE"}
    assert [node for node, _ in cluster.sent(ListGroupsRequest)].count(1) == 1


def test_a_round_holds_the_ends_that_were_read_before() -> None:
    """Goal: commits count below the last stable offsets of the first question, and errors are counted."""
    cluster = Cluster({"a": 2, "__consumer_offsets": 2}, dead=[2])
    ends, _ = sample_watermarks(cluster, SETTINGS, ["__consumer_offsets"])
    sampled = take_round(cluster, SETTINGS, {"a", "__consumer_offsets"}, 5, ends)
    assert [(found.topic, found.partition) for found in sampled.watermarks] == [
        ("__consumer_offsets", 0),
        ("__consumer_offsets", 1),
        ("a", 0),
        ("a", 1),
    ]
    assert ends_of(sampled.watermarks) == {0: 90}
    assert sampled.errors() == 2
