"""Plays scenarios 41 to 49: the sync phase of a rebalance, and what happens to members that miss it."""

from typing import Any

from groupledger.schemas.kafka.errors import Error

from .driver import TOO_LARGE, Driver
from .registry import APPEND_FAILURE, RECORD_TOO_LARGE, scenario


@scenario(41, "SyncGroupRefusals")
def sync_group_refusals(driver: Driver) -> None:
    assert driver.sync("x", 1).error is Error.UNKNOWN_MEMBER_ID
    group = driver.completing_group(None, None)
    leader, generation = group.leader.member_id, group.generation
    assert driver.sync("x", generation).error is Error.UNKNOWN_MEMBER_ID
    assert driver.sync(leader, generation + 1).error is Error.ILLEGAL_GENERATION
    assert driver.sync(leader, generation, protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(leader, generation, protocol_name="sticky").error is Error.INCONSISTENT_GROUP_PROTOCOL
    # Optional below API 5, and only there.
    nameless: dict[str, Any] = {"protocol_type": None, "protocol_name": None}
    assert driver.sync(leader, generation, **nameless).error is Error.INCONSISTENT_GROUP_PROTOCOL
    synced = driver.sync(leader, generation, group.assignments(), **nameless, api_version=4)
    assert (synced.error, synced.response.assignment) == (Error.NONE, group.assignments()[leader])


@scenario(42, "SyncGroupWhileRebalancing")
def sync_group_while_rebalancing(driver: Driver) -> None:
    group = driver.stable_group("leader-instance", "follower-instance")
    leader, follower = group.members
    fenced = driver.sync(leader.member_id, group.generation, instance_id=follower.group_instance_id)
    assert fenced.error is Error.FENCED_INSTANCE_ID
    driver.join_with_new_id()
    assert driver.sync(leader.member_id, group.generation).error is Error.REBALANCE_IN_PROGRESS


@scenario(43, "SyncGroupFollowerAfterLeader")
def sync_group_follower_after_leader(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    driver.take_records()
    assignments = group.assignments()
    leader_sync = driver.sync(group.leader.member_id, group.generation, assignments)
    assert leader_sync.response.assignment == assignments[group.leader.member_id]
    assert driver.state() == "Stable"
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    assert follower_sync.response.assignment == assignments[group.follower.member_id]
    (record,) = driver.take_records()
    assert record.value is not None
    assert {member["member_id"]: member["assignment"] for member in record.value["members"]} == assignments


@scenario(43, "SyncGroupLeaderAfterFollower")
def sync_group_leader_after_follower(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    assert follower_sync.is_parked
    assignments = group.assignments()
    assert driver.sync(group.leader.member_id, group.generation, assignments).error is Error.NONE
    assert follower_sync.error is Error.NONE
    assert follower_sync.response.assignment == assignments[group.follower.member_id]
    assert driver.state() == "Stable"


@scenario(44, "SyncGroupEmptyAssignment")
def sync_group_empty_assignment(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    leader_sync = driver.sync(group.leader.member_id, group.generation, {})
    assert (leader_sync.error, leader_sync.response.assignment) == (Error.NONE, b"")
    assert (follower_sync.error, follower_sync.response.assignment) == (Error.NONE, b"")
    assert driver.state() == "Stable"


@scenario(45, "SyncGroupAppendFailure", needs=(APPEND_FAILURE,))
def sync_group_append_failure(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    driver.take_records()
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    leader_sync = driver.sync(group.leader.member_id, group.generation, group.assignments())
    assert leader_sync.error is follower_sync.error is Error.COORDINATOR_NOT_AVAILABLE
    assert driver.state() == "PreparingRebalance"
    assert driver.take_records() == []


@scenario(45, "SyncGroupRecordTooLarge", needs=(RECORD_TOO_LARGE,))
def sync_group_record_too_large(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    driver.take_records()
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    driver.fail_next_append(Error.MESSAGE_TOO_LARGE)
    leader_sync = driver.sync(group.leader.member_id, group.generation, {group.leader.member_id: bytes(TOO_LARGE)})
    assert leader_sync.error is follower_sync.error is Error.UNKNOWN_SERVER_ERROR
    assert driver.state() == "PreparingRebalance"
    assert driver.take_records() == []


@scenario(46, "LeaderFailureInSyncGroup")
def leader_failure_in_sync_group(driver: Driver) -> None:
    group = driver.completing_group(None, None, session_ms=60_000)
    follower_sync = driver.sync(group.follower.member_id, group.generation)
    driver.advance(9_999)
    assert follower_sync.is_parked
    driver.advance(1)
    assert follower_sync.error is Error.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"
    assert driver.member_ids() == {group.follower.member_id}


@scenario(47, "SyncNotReceivedFromAnyMember")
def sync_not_received_from_any_member(driver: Driver) -> None:
    group = driver.completing_group(None, None, None, session_ms=60_000)
    driver.take_records()
    driver.advance(10_000)
    assert driver.state() == "Empty"
    (record,) = driver.take_records()
    assert record.value is not None
    assert (record.value["generation"], record.value["members"]) == (group.generation + 1, [])
    for member in group.members:
        assert driver.heartbeat(member.member_id, group.generation) is Error.UNKNOWN_MEMBER_ID


@scenario(48, "SyncNotReceivedFromFollowers")
def sync_not_received_from_followers(driver: Driver) -> None:
    group = driver.completing_group(None, None, None, session_ms=60_000)
    leader = group.leader.member_id
    assert driver.sync(leader, group.generation, group.assignments()).error is Error.NONE
    driver.advance(10_000)
    assert driver.member_ids() == {leader}
    assert driver.heartbeat(leader, group.generation) is Error.REBALANCE_IN_PROGRESS
    for follower in group.members[1:]:
        assert driver.heartbeat(follower.member_id, group.generation) is Error.UNKNOWN_MEMBER_ID


@scenario(48, "SyncNotReceivedFromLeader")
def sync_not_received_from_leader(driver: Driver) -> None:
    group = driver.completing_group(None, None, None, session_ms=60_000)
    syncs = [driver.sync(follower.member_id, group.generation) for follower in group.members[1:]]
    driver.advance(10_000)
    assert [sync.error for sync in syncs] == [Error.REBALANCE_IN_PROGRESS] * 2
    assert driver.heartbeat(group.leader.member_id, group.generation) is Error.UNKNOWN_MEMBER_ID
    for follower in group.members[1:]:
        assert driver.heartbeat(follower.member_id, group.generation) is Error.REBALANCE_IN_PROGRESS


@scenario(49, "AllSyncReceived")
def all_sync_received(driver: Driver) -> None:
    group = driver.stable_group(None, None, None, session_ms=60_000)
    driver.advance(10_000)
    for member in group.members:
        assert driver.heartbeat(member.member_id, group.generation) is Error.NONE
    assert driver.state() == "Stable"
    assert len(driver.member_ids()) == 3
