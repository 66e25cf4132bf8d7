"""Sampling rounds run without real brokers: the tests look at which broker gets which request, and at the cost of a
failure."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from groupledger.coordinator.offsets_partition import partition_for
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest
from groupledger.jobs.kafka.sampling import (
    SampledGroupState,
    SampledWatermark,
    ends_of,
    sample_ends,
    sample_groups,
    sample_watermarks,
    take_round,
)
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.shard import Shard
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.simulated_brokers import ID_TEXT, SimulatedBrokers

SETTINGS = load_settings().sampling.model_copy(update={"retry_backoff_ms": 1, "partitions_per_request": 2})


def row(topic: str, partition: int) -> SampledWatermark:
    return SampledWatermark(topic, partition, 10 + partition, 100 + partition, 90 + partition, 7, ID_TEXT)


def test_every_partition_is_asked_of_its_leader_in_batches() -> None:
    """Goal: all offsets of many partitions in few requests, each to the broker that leads, none larger than allowed."""
    cluster = SimulatedBrokers({"a": 5, "b": 2})
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
    cluster = SimulatedBrokers({"a": 1})
    rows, unseen = sample_watermarks(cluster, SETTINGS, ["a", "gone"])
    assert [found.topic for found in rows] == ["a"]
    assert unseen == {"gone": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert not any(request.allow_auto_topic_creation for _, request in cluster.sent(MetadataRequest))


def test_all_topics_leave_out_internal_ones() -> None:
    """Goal: if the topics are not known, all topics except Kafka's own are sampled."""
    rows, _ = sample_watermarks(SimulatedBrokers({"a": 1, OFFSETS_TOPIC: 4}), SETTINGS, None)
    assert rows == (row("a", 0),)


def test_a_dead_broker_costs_its_own_partitions() -> None:
    """Goal: the others have their offsets; its own have rows that say why they have none; it was asked again."""
    cluster = SimulatedBrokers({"a": 4}, dead=[2])
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
    cluster = SimulatedBrokers({"a": 1}, moves=3)
    rows, _ = sample_watermarks(cluster, SETTINGS, ["a"])
    assert rows == (row("a", 0),)
    assert len(cluster.sent(MetadataRequest)) == 2


def test_no_broker_at_all() -> None:
    """Goal: a clear error, since there is nothing to write."""
    with pytest.raises(OutsideError, match="No broker answers"):
        sample_watermarks(SimulatedBrokers({}, dead=[1, 2, None]), SETTINGS, ["a"])  # type: ignore[list-item]  # any broker


def test_a_last_stable_offset_is_never_above_the_high_watermark() -> None:
    """Goal: a log that grows between the questions does not seem to hold an open transaction."""
    cluster = SimulatedBrokers({"a": 1})
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
    cluster = SimulatedBrokers({OFFSETS_TOPIC: 2})
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


def test_only_coordinators_are_asked_for_groups() -> None:
    """Goal: brokers that lead no partition of the offsets topic get no request about groups, however many there are."""
    cluster = SimulatedBrokers({OFFSETS_TOPIC: 5}, count=1_000)
    cluster.groups = defaultdict(list, {node: [f"classic-{node}-{number}" for number in range(3)] for node in range(6)})
    rows, silent = sample_groups(cluster, SETTINGS.model_copy(update={"groups_per_request": 2}))
    assert len(rows) == 15
    assert silent == {}
    assert sorted(node or 0 for node, _ in cluster.sent(ListGroupsRequest)) == [1, 2, 3, 4, 5]
    assert len(cluster.sent(DescribeGroupsRequest)) == 5 * 2
    assert len(cluster.requests) == 1 + 5 + 10


def test_a_shard_samples_its_own() -> None:
    """Goal: the shards of a cluster list each group once, ask only the brokers that lead their partitions, and
    describe no other group."""
    groups = [f"classic-{number}" for number in range(45)]
    placed: defaultdict[int, list[str]] = defaultdict(list)
    for name in groups:
        placed[partition_for(name, 5) + 1].append(name)  # the broker that leads the partition
    found = []
    for number in (1, 2):
        cluster = SimulatedBrokers({OFFSETS_TOPIC: 5}, count=6)
        cluster.groups = placed
        rows, _ = sample_groups(cluster, SETTINGS, Shard(number, 2))
        found += [row.group_id for row in rows]
        asked = sorted(node or 0 for node, _ in cluster.sent(ListGroupsRequest))
        assert asked == [node for node in range(1, 6) if node % 2 == number % 2]
        described = [name for _, request in cluster.sent(DescribeGroupsRequest) for name in request.groups]
        assert sorted(described) == [row.group_id for row in rows]
        ends = sample_ends(cluster, SETTINGS, Shard(number, 2))
        assert [row.partition for row in ends] == [each for each in range(5) if each % 2 == number - 1]
    assert sorted(found) == sorted(groups)


def test_a_coordinator_that_took_over_is_asked() -> None:
    """Goal: if a coordinator died, the broker that leads its partitions now is asked in the next attempt."""
    cluster = SimulatedBrokers({OFFSETS_TOPIC: 1}, dead=[1])
    cluster.groups = defaultdict(list, {2: ["classic-1"]})
    metadata = cluster.MetadataRequest

    def moved(request: Any, node: int | None) -> Any:
        answer = metadata(request, node)
        answer.topics[0].partitions[0].leader_id = 2 if cluster.sent(ListGroupsRequest) else 1
        return answer

    cluster.MetadataRequest = moved  # type: ignore[method-assign, assignment]  # the leader changes meanwhile
    rows, silent = sample_groups(cluster, SETTINGS)
    assert [found.group_id for found in rows] == ["classic-1"]
    assert silent == {1: "BROKER_NOT_AVAILABLE"}


def test_a_dead_broker_hides_its_groups_only() -> None:
    """Goal: the others' groups are there, and the round says which broker was silent."""
    cluster = SimulatedBrokers({OFFSETS_TOPIC: 2}, dead=[2])
    cluster.groups = defaultdict(list, {1: ["classic-1"], 2: ["classic-2"]})
    rows, silent = sample_groups(cluster, SETTINGS)
    assert [found.group_id for found in rows] == ["classic-1"]
    assert silent == {2: "BROKER_NOT_AVAILABLE"}
    assert [node for node, _ in cluster.sent(ListGroupsRequest)].count(1) == 1


def test_a_round_holds_the_ends_that_were_read_before() -> None:
    """Goal: commits count below the last stable offsets of the first question, and errors are counted."""
    cluster = SimulatedBrokers({"a": 2, OFFSETS_TOPIC: 2}, dead=[2])
    ends = sample_ends(cluster, SETTINGS)
    sampled = take_round(cluster, SETTINGS, {"a", OFFSETS_TOPIC}, 5, ends)
    assert [(found.topic, found.partition) for found in sampled.watermarks] == [
        (OFFSETS_TOPIC, 0),
        (OFFSETS_TOPIC, 1),
        ("a", 0),
        ("a", 1),
    ]
    assert ends_of(sampled.watermarks) == {0: 90}
    assert sampled.errors() == 2
