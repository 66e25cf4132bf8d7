"""Goal: members of KIP-848 join, hand over, are taken out in time, and come back, as `lab.kafka.consumer_differential`
shows it on a broker, and by timers, which it does not wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.config import KAFKA_4_2, KAFKA_4_4
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.consumer.member import MemberState
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup

ALL = tuple(range(6))


def shared() -> Cluster:
    """Returns a cluster in which `a` has three partitions and `b` the other three."""
    cluster = Cluster()
    cluster.join("a")
    cluster.join("b")
    cluster.beat("a", 1, owned={ORDERS.topic_id: (0, 1, 2)})
    cluster.beat("b", 2, owned={})
    return cluster


def test_hand_over() -> None:
    """Goal: the second member waits until the first has given up half of its partitions."""
    cluster = Cluster()
    first = cluster.join("a")
    assert (first.error, first.member_epoch, first.assignment) == (Error.NONE, 1, {ORDERS.topic_id: ALL})
    second = cluster.join("b")
    assert (second.member_epoch, second.assignment, cluster.group.state) == (2, {}, "Reconciling")
    asked = cluster.beat("a", 1, owned={ORDERS.topic_id: ALL})
    assert (asked.member_epoch, asked.assignment) == (1, {ORDERS.topic_id: (0, 1, 2)})
    assert cluster.beat("b", 2, owned={}).assignment is None
    released = cluster.beat("a", 1, owned=asked.assignment)
    assert (released.member_epoch, released.assignment) == (2, None)
    assert cluster.beat("b", 2, owned={}).assignment == {ORDERS.topic_id: (3, 4, 5)}
    assert cluster.group.state == "Stable"


def test_silent_for_its_session() -> None:
    """Goal: a member that sends nothing for its session is taken out, and the next heartbeat gives away what it had."""
    cluster = shared()
    cluster.wait(40_000)
    cluster.beat("a", 2)
    written = cluster.wait(5_100)
    names = ("current_member_assignment", "target_assignment_member", "member_metadata", "metadata")
    assert written == [f"consumer_group_{name}" for name in names]
    assert (cluster.group.epoch, [*cluster.group.members]) == (3, ["a"])
    assert cluster.beat("b", 2).error is Error.UNKNOWN_MEMBER_ID
    assert cluster.beat("a", 2).assignment == {ORDERS.topic_id: ALL}


def test_gives_nothing_up() -> None:
    """Goal: a member that keeps what it had to give up for its rebalance timeout is taken out, but not one that has
    given it up meanwhile."""
    for has_given_up in (False, True):
        cluster = Cluster()
        cluster.join("a")
        cluster.join("b")
        asked = cluster.beat("a", 1, owned={ORDERS.topic_id: ALL})
        for _ in range(2):
            cluster.wait(29_000)
            cluster.beat("b", 2)
            cluster.beat("a", 1, owned={ORDERS.topic_id: ALL})
        if has_given_up:
            cluster.beat("a", 1, owned=asked.assignment)
        cluster.wait(3_000)
        assert ("a" in cluster.group.members) is has_given_up


def test_static_member() -> None:
    """Goal: an instance that is away keeps its partitions for the id that takes its place; its session ends all the
    same, and nobody takes the place of one that is there."""
    cluster = Cluster()
    cluster.join("a", instance_id="i")
    assert cluster.join("other", instance_id="i").error is Error.UNRELEASED_INSTANCE_ID
    assert cluster.beat("a", -2, instance_id="i").member_epoch == -2
    back = cluster.join("b", instance_id="i")
    assert (back.member_epoch, back.assignment, cluster.group.epoch) == (1, {ORDERS.topic_id: ALL}, 1)
    assert cluster.beat("a", 1, instance_id="i").error is Error.FENCED_INSTANCE_ID
    cluster.beat("b", -2, instance_id="i")
    cluster.wait(45_001)
    assert (cluster.group.epoch, cluster.group.state) == (2, "Empty")


def test_no_topic_is_left() -> None:
    """Goal: a 4.4 broker writes the assignment of a member without partitions again when its topics are gone, with its
    present epoch as the previous one."""
    cluster = Cluster(release=KAFKA_4_4, group_consumer_assignment_interval_ms=60_000)
    cluster.join("a")
    cluster.join("b")
    cluster.log.clear()
    cluster.beat("b", 2, subscribed_topic_names=("absent",))
    written = [record.record_type for batch in cluster.log for record in batch.records]
    assert written[-1] == "consumer_group_current_member_assignment"
    assert cluster.group.members["b"].previous_epoch == 2


@pytest.mark.parametrize(("release", "targets"), [(KAFKA_4_2, 2), (KAFKA_4_4, 1)])
def test_static_member_that_changes_its_topics(release: str, targets: int) -> None:
    """Goal: if another id takes the place of an instance with other topics, its target is computed anew; since 4.4 it
    is written again only if it differs."""
    cluster = Cluster(release=release, group_consumer_assignment_interval_ms=0)
    cluster.join("a", instance_id="i")
    cluster.beat("a", -2, instance_id="i")
    cluster.log.clear()
    cluster.join("b", ORDERS.name, "absent", instance_id="i")
    written = [record for batch in cluster.log for record in batch.records if record.value is not None]
    types = [record.record_type for record in written]
    assert types.count("consumer_group_target_assignment_member") == targets
    assert types.count("consumer_group_metadata") == 1


def test_topics_change() -> None:
    """Goal: a topic that grows or comes to be makes a new epoch with the next heartbeat; one that nobody wants does
    not."""
    cluster = Cluster()
    cluster.join("a", "orders", "later")
    cluster.coordinator.topics["payments"] = replace(PAYMENTS, partition_count=9)
    assert cluster.beat("a", 1).member_epoch == 1
    cluster.coordinator.topics["orders"] = replace(ORDERS, partition_count=7)
    assert cluster.beat("a", 1).assignment == {ORDERS.topic_id: tuple(range(7))}
    later = replace(PAYMENTS, name="later", topic_id="AAAAAAAAAAAAAAAAAAAAAw")
    cluster.coordinator.topics["later"] = later
    grown = cluster.beat("a", 2)
    assert (grown.member_epoch, grown.assignment) == (3, {ORDERS.topic_id: tuple(range(7)), later.topic_id: (0, 1, 2)})


def test_other_topics() -> None:
    """Goal: partitions of a topic that a member does not want any more go at once, if it does not have them."""
    cluster = Cluster()
    cluster.join("a", "orders", "payments")
    words = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("payments",)}
    kept = cluster.beat("a", 1, owned={ORDERS.topic_id: ALL, PAYMENTS.topic_id: (0, 1, 2)}, **words)
    assert (kept.member_epoch, kept.assignment) == (1, {PAYMENTS.topic_id: (0, 1, 2)})
    assert cluster.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert cluster.beat("a", 1, owned={PAYMENTS.topic_id: (0, 1, 2)}).member_epoch == 2


def test_lost_answer() -> None:
    """Goal: the epoch before is taken from a member that has no more than it was given, any other is fenced."""
    cluster = shared()
    cluster.join("c")
    beginning = cluster.beat("a", 2, owned={ORDERS.topic_id: (0, 1)})
    after = cluster.beat("a", 2, owned=beginning.assignment)
    assert after.member_epoch == 3
    assert cluster.beat("a", 2, owned=beginning.assignment).error is Error.NONE
    assert cluster.beat("a", 2, owned={ORDERS.topic_id: ALL}).error is Error.FENCED_MEMBER_EPOCH
    assert cluster.beat("a", 2).error is Error.FENCED_MEMBER_EPOCH
    assert cluster.beat("a", 4).error is Error.FENCED_MEMBER_EPOCH


def test_group_is_full() -> None:
    """Goal: no more members join than the broker's setting allows, while those that are there go on."""
    cluster = Cluster(group_consumer_max_size=1)
    cluster.join("a")
    assert cluster.join("b").error is Error.GROUP_MAX_SIZE_REACHED
    assert cluster.join("a").error is Error.NONE


def commit(cluster: Cluster, member_id: str, epoch: int, **more: object) -> Error:
    offsets = (OffsetToCommit(topic="orders", partition=0, offset=7),)
    fields = {"group_id": GROUP, "offsets": offsets, "member_id": member_id, "generation_id": epoch}
    error: Error = cluster.ask(OffsetCommitRequest, **{**fields, **more}).partitions[0].error
    return error


def test_offsets() -> None:
    """Goal: a member commits and fetches with its own epoch; nobody deletes offsets of topics that members want."""
    cluster = shared()
    assert commit(cluster, "a", 2) is Error.NONE
    assert commit(cluster, "a", 1) is Error.STALE_MEMBER_EPOCH
    assert commit(cluster, "x", 2) is Error.UNKNOWN_MEMBER_ID
    assert commit(cluster, "", -1) is Error.UNKNOWN_MEMBER_ID
    assert commit(cluster, "a", 2, api_version=8) is Error.UNSUPPORTED_VERSION
    for member_id, epoch, error in (("a", 2, Error.NONE), ("a", 1, Error.STALE_MEMBER_EPOCH), (None, -1, Error.NONE)):
        asked = OffsetFetchGroup(GROUP, None, member_id, epoch)
        (fetched,) = cluster.ask(OffsetFetchRequest, groups=(asked,)).groups
        assert fetched.error is error
        assert [one.offset for one in fetched.partitions] == ([7] if error is Error.NONE else [])
    partitions = (TopicPartition("orders", 0), TopicPartition("payments", 0))
    deleted = cluster.ask(OffsetDeleteRequest, group_id=GROUP, partitions=partitions)
    assert [one.error for one in deleted.partitions] == [Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]


def test_transactional_offsets() -> None:
    """Goal: a transaction commits offsets for a member, or for nobody in particular."""
    cluster = shared()
    offsets = (OffsetToCommit(topic="orders", partition=0, offset=7),)
    fields = {"group_id": GROUP, "offsets": offsets, "producer_id": 1, "producer_epoch": 0}
    stale = cluster.ask(TxnOffsetCommitRequest, **fields, member_id="a", generation_id=1)
    assert stale.partitions[0].error is Error.ILLEGAL_GENERATION
    assert cluster.ask(TxnOffsetCommitRequest, **fields).partitions[0].error is Error.NONE
    cluster.ask(WriteTxnMarkerRequest, partition=0, producer_id=1, producer_epoch=0, committed=True)
    (fetched,) = cluster.ask(OffsetFetchRequest, groups=(OffsetFetchGroup(GROUP),)).groups
    assert [one.offset for one in fetched.partitions] == [7]


def test_expiry() -> None:
    """Goal: offsets of topics without a subscriber expire by their commits, and with the last one an empty group."""
    minute, check_ms = 60_000, 600_000
    cluster = Cluster(offsets_retention_ms=10 * minute, offsets_retention_check_interval_ms=check_ms)
    cluster.join("a")
    commit(cluster, "a", 1)
    offsets = (OffsetToCommit(topic="payments", partition=0, offset=1),)
    cluster.ask(OffsetCommitRequest, group_id=GROUP, offsets=offsets, member_id="a", generation_id=1)
    for _ in range(40):
        cluster.wait(minute // 2)
        cluster.beat("a", 1)
    shard = cluster.coordinator.shard(0)
    assert shard is not None
    assert [topic for topic, _, _ in shard.offsets.committed.of_group(GROUP)] == ["orders"]
    cluster.beat("a", -1)
    cluster.wait(2 * check_ms)
    assert GROUP not in shard.groups
    assert [record.record_type for record in cluster.log[-1].records] == [
        "offset_commit",
        *(f"consumer_group_{name}" for name in ("target_assignment_metadata", "partition_metadata", "metadata")),
    ]


def joins_as_classic(cluster: Cluster) -> Error:
    error: Error = cluster.ask(
        JoinGroupRequest,
        group_id=GROUP,
        member_id="",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b"\0\0\0\0\0\0\xff\xff\xff\xff"),),
        new_member_uuid="u",
        client_id="c",
        api_version=5,
    ).error
    return error


def test_the_other_kind_of_group() -> None:
    """Goal: an empty group of one kind becomes one of the other; LeaveGroup takes out members of a living one, and an
    administrator names them by their instances."""
    cluster = Cluster()
    assert joins_as_classic(cluster) is Error.MEMBER_ID_REQUIRED
    cluster.wait(400_000)
    cluster.join("a", instance_id="i")
    assert cluster.log[-1].records[0].record_type == "group_metadata"
    cluster.join("b")
    leaving = (LeavingMember("", "i"), LeavingMember("b"), LeavingMember("c"))
    left = cluster.ask(LeaveGroupRequest, group_id=GROUP, members=leaving)
    assert [each.error for each in left.members] == [Error.NONE, Error.NONE, Error.UNKNOWN_MEMBER_ID]
    assert cluster.group.epoch == 3
    assert joins_as_classic(cluster) is Error.MEMBER_ID_REQUIRED
    assert cluster.coordinator.group(GROUP) is not None
    listed = cluster.ask(ListGroupsRequest).groups
    assert [(each.group_id, each.group_type) for each in listed] == [(GROUP, "classic")]


def test_administrators() -> None:
    """Goal: the group is listed and described by its own kind, and deleted when it is empty."""
    cluster = Cluster()
    cluster.join("a", server_assignor="range")
    (listed,) = cluster.ask(ListGroupsRequest, types_filter=("consumer",), states_filter=("stable",)).groups
    assert (listed.group_id, listed.group_state) == (GROUP, "Stable")
    described, missing = cluster.ask(ConsumerGroupDescribeRequest, group_ids=(GROUP, "none")).groups
    assert (described.group_epoch, described.assignor, missing.error) == (1, "range", Error.GROUP_ID_NOT_FOUND)
    assert described.members[0].assignment == described.members[0].target == {ORDERS.topic_id: ALL}
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NON_EMPTY_GROUP
    cluster.beat("a", -1)
    assert cluster.ask(DeleteGroupsRequest, group_ids=(GROUP,)).results[0].error is Error.NONE
    assert cluster.ask(ListGroupsRequest).groups == ()


@pytest.mark.parametrize("at_end", [True, False])
def test_load(at_end: bool) -> None:  # a parameter of the test
    """Goal: a coordinator that loads the log has the same group, and watches its members; also in the middle of a
    hand-over."""
    cluster = Cluster()
    cluster.join("a")
    cluster.join("b", instance_id="i")
    cluster.beat("a", 1, owned={ORDERS.topic_id: ALL})
    if at_end:
        cluster.beat("a", 1, owned={ORDERS.topic_id: (0, 1, 2)})
    commit(cluster, "b", 2)
    other = Coordinator(cluster.config)
    other.topics.update(cluster.coordinator.topics)
    other.load(0, cluster.log, now_ms=cluster.now_ms)
    loaded = other.consumer_group(GROUP)
    assert loaded is not None
    assert as_data(loaded) == as_data(cluster.group)
    assert other.group(GROUP) is None
    # Whoever had to give something up has its rebalance timeout, everybody the session.
    other.advance(cluster.now_ms + 45_001)
    assert loaded.state == "Empty"


def as_data(group: ConsumerGroup) -> object:
    members = dict(group.members.items())
    return group.epoch, group.target_epoch, group.metadata_hash, group.target, members, group.static_members


def test_empty_group_id() -> None:
    """Goal: a heartbeat without a group id is an invalid request, as one without a member id is."""
    assert Cluster().join("a", group_id="").error is Error.INVALID_REQUEST
    assert Cluster().join("").error is Error.INVALID_REQUEST
