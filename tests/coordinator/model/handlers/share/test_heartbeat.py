"""Goal: members of share groups join, are given what is initialized, leave and are taken out in time, as
`lab.kafka.share_differential` shows it on a broker, and by failures and loads, which it does not play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetToCommit,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.errors import Error
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.share.group import ShareGroup

ALL = tuple(range(6))
LEFT = -1


def beat(cluster: Cluster, member_id: str, epoch: int, *topics: str, **fields: Any) -> Any:
    words = {"subscribed_topic_names": topics or None, "client_id": "client", "group_id": GROUP, **fields}
    return cluster.ask(ShareGroupHeartbeatRequest, member_id=member_id, member_epoch=epoch, **words)


def group_of(cluster: Cluster) -> ShareGroup:
    group = cluster.coordinator.share_group(GROUP)
    assert group is not None
    return group


def with_members(*member_ids: str, **settings: Any) -> Cluster:
    """Returns a cluster in which these members have joined and been given partitions of the topic."""
    cluster = Cluster(**settings)
    for member_id in member_ids:
        beat(cluster, member_id, 0, ORDERS.name)
    for member_id in member_ids:
        beat(cluster, member_id, group_of(cluster).members[member_id].epoch)
    for member_id in member_ids:
        beat(cluster, member_id, group_of(cluster).members[member_id].epoch)
    return cluster


def types(cluster: Cluster) -> list[str]:
    return [record.record_type.removeprefix("share_group_") for batch in cluster.log for record in batch.records]


def test_first_member() -> None:
    """Goal: a first member gets nothing until the share coordinator knows the partitions, and then all of them; the
    records are in the broker's order, and those of the initialization are an operation of their own."""
    cluster = Cluster()
    joined = beat(cluster, "a", 0, ORDERS.name)
    assert (joined.error, joined.member_epoch, joined.assignment) == (Error.NONE, 1, {})
    target = ["target_assignment_member", "target_assignment_metadata", "current_member_assignment"]
    states = "state_partition_metadata"
    assert types(cluster) == ["member_metadata", "metadata", *target, states, states]
    assert [len(batch.records) for batch in cluster.log] == [6, 1]
    cluster.log.clear()
    given = beat(cluster, "a", 1)
    assert (given.member_epoch, given.assignment) == (2, {ORDERS.topic_id: ALL})
    assert types(cluster) == ["metadata", *target]
    again = beat(cluster, "a", 1)
    assert (again.error, again.member_epoch, again.assignment) == (Error.NONE, 2, None)


def test_partitions_are_shared() -> None:
    """Goal: with fewer members than partitions each has some; with more, partitions have several members."""
    for count in (2, 3, 4, 13):
        cluster = with_members(*(f"m{number}" for number in range(count)))
        held = [member.assigned.get(ORDERS.topic_id, ()) for member in group_of(cluster).members.values()]
        assert {number for numbers in held for number in numbers} == {*ALL}
        assert max(map(len, held)) - min(map(len, held)) <= 1


def test_topic_grows() -> None:
    """Goal: partitions that are new are initialized with the next heartbeat, and given with the one after it."""
    cluster = with_members("a")
    cluster.coordinator.topics[ORDERS.name] = Topic(ORDERS.name, ORDERS.topic_id, 8)
    assert beat(cluster, "a", 2).assignment is None
    assert beat(cluster, "a", 3).assignment == {ORDERS.topic_id: tuple(range(8))}


def test_subscription_changes() -> None:
    """Goal: a member that leaves a topic loses its partitions at once, and gets those of the new topic as soon as they
    are initialized."""
    cluster = with_members("a", "b")
    epoch = group_of(cluster).members["a"].epoch
    changed = beat(cluster, "a", epoch, PAYMENTS.name)
    assert changed.assignment == {}
    given = beat(cluster, "a", changed.member_epoch)
    assert given.assignment == {PAYMENTS.topic_id: (0, 1, 2)}
    other = beat(cluster, "b", group_of(cluster).members["b"].epoch)
    assert other.assignment[ORDERS.topic_id] == ALL


def test_leaves_and_is_silent() -> None:
    """Goal: a member that leaves, or is silent for its session, is removed with the same records; the other member gets
    all partitions."""
    out = ["current_member_assignment", "target_assignment_member", "member_metadata", "metadata"]
    for is_silent in (False, True):
        cluster = with_members("a", "b")
        cluster.wait(30_000)
        beat(cluster, "a", group_of(cluster).members["a"].epoch)
        cluster.log.clear()
        if is_silent:
            cluster.wait(15_000)
        else:
            assert beat(cluster, "b", LEFT).error is Error.NONE
        assert types(cluster) == out
        assert [*group_of(cluster).members] == ["a"]
        assert beat(cluster, "b", 1).error is Error.UNKNOWN_MEMBER_ID
        assert beat(cluster, "a", group_of(cluster).members["a"].epoch).assignment == {ORDERS.topic_id: ALL}


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 0, {"subscribed_topic_names": (ORDERS.name,)}, Error.INVALID_REQUEST),
        ("a", 1, {"rack_id": ""}, Error.INVALID_REQUEST),
        ("a", 1, {"group_id": ""}, Error.INVALID_REQUEST),
        ("a", 0, {}, Error.INVALID_REQUEST),
        ("a", -2, {}, Error.INVALID_REQUEST),
        ("a", 9, {}, Error.FENCED_MEMBER_EPOCH),
        ("z", 1, {}, Error.GROUP_MAX_SIZE_REACHED),  # asked before whether it is known
        ("z", LEFT, {}, Error.UNKNOWN_MEMBER_ID),
        ("a", 1, {"group_id": "absent"}, Error.GROUP_ID_NOT_FOUND),
        ("a", LEFT, {"group_id": "absent"}, Error.GROUP_ID_NOT_FOUND),
        ("c", 0, {"subscribed_topic_names": (ORDERS.name,)}, Error.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_refusals(member_id: str, epoch: int, fields: dict[str, Any], error: Error) -> None:
    """Goal: a heartbeat that is refused changes nothing."""
    cluster = with_members("a", "b", group_share_max_size=2)
    cluster.log.clear()
    assert beat(cluster, member_id, epoch, **fields).error is error
    assert cluster.log == []


def test_other_types() -> None:
    """Goal: a share group and the others refuse each other's members, and a share group keeps no offsets."""
    cluster = with_members("a")
    offsets = (OffsetToCommit(topic=ORDERS.name, partition=0, offset=1),)
    committed = cluster.ask(OffsetCommitRequest, group_id=GROUP, offsets=offsets)
    assert committed.partitions[0].error is Error.GROUP_ID_NOT_FOUND
    in_transaction = cluster.ask(
        TxnOffsetCommitRequest, group_id=GROUP, offsets=offsets, producer_id=1, producer_epoch=0
    )
    assert in_transaction.partitions[0].error is Error.GROUP_ID_NOT_FOUND
    assert cluster.join("b").error is Error.GROUP_ID_NOT_FOUND
    heartbeat = cluster.ask(HeartbeatRequest, group_id=GROUP, generation_id=1, member_id="a")
    assert heartbeat.error is Error.UNKNOWN_MEMBER_ID
    cluster.join("b", group_id="consumers")
    assert beat(cluster, "a", 0, ORDERS.name, group_id="consumers").error is Error.GROUP_ID_NOT_FOUND
    listed = cluster.ask(ListGroupsRequest, types_filter=("share",)).groups
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [(GROUP, "share", "Stable")]


def test_delete() -> None:
    """Goal: only an empty group is deleted, in two operations, and another may begin under its id."""
    cluster = with_members("a")
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NON_EMPTY_GROUP
    beat(cluster, "a", LEFT)
    cluster.log.clear()
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NONE
    states = "state_partition_metadata"
    assert types(cluster) == [states, "target_assignment_metadata", states, "metadata"]
    assert [len(batch.records) for batch in cluster.log] == [1, 3]
    described = cluster.ask(ShareGroupDescribeRequest, group_ids=(GROUP,)).groups[0]
    assert described.error is Error.GROUP_ID_NOT_FOUND
    assert beat(cluster, "a", 0, ORDERS.name).member_epoch == 1


def test_load() -> None:
    """Goal: a coordinator that loads the log knows what the one that wrote it knew, and watches the sessions."""
    cluster = with_members("a", "b")
    loaded = Coordinator(cluster.config)
    loaded.topics.update(cluster.coordinator.topics)
    loaded.load(0, cluster.log, now_ms=cluster.now_ms)
    question = ShareGroupDescribeRequest(0, group_ids=(GROUP,))
    answers = [each.handle(question, now_ms=cluster.now_ms).responses for each in (loaded, cluster.coordinator)]
    assert answers[0] == answers[1]
    group, before = loaded.share_group(GROUP), group_of(cluster)
    assert group is not None
    assert (group.target, group.states, group.metadata_hash) == (before.target, before.states, before.metadata_hash)
    loaded.advance(cluster.now_ms + cluster.config.group_share_session_timeout_ms)
    assert group.state == "Empty"


def test_append_fails() -> None:
    """Goal: a heartbeat whose records cannot be written is refused, begins no other operation, and changes nothing."""
    cluster = Cluster()
    request = ShareGroupHeartbeatRequest(
        0, group_id=GROUP, member_id="a", member_epoch=0, subscribed_topic_names=(ORDERS.name,)
    )
    result = cluster.coordinator.handle(request, now_ms=0, append_error=Error.NOT_LEADER_OR_FOLLOWER)
    (response,) = result.responses
    assert getattr(response, "error", None) is Error.NOT_COORDINATOR
    assert result.batches == ()
    assert cluster.coordinator.share_group(GROUP) is None


def test_an_empty_group_stays() -> None:
    """Goal: a broker's search for groups that are over, every ten minutes, takes no share group away."""
    cluster = with_members("a")
    beat(cluster, "a", LEFT)
    assert cluster.wait(2 * cluster.config.offsets_retention_check_interval_ms) == []
    assert group_of(cluster).state == "Empty"
