"""Plays scenarios 19 to 28: members rejoin, and the join phase of a rebalance ends."""

from typing import Any

from groupledger.schemas.kafka.errors import Error

from .driver import RANGE_AND_ROUNDROBIN, Driver, Member
from .registry import scenario


@scenario(19, "ExistingMemberUpdatedMetadataTriggersRebalance")
def existing_member_updated_metadata(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    parked = driver.sync(group.follower.member_id, group.generation)
    assert parked.is_parked
    unchanged = driver.join(group.leader.member_id)
    assert (unchanged.error, unchanged.response.generation_id) == (Error.NONE, group.generation)
    assert len(unchanged.response.members) == 2
    assert driver.join(group.leader.member_id, protocols=RANGE_AND_ROUNDROBIN).is_parked
    assert parked.error is Error.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


@scenario(20, "ExistingLeaderRejoinTriggersRebalance")
def existing_leader_rejoin(driver: Driver) -> None:
    group = driver.stable_group(None, None)
    assert driver.join(group.leader.member_id).is_parked
    assert driver.state() == "PreparingRebalance"


@scenario(21, "FollowerRejoinWithoutChange")
def follower_rejoin_without_change(driver: Driver) -> None:
    group = driver.stable_group(None, None)
    driver.take_records()
    response = driver.join(group.follower.member_id).response
    assert (response.error, response.generation_id, response.members) == (Error.NONE, 1, ())
    assert (response.leader, response.skip_assignment) == (group.leader.member_id, False)
    assert driver.state() == "Stable"
    assert driver.take_records() == []


@scenario(22, "FollowerRejoinWithNewMetadata")
def follower_rejoin_with_new_metadata(driver: Driver) -> None:
    group = driver.stable_group(None, None)
    assert driver.join(group.follower.member_id, protocols=RANGE_AND_ROUNDROBIN).is_parked
    assert driver.state() == "PreparingRebalance"


@scenario(23, "MemberRejoinInEmptyGroup")
def member_rejoin_in_empty_group(driver: Driver) -> None:
    group = driver.stable_group(None)
    driver.leave(group.leader)
    assert driver.state() == "Empty"
    assert driver.join(group.leader.member_id).error is Error.UNKNOWN_MEMBER_ID


@scenario(24, "PendingMemberJoinWithInstanceId")
def pending_member_join_with_instance_id(driver: Driver) -> None:
    required = driver.join()
    refused = driver.join(required.response.member_id, instance_id="instance")
    assert refused.error is Error.UNKNOWN_SERVER_ERROR


@scenario(25, "CompleteJoinRemovesNotYetRejoinedDynamicMember")
def complete_join_removes_not_yet_rejoined(driver: Driver) -> None:
    group = driver.stable_group(None, None, session_ms=60_000)
    again = driver.join(group.leader.member_id, session_ms=60_000)
    driver.advance(9_999)
    assert again.is_parked
    driver.advance(1)
    assert (again.error, again.response.generation_id) == (Error.NONE, group.generation + 1)
    assert driver.member_ids() == {group.leader.member_id}


@scenario(26, "NoMembersRejoined")
def no_members_rejoined(driver: Driver) -> None:
    group = driver.stable_group("instance-1", "instance-2", session_ms=60_000)
    # A third member that joins and leaves again starts a rebalance in which nobody waits.
    driver.join(instance_id="instance-3", session_ms=60_000)
    driver.leave(Member("", "instance-3"))
    for _ in range(2):
        driver.advance(10_000)
        assert driver.state() == "PreparingRebalance"
        assert driver.heartbeat(group.leader.member_id, group.generation) is Error.REBALANCE_IN_PROGRESS
    options: dict[str, Any] = {"session_ms": 60_000}
    again = [driver.join(member.member_id, instance_id=member.group_instance_id, **options) for member in group.members]
    assert [join.response.generation_id for join in again] == [group.generation + 1] * 2
    assert driver.state() == "CompletingRebalance"


@scenario(27, "NewMemberTimeoutCompletion")
def new_member_timeout_completion(driver: Driver) -> None:
    group = driver.completing_group(None)
    driver.take_records()
    driver.advance(5_000)
    assert driver.member_ids() == set()
    assert driver.state() == "Empty"
    (record,) = driver.take_records()
    assert record.value is not None
    assert (record.value["generation"], record.value["members"]) == (group.generation + 1, [])


@scenario(28, "GenerationIdIncrementsOnRebalance")
def generation_id_increments_on_rebalance(driver: Driver) -> None:
    group = driver.stable_group(None)
    again = driver.join(group.leader.member_id)
    assert again.response.generation_id == group.generation + 1 == 2
    assert again.response.leader == group.leader.member_id
