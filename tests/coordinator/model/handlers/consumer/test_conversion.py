"""Goal: groups change their protocol with their members, and classic members live in consumer groups, as
`lab.kafka.mixed_differential` shows it on a broker; here by timers, policies and loads, which it does not wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.model.config import BIDIRECTIONAL, DISABLED, DOWNGRADE, KAFKA_4_4, UPGRADE
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from groupledger.schemas.codec.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.kafka.errors import Error
from tests.coordinator.model.consumers import GROUP, ORDERS, Cluster

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.classic.group import Group

ALL = tuple(range(6))
REBALANCE_MS, SESSION_MS = 20_000, 30_000


class Mixed(Cluster):
    """A cluster with a classic member `old`, which consumes alone."""

    def __init__(self, *, user_data: bytes | None = None, instance_id: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.instance_id = instance_id
        self.old: str = self.join_classic("", api_version=3).member_id
        given = [{"topic": "orders", "partitions": [*ALL]}]
        encoded = encode_assignment(ProtocolMessage(1, {"assigned_partitions": given, "user_data": user_data}))
        self.sync(1, ((self.old, encoded),))

    def join_classic(self, member_id: str, owned: tuple[int, ...] = (), **more: Any) -> Any:
        partitions = [{"topic": "orders", "partitions": [*owned]}]
        fields = {"topics": ["orders"], "user_data": None, "owned_partitions": partitions}
        words = {
            "group_instance_id": self.instance_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": (("range", encode_subscription(ProtocolMessage(1, fields))),),
            "new_member_uuid": "drawn",
            "client_id": "client",
        }
        return self.ask(JoinGroupRequest, **{"group_id": GROUP, "member_id": member_id, **words, **more})

    def sync(self, generation: int, assignments: tuple[tuple[str, bytes], ...] = ()) -> Any:
        named = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
        member = {"member_id": self.old, "group_instance_id": self.instance_id}
        return self.ask(SyncGroupRequest, group_id=GROUP, generation_id=generation, **member, **named)

    def synced(self, generation: int) -> list[int]:
        """Returns the partitions that the old member gets."""
        (topic,) = decode_assignment(self.sync(generation).assignment).fields["assigned_partitions"]
        numbers: list[int] = topic["partitions"]
        return numbers

    def beat_classic(self, generation: int) -> Error:
        member = {"member_id": self.old, "group_instance_id": self.instance_id}
        error: Error = self.ask(HeartbeatRequest, group_id=GROUP, generation_id=generation, **member).error
        return error

    @property
    def classic(self) -> Group:
        group = self.coordinator.group(GROUP)
        assert group is not None
        return group

    def written(self) -> list[str]:
        """Returns the types of the last batch's records, a tombstone with a minus."""
        return [
            f"{'-' if record.value is None else ''}{record.record_type.removeprefix('consumer_group_')}"
            for record in self.log[-1].records
        ]


GONE = ["-current_member_assignment", "-target_assignment_member", "-target_assignment_metadata", "-member_metadata"]


def test_there_and_back() -> None:
    """Goal: a classic member gives half to one of KIP-848 that joins, without waiting for it, and has all again when
    that leaves."""
    cluster = Mixed()
    assert cluster.join("new").member_epoch == 2
    upgraded = ["-group_metadata", "member_metadata", "metadata", "target_assignment_member"]
    assert cluster.written()[:4] == upgraded
    assert cluster.written()[4:6] == ["target_assignment_metadata", "current_member_assignment"]
    assert (cluster.coordinator.group(GROUP), cluster.group.epoch) == (None, 2)
    assert cluster.beat_classic(1) is Error.REBALANCE_IN_PROGRESS
    asked = cluster.join_classic(cluster.old, ALL)
    assert (asked.error, asked.generation_id, asked.leader, asked.members) == (Error.NONE, 1, "", ())
    kept = tuple(cluster.synced(1))
    assert cluster.join_classic(cluster.old, kept).generation_id == 2
    assert (len(kept), cluster.beat_classic(2)) == (3, Error.NONE)
    assert cluster.beat("new", 2, owned={}).assignment == {ORDERS.topic_id: tuple(n for n in ALL if n not in kept)}
    cluster.beat("new", -1)
    assert cluster.written()[-3:] == ["-partition_metadata", "-metadata", "group_metadata"]
    assert (cluster.classic.state, cluster.classic.generation_id) == (State.PREPARING_REBALANCE, 2)
    assert cluster.beat_classic(2) is Error.REBALANCE_IN_PROGRESS
    rejoined = cluster.join_classic(cluster.old, kept)
    assert (rejoined.generation_id, rejoined.leader) == (3, cluster.old)


def test_waiting_members_join_again() -> None:
    """Goal: a member that waits for a classic rebalance is asked to join again when the group is upgraded."""
    cluster = Mixed()
    assert cluster.beat_classic(1) is Error.NONE
    assert cluster.join_classic("", new_member_uuid="waiting", api_version=3) is None
    cluster.join("new")
    assert [each.error for each in cluster.answers[-2:]] == [Error.REBALANCE_IN_PROGRESS, Error.NONE]
    assert {*cluster.group.members} == {cluster.old, "client-waiting", "new"}
    assert cluster.group.members["client-waiting"].assigned == {}


@pytest.mark.parametrize(
    ("policy", "is_upgraded", "is_downgraded"),
    [(BIDIRECTIONAL, True, True), (UPGRADE, True, False), (DOWNGRADE, False, True), (DISABLED, False, False)],
)
def test_policy(policy: str, is_upgraded: bool, is_downgraded: bool) -> None:  # parameters of the test
    """Goal: the broker's policy says in which direction a group with members changes; classic members join a consumer
    group under any. The server log says what was done, or why not."""
    no_upgrade = f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
    no_downgrade = f"Cannot downgrade consumer group {GROUP} to classic group because the online downgrade is disabled."
    upgraded = f"[GroupId {GROUP}] Converted the classic group to a consumer group."
    downgraded = f"[GroupId {GROUP}] Converted the consumer group to a classic group."
    cluster = Mixed(group_consumer_migration_policy=policy)
    error = cluster.join("new").error
    assert error is (Error.NONE if is_upgraded else Error.GROUP_ID_NOT_FOUND)
    assert (upgraded in cluster.said, no_upgrade in cluster.said) == (is_upgraded, not is_upgraded)
    cluster = Mixed(group_consumer_migration_policy=policy)
    cluster.ask(LeaveGroupRequest, group_id=GROUP, members=(LeavingMember(cluster.old),))
    cluster.join("new")
    assert cluster.join_classic("any").error is Error.NONE
    cluster.beat("new", -1)
    assert (cluster.coordinator.group(GROUP) is not None) is is_downgraded
    assert (downgraded in cluster.said, no_downgrade in cluster.said) == (is_downgraded, not is_downgraded)


def test_an_assignors_own_data() -> None:
    """Goal: a group whose leader gives members more than their partitions stays classic, as that would be lost."""
    cluster = Mixed(user_data=b"more")
    assert cluster.join("new").error is Error.GROUP_ID_NOT_FOUND
    assert cluster.classic.state is State.STABLE


def test_another_protocol_of_an_instance() -> None:
    """Goal: a static member changes its protocol, in both directions, and keeps what it has without a rebalance."""
    cluster = Mixed(instance_id="i")
    joined = cluster.join("new", instance_id="i")
    assert (joined.member_epoch, joined.assignment) == (1, {ORDERS.topic_id: ALL})
    assert cluster.beat_classic(1) is Error.FENCED_INSTANCE_ID
    back = cluster.join_classic("")
    assert (back.error, back.generation_id, back.member_id) == (Error.NONE, 1, "drawn")
    assert (cluster.classic.state, cluster.classic.generation_id) == (State.STABLE, 1)
    cluster.old = back.member_id
    assert cluster.synced(1) == [*ALL]


def test_a_member_that_was_given_nothing_changes_its_protocol() -> None:
    """Goal: from 4.4 on a member may wait for its first target. If it comes back as a classic member meanwhile, it has
    nothing in the classic group, and a rebalance begins."""
    cluster = Mixed(release=KAFKA_4_4, group_consumer_assignment_interval_ms=60_000)
    assert cluster.join("first").member_epoch == 2
    assert cluster.join("new", instance_id="i").error is Error.NONE
    cluster.beat("first", -1)
    assert "new" not in cluster.group.target
    cluster.join_classic("", group_instance_id="i")
    assert {*cluster.classic.members} == {cluster.old, "drawn"}
    assert cluster.classic.state is State.PREPARING_REBALANCE


@pytest.mark.parametrize("is_too_late_to", ["join", "sync", "heartbeat"])
def test_too_late(is_too_late_to: str) -> None:
    """Goal: a classic member that does not join when it is asked to, does not fetch its assignment, or is silent for
    its own session is removed."""
    cluster = Mixed(group_consumer_session_timeout_ms=300_000)
    cluster.join("new")
    beat_error = cluster.beat_classic(1)
    assert beat_error is Error.REBALANCE_IN_PROGRESS
    if is_too_late_to != "join":
        cluster.join_classic(cluster.old, ())
    if is_too_late_to == "heartbeat":
        cluster.synced(2)
    limit_ms = SESSION_MS if is_too_late_to == "heartbeat" else REBALANCE_MS
    cluster.wait(limit_ms - 10)
    assert cluster.old in cluster.group.members
    cluster.wait(20)
    assert [*cluster.group.members] == ["new"]


def test_only_classic_members_are_left() -> None:
    """Goal: a consumer group whose last member of KIP-848 joined as a classic one goes back when anybody goes."""
    cluster = Mixed()
    cluster.join("new")
    cluster.join_classic("new")
    assert cluster.group.epoch == 2
    cluster.ask(LeaveGroupRequest, group_id=GROUP, members=(LeavingMember(cluster.old),))
    assert ([*cluster.classic.members], cluster.classic.generation_id) == (["new"], 2)


def test_a_forgotten_group() -> None:
    """Goal: an empty consumer group is gone, without a record, when a member joins it by an id that the group did not
    give; readers see the group until something is written."""
    cluster = Cluster()
    cluster.join("a")
    cluster.beat("a", -1)
    written = len(cluster.log)
    joining = {"member_id": "a", "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
    words = {"protocol_type": "consumer", "protocols": (("range", b""),), "new_member_uuid": "drawn"}
    assert cluster.ask(JoinGroupRequest, group_id=GROUP, **joining, **words).error is Error.UNKNOWN_MEMBER_ID
    assert len(cluster.log) == written
    assert cluster.coordinator.consumer_group(GROUP) is None
    assert cluster.coordinator.group(GROUP) is None

    def described() -> Error:
        (group,) = cluster.ask(ConsumerGroupDescribeRequest, group_ids=(GROUP,)).groups
        error: Error = group.error
        return error

    assert described() is Error.NONE
    cluster.ask(JoinGroupRequest, group_id=GROUP, **{**joining, "member_id": ""}, **words)
    assert len(cluster.log) > written
    assert described() is Error.GROUP_ID_NOT_FOUND


def test_load() -> None:
    """Goal: a coordinator that loads the log knows classic members, and a group that went back, as the one before."""
    cluster = Mixed()
    cluster.join("new")
    for is_back in (False, True):
        if is_back:
            cluster.beat("new", -1)
        other = Coordinator(cluster.config)
        other.topics.update(cluster.coordinator.topics)
        other.load(0, cluster.log, now_ms=cluster.now_ms)
        loaded, consumers = other.group(GROUP), other.consumer_group(GROUP)
        if is_back:
            assert consumers is None
            assert loaded is not None
            assert (loaded.generation_id, [*loaded.members]) == (2, [cluster.old])
        else:
            assert loaded is None
            assert consumers is not None
            assert dict(consumers.members.items()) == dict(cluster.group.members.items())


def test_failed_append_leaves_the_empty_consumer_group() -> None:
    """Goal: an id has one group. A classic member that joins an empty consumer group replaces it once that is written,
    and not before."""
    cluster = Cluster()
    cluster.join("a")
    cluster.beat("a", -1)
    request = JoinGroupRequest(
        99,
        api_version=3,
        group_id=GROUP,
        member_id="",
        new_member_uuid="drawn",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )
    for error, is_written in ((Error.NOT_ENOUGH_REPLICAS, False), (Error.NONE, True)):
        cluster.coordinator.handle(request, now_ms=cluster.now_ms, append_error=error)
        assert (cluster.coordinator.group(GROUP) is not None) is is_written
        assert (cluster.coordinator.consumer_group(GROUP) is None) is is_written
