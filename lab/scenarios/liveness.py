"""Plays scenarios 50 to 58: heartbeats, sessions, members that have not joined yet, and leaving."""

from groupledger.schemas.kafka.errors import Error

from .driver import Driver, Member
from .registry import DEAD_GROUP, scenario


@scenario(50, "Heartbeat")
def heartbeat(driver: Driver) -> None:
    assert driver.heartbeat("x", 1) is Error.UNKNOWN_MEMBER_ID
    group = driver.completing_group("leader-instance", None)
    static = next(member for member in group.members if member.group_instance_id)
    dynamic = next(member for member in group.members if not member.group_instance_id)
    generation = group.generation
    assert driver.heartbeat("x", generation) is Error.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(dynamic.member_id, generation + 1) is Error.ILLEGAL_GENERATION
    assert driver.heartbeat(dynamic.member_id, generation) is Error.NONE
    fenced = driver.heartbeat(dynamic.member_id, generation, instance_id=static.group_instance_id)
    assert fenced is Error.FENCED_INSTANCE_ID
    driver.sync_all(group)
    assert driver.heartbeat(dynamic.member_id, generation) is Error.NONE
    driver.join(group.leader.member_id, instance_id=group.leader.group_instance_id)
    assert driver.heartbeat(dynamic.member_id, generation) is Error.REBALANCE_IN_PROGRESS
    driver.leave(static, dynamic)
    assert driver.state() == "Empty"
    assert driver.heartbeat(dynamic.member_id, generation) is Error.UNKNOWN_MEMBER_ID


@scenario(50, "HeartbeatDeadGroup", needs=(DEAD_GROUP,))
def heartbeat_dead_group(driver: Driver) -> None:
    group = driver.stable_group(None)
    driver.force_state("Dead")
    assert driver.heartbeat(group.leader.member_id, group.generation) is Error.COORDINATOR_NOT_AVAILABLE


@scenario(51, "SessionTimeout")
def session_timeout(driver: Driver) -> None:
    group = driver.stable_group(None)
    driver.take_records()
    driver.advance(4_999)
    assert driver.state() == "Stable"
    driver.advance(1)
    assert driver.state() == "Empty"
    (record,) = driver.take_records()
    assert record.value is not None
    assert (record.value["generation"], record.value["protocol_type"]) == (2, "consumer")
    assert (record.value["protocol"], record.value["leader"], record.value["members"]) == (None, None, [])
    assert driver.heartbeat(group.leader.member_id, group.generation) is Error.UNKNOWN_MEMBER_ID


@scenario(51, "HeartbeatMaintainsSession")
def heartbeat_maintains_session(driver: Driver) -> None:
    group = driver.stable_group(None)
    for _ in range(4):
        driver.advance(2_500)
        assert driver.heartbeat(group.leader.member_id, group.generation) is Error.NONE


@scenario(52, "SessionTimeoutDuringRebalance")
def session_timeout_during_rebalance(driver: Driver) -> None:
    group = driver.stable_group(None)
    waiting = driver.join_with_new_id()
    driver.advance(2_500)
    assert driver.heartbeat(group.leader.member_id, group.generation) is Error.REBALANCE_IN_PROGRESS
    driver.advance(4_999)
    assert waiting.is_parked
    driver.advance(1)
    assert (waiting.error, waiting.response.generation_id) == (Error.NONE, 2)
    assert driver.member_ids() == {waiting.response.member_id}


@scenario(53, "RebalanceCompletesBeforeMemberJoins")
def rebalance_completes_before_member_joins(driver: Driver) -> None:
    group = driver.stable_group("instance")
    old = group.leader
    waiting = driver.join_with_new_id()
    for _ in range(4):
        driver.advance(2_500)
        error = driver.heartbeat(old.member_id, group.generation, instance_id=old.group_instance_id)
        assert error in (Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION)
    assert error is Error.ILLEGAL_GENERATION
    assert (waiting.error, waiting.response.generation_id) == (Error.NONE, 2)
    assert driver.member_ids() == {old.member_id, waiting.response.member_id}


@scenario(54, "SecondMemberPartiallyJoinsAndTimesOut")
def second_member_partially_joins(driver: Driver) -> None:
    group = driver.stable_group(None, session_ms=60_000)
    required = driver.join()
    assert required.error is Error.MEMBER_ID_REQUIRED
    driver.advance(6_000)
    assert driver.heartbeat(group.leader.member_id, group.generation) is Error.NONE
    assert driver.state() == "Stable"
    assert driver.join(required.response.member_id).error is Error.UNKNOWN_MEMBER_ID


@scenario(55, "JoinCompletionWhenPendingMemberJoins")
def join_completion_when_pending_member_joins(driver: Driver) -> None:
    group = driver.stable_group(None)
    pending = driver.join().response.member_id
    again = driver.join(group.leader.member_id)
    assert again.is_parked
    joined = driver.join(pending)
    assert (again.error, joined.error) == (Error.NONE, Error.NONE)
    assert driver.state() == "CompletingRebalance"


@scenario(55, "JoinCompletionWhenPendingMemberTimesOut")
def join_completion_when_pending_member_times_out(driver: Driver) -> None:
    group = driver.stable_group(None)
    driver.join()
    again = driver.join(group.leader.member_id)
    driver.advance(4_999)
    assert again.is_parked
    driver.advance(1)
    assert (again.error, again.response.generation_id) == (Error.NONE, 2)
    assert driver.member_ids() == {group.leader.member_id}


@scenario(56, "PendingMembersLeave")
def pending_members_leave(driver: Driver) -> None:
    group = driver.stable_group(None)
    pending = driver.join().response.member_id
    again = driver.join(group.leader.member_id)
    assert again.is_parked
    left = driver.leave(Member(pending))
    assert (left.error, left.members[0].error) == (Error.NONE, Error.NONE)
    assert (again.error, again.response.generation_id) == (Error.NONE, 2)


@scenario(57, "LeaveGroup")
def leave_group(driver: Driver) -> None:
    unknown = driver.leave(Member("x"))
    assert (unknown.error, unknown.members[0].error) == (Error.NONE, Error.UNKNOWN_MEMBER_ID)
    group = driver.stable_group(None)
    driver.take_records()
    assert driver.leave(Member("x")).members[0].error is Error.UNKNOWN_MEMBER_ID
    left = driver.leave(group.leader)
    assert (left.error, left.members[0].error) == (Error.NONE, Error.NONE)
    assert driver.state() == "Empty"
    (record,) = driver.take_records()
    assert record.value is not None
    assert (record.value["generation"], record.value["members"]) == (2, [])
    # Before API 3 the one member's error is that of the response.
    single = driver.leave(group.leader, api_version=2)
    assert (single.error, single.members) == (Error.UNKNOWN_MEMBER_ID, ())


@scenario(57, "LeaveDeadGroup", needs=(DEAD_GROUP,))
def leave_dead_group(driver: Driver) -> None:
    group = driver.stable_group(None)
    driver.force_state("Dead")
    assert driver.leave(group.leader).error is Error.COORDINATOR_NOT_AVAILABLE


@scenario(58, "StaticMemberLeaves")
def static_member_leaves(driver: Driver) -> None:
    group = driver.stable_group("leader-instance", "follower-instance")
    leader, follower = group.members
    driver.take_records()
    fenced = driver.leave(Member(leader.member_id, follower.group_instance_id))
    assert fenced.members[0].error is Error.FENCED_INSTANCE_ID
    # The administrator names instances only: an unknown one is refused alone, the others leave together.
    instances = (leader.group_instance_id, "unknown", follower.group_instance_id)
    left = driver.leave(*(Member("", instance_id) for instance_id in instances))
    assert [member.error for member in left.members] == [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE]
    assert driver.state() == "Empty"
    (record,) = driver.take_records()
    assert record.value is not None
    assert record.value["generation"] == group.generation + 1
