"""Goal: other APIs treat streams groups as a 4.2 broker does: commits, deletions, expiry, and changes of type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    ShareGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS
from tests.coordinator.model.streams_applications import LEFT, beat, join, streams_cluster, types

if TYPE_CHECKING:
    from tests.coordinator.model.consumers import Cluster


def commit(cluster: Cluster, member_id: str, epoch: int, *partitions: int, topic: str = ORDERS.name) -> Error:
    offsets = tuple(OffsetToCommit(topic=topic, partition=number, offset=1) for number in partitions or (0,))
    words = {"group_id": GROUP, "member_id": member_id, "generation_id": epoch, "offsets": offsets}
    errors: set[Error] = {each.error for each in cluster.ask(OffsetCommitRequest, **words).partitions}
    (error,) = errors
    return error


def two_members() -> Cluster:
    """Returns a cluster whose group gave half of a's tasks, of epoch 2, to b at epoch 3."""
    cluster = streams_cluster()
    join(cluster, "a")
    join(cluster, "b")
    beat(cluster, "a", 2, owned=())
    beat(cluster, "b", 3)
    return cluster


@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions", "error"),
    [
        ("a", 3, (0,), Error.NONE),
        ("a", 2, (0, 2), Error.NONE),  # had since epoch 2
        ("a", 1, (0,), Error.STALE_MEMBER_EPOCH),
        ("a", 4, (0,), Error.STALE_MEMBER_EPOCH),
        ("a", 2, (0, 1), Error.STALE_MEMBER_EPOCH),  # one of them is b's by now
        ("b", 3, (1,), Error.NONE),
        ("b", 2, (1,), Error.STALE_MEMBER_EPOCH),
        ("nobody", 3, (0,), Error.UNKNOWN_MEMBER_ID),
        ("", -1, (0,), Error.UNKNOWN_MEMBER_ID),
    ],
)
def test_commit_by_epoch(member_id: str, epoch: int, partitions: tuple[int, ...], error: Error) -> None:
    """Goal: a member commits by its own epoch, and by an older one from that on at which it was given the task."""
    assert commit(two_members(), member_id, epoch, *partitions) is error


def test_commits_of_others() -> None:
    """Goal: an older version is refused, a transaction without a member is taken, and so is who commits to an empty
    group."""
    cluster = two_members()
    offsets = (OffsetToCommit(topic=ORDERS.name, partition=0, offset=1),)
    words = {"group_id": GROUP, "offsets": offsets}
    old = cluster.ask(OffsetCommitRequest, **words, member_id="a", generation_id=3, api_version=8)
    assert old.partitions[0].error is Error.UNSUPPORTED_VERSION
    transactional = {**words, "producer_id": 1, "producer_epoch": 0}
    assert cluster.ask(TxnOffsetCommitRequest, **transactional).partitions[0].error is Error.NONE
    stranger = cluster.ask(TxnOffsetCommitRequest, **transactional, member_id="z", generation_id=3)
    assert stranger.partitions[0].error is Error.UNKNOWN_MEMBER_ID
    errors = [
        cluster.ask(TxnOffsetCommitRequest, **transactional, member_id="a", generation_id=epoch).partitions[0].error
        for epoch in (3, 2, 1, 4)
    ]
    assert errors == [Error.NONE, Error.NONE, Error.ILLEGAL_GENERATION, Error.ILLEGAL_GENERATION]
    for name in ("a", "b"):
        beat(cluster, name, LEFT)
    assert commit(cluster, "", -1) is Error.NONE


def test_fetch() -> None:
    """Goal: a fetch that names a member with another epoch gets no offsets."""
    cluster = two_members()
    commit(cluster, "a", 3)
    asked = [(None, -1), ("a", 3), ("a", 2), ("z", 3)]
    answers = [
        cluster.ask(OffsetFetchRequest, groups=(OffsetFetchGroup(GROUP, None, *each),)).groups[0] for each in asked
    ]
    errors = [Error.NONE, Error.NONE, Error.STALE_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID]
    assert [each.error for each in answers] == errors
    assert [len(each.partitions) for each in answers] == [1, 1, 0, 0]


def test_offsets_end() -> None:
    """Goal: offsets of topics that the application reads stay while it has members; an empty group that keeps none
    ends."""
    cluster = two_members()
    commit(cluster, "a", 3)
    commit(cluster, "a", 3, topic="elsewhere")
    asked = (TopicPartition(ORDERS.name, 0), TopicPartition("elsewhere", 0))
    deleted = cluster.ask(OffsetDeleteRequest, group_id=GROUP, partitions=asked)
    assert [each.error for each in deleted.partitions] == [Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]
    retention_ms = cluster.config.offsets_retention_ms
    for name in ("a", "b"):
        beat(cluster, name, LEFT)
    tombstones = ["target_assignment_metadata", "metadata", "topology"]
    assert cluster.wait(2 * retention_ms) == ["offset_commit", *(f"streams_group_{kind}" for kind in tombstones)]
    assert cluster.coordinator.streams_group(GROUP) is None


def test_delete() -> None:
    """Goal: only an empty group is deleted, and another may begin under its id."""
    cluster = streams_cluster()
    join(cluster, "a")
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NON_EMPTY_GROUP
    beat(cluster, "a", LEFT)
    cluster.log.clear()
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NONE
    assert types(cluster) == ["target_assignment_metadata", "metadata", "topology"]
    assert join(cluster, "a").member_epoch == 2


def test_other_types() -> None:
    """Goal: a streams group and the others refuse each other's members, and it differs from classic ones."""
    cluster = streams_cluster()
    join(cluster, "a")
    assert cluster.join("b").error is Error.GROUP_ID_NOT_FOUND
    share = {"group_id": GROUP, "member_id": "b", "member_epoch": 0, "subscribed_topic_names": (ORDERS.name,)}
    assert cluster.ask(ShareGroupHeartbeatRequest, **share).error is Error.GROUP_ID_NOT_FOUND
    heartbeat = cluster.ask(HeartbeatRequest, group_id=GROUP, generation_id=2, member_id="a")
    assert heartbeat.error is Error.UNKNOWN_MEMBER_ID
    cluster.join("b", group_id="consumers")
    assert join(cluster, "a", group_id="consumers").error is Error.GROUP_ID_NOT_FOUND
    listed = cluster.ask(ListGroupsRequest, types_filter=("streams",)).groups
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [(GROUP, "streams", "Stable")]
    described = cluster.ask(DescribeGroupsRequest, group_ids=(GROUP,)).groups[0]
    assert described.error_message == f"Group {GROUP} is not a classic group."


def classic(cluster: Cluster, member_id: str = "") -> Error:
    words = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
    protocols = (("range", b""),)
    fields = {"group_id": GROUP, "member_id": member_id, "new_member_uuid": "u", "client_id": "c", **words}
    error: Error = cluster.ask(JoinGroupRequest, **fields, protocols=protocols).error
    return error


def test_becomes_classic_and_back() -> None:
    """Goal: an empty streams group becomes a classic one, and an empty classic one a streams group; with members, they
    refuse."""
    cluster = streams_cluster()
    join(cluster, "a")
    assert classic(cluster) is Error.INCONSISTENT_GROUP_PROTOCOL
    beat(cluster, "a", LEFT)
    cluster.log.clear()
    assert classic(cluster) is Error.MEMBER_ID_REQUIRED
    assert types(cluster)[:3] == ["target_assignment_metadata", "metadata", "topology"]
    assert beat(cluster, "a", LEFT).error is Error.GROUP_ID_NOT_FOUND
    cluster.log.clear()
    assert join(cluster, "a").member_epoch == 2
    assert types(cluster)[:2] == ["group_metadata", "member_metadata"]
    beat(cluster, "a", LEFT)
    assert classic(cluster, "stranger") is Error.UNKNOWN_MEMBER_ID
    assert cluster.coordinator.streams_group(GROUP) is None


def test_offsets_of_nobody_become_a_streams_group() -> None:
    """Goal: a group that only has offsets keeps them as it becomes a streams group, after a load, too."""
    cluster = streams_cluster()
    commit(cluster, "", -1, topic=PAYMENTS.name)
    join(cluster, "a")
    fetched = cluster.ask(OffsetFetchRequest, groups=(OffsetFetchGroup(GROUP, None),)).groups[0]
    assert [(each.topic, each.offset) for each in fetched.partitions] == [(PAYMENTS.name, 1)]
    cluster.coordinator.load(0, cluster.log, now_ms=cluster.now_ms)
    group = cluster.coordinator.streams_group(GROUP)
    assert group is not None
    assert (group.state, cluster.coordinator.group(GROUP)) == ("Stable", None)
    consumer = {"group_id": GROUP, "member_id": "c", "member_epoch": 1}
    assert cluster.ask(ConsumerGroupHeartbeatRequest, **consumer).error is Error.GROUP_ID_NOT_FOUND
