"""Plays scenarios 29 to 40: static members, which have a group instance id."""

from typing import Any

from groupledger.schemas.kafka.errors import Error

from .driver import RANGE_AND_ROUNDROBIN, ROUNDROBIN_AND_RANGE, TOO_LARGE, Driver, Member, StableGroup
from .registry import DEAD_GROUP, FORCED_STATE, RECORD_TOO_LARGE, scenario

LEADER = "leader-instance"
FOLLOWER = "follower-instance"


def static_group(driver: Driver, **options: Any) -> tuple[StableGroup, Member, Member]:
    """Makes a Stable group with a static leader and a static follower."""
    group = driver.stable_group(LEADER, FOLLOWER, session_ms=60_000, **options)
    driver.take_records()
    leader, follower = group.members
    assert (leader.group_instance_id, follower.group_instance_id) == (LEADER, FOLLOWER)
    return group, leader, follower


@scenario(29, "StaticFirstMemberJoins")
def static_first_member_joins(driver: Driver) -> None:
    join = driver.join(instance_id=LEADER)
    assert join.is_parked
    driver.advance(3_000)
    assert (join.error, join.response.generation_id) == (Error.NONE, 1)
    assert join.response.member_id.startswith(f"{LEADER}-")
    assert join.response.members[0].group_instance_id == LEADER


@scenario(30, "StaticLeaderRejoinsWithUnknownId")
def static_leader_rejoins(driver: Driver) -> None:
    group, leader, follower = static_group(driver)
    response = driver.join(instance_id=LEADER, session_ms=60_000).response
    new_id = response.member_id
    assert (response.error, response.generation_id, response.skip_assignment) == (Error.NONE, group.generation, True)
    assert response.leader == new_id != leader.member_id
    assert {member.member_id for member in response.members} == {new_id, follower.member_id}
    (record,) = driver.take_records()
    assert record.value is not None
    assert (record.value["generation"], record.value["leader"]) == (group.generation, new_id)
    assignments = {member["member_id"]: member["assignment"] for member in record.value["members"]}
    assert assignments[new_id] == group.assignments()[leader.member_id]
    assert driver.join(leader.member_id, instance_id=LEADER).error is Error.FENCED_INSTANCE_ID
    assert driver.sync(leader.member_id, 1, instance_id=LEADER).error is Error.FENCED_INSTANCE_ID
    assert driver.sync(leader.member_id, 1).error is Error.UNKNOWN_MEMBER_ID
    sync = driver.sync(new_id, group.generation, instance_id=LEADER)
    assert (sync.error, sync.response.assignment) == (Error.NONE, group.assignments()[leader.member_id])
    assert driver.state() == "Stable"


@scenario(31, "StaticLeaderRejoinsBelowSkipAssignment")
def static_leader_rejoins_below_skip_assignment(driver: Driver) -> None:
    group, leader, _ = static_group(driver)
    response = driver.join(instance_id=LEADER, session_ms=60_000, api_version=8).response
    assert (response.error, response.generation_id, response.skip_assignment) == (Error.NONE, group.generation, False)
    assert (response.leader, response.members) == (leader.member_id, ())
    assert response.member_id != leader.member_id
    assert driver.state() == "Stable"


@scenario(32, "StaticFollowerRejoinsWithUnknownId")
def static_follower_rejoins(driver: Driver) -> None:
    group, leader, follower = static_group(driver)
    response = driver.join(instance_id=FOLLOWER, session_ms=60_000).response
    assert (response.error, response.generation_id, response.skip_assignment) == (Error.NONE, group.generation, False)
    assert (response.leader, response.members) == (leader.member_id, ())
    assert len(driver.take_records()) == 1
    assert driver.state() == "Stable"
    assert driver.member_ids() == {leader.member_id, response.member_id} != {leader.member_id, follower.member_id}


@scenario(33, "StaticFollowerRejoinChangesSelectedProtocol")
def static_rejoin_changes_selected_protocol(driver: Driver) -> None:
    static_group(driver, protocols=RANGE_AND_ROUNDROBIN)
    # One vote each: the tie goes to the first name in HashMap order, which is range; without it, roundrobin is left.
    kept = driver.join(instance_id=FOLLOWER, session_ms=60_000, protocols=ROUNDROBIN_AND_RANGE)
    assert kept.error is Error.NONE
    assert driver.join(instance_id=FOLLOWER, session_ms=60_000, protocols=ROUNDROBIN_AND_RANGE[:1]).is_parked
    assert driver.state() == "PreparingRebalance"


@scenario(33, "StaticFollowerRejoinAppendFailure", needs=(RECORD_TOO_LARGE,))
def static_rejoin_append_failure(driver: Driver) -> None:
    group, leader, follower = static_group(driver, protocols=RANGE_AND_ROUNDROBIN)
    driver.fail_next_append(Error.MESSAGE_TOO_LARGE)
    too_large = tuple((name, metadata + bytes(TOO_LARGE)) for name, metadata in ROUNDROBIN_AND_RANGE)
    failed = driver.join(instance_id=FOLLOWER, session_ms=60_000, protocols=too_large).response
    assert (failed.error, failed.member_id) == (Error.UNKNOWN_SERVER_ERROR, "")
    assert (failed.generation_id, failed.leader) == (group.generation, leader.member_id)
    assert driver.member_ids() == {leader.member_id, follower.member_id}
    # Its protocols are the old ones again: rejoining with them changes nothing.
    again = driver.join(follower.member_id, instance_id=FOLLOWER, session_ms=60_000, protocols=RANGE_AND_ROUNDROBIN)
    assert again.error is Error.NONE
    assert driver.state() == "Stable"


@scenario(34, "StaticRejoinWithKnownId")
def static_rejoin_with_known_id(driver: Driver) -> None:
    group, leader, follower = static_group(driver)
    again = driver.join(follower.member_id, instance_id=FOLLOWER, session_ms=60_000)
    assert (again.error, again.response.generation_id) == (Error.NONE, group.generation)
    assert driver.state() == "Stable"
    assert driver.take_records() == []
    assert driver.join(leader.member_id, instance_id=LEADER, session_ms=60_000).is_parked
    assert driver.state() == "PreparingRebalance"


@scenario(35, "StaticFollowerRejoinsWithChangedProtocols")
def static_follower_rejoins_with_changed_protocols(driver: Driver) -> None:
    _, _, follower = static_group(driver)
    options: dict[str, Any] = {"instance_id": FOLLOWER, "protocols": RANGE_AND_ROUNDROBIN}
    assert driver.join(follower.member_id, **options).is_parked
    assert driver.state() == "PreparingRebalance"


@scenario(36, "StaticMismatchedMemberId")
def static_mismatched_member_id(driver: Driver) -> None:
    _, leader, _ = static_group(driver)
    assert driver.join(leader.member_id, instance_id=FOLLOWER).error is Error.FENCED_INSTANCE_ID
    assert driver.join(leader.member_id, instance_id="unknown").error is Error.UNKNOWN_MEMBER_ID
    assert driver.state() == "Stable"


@scenario(37, "StaticReplaceInCompletingRebalance")
def static_replace_in_completing_rebalance(driver: Driver) -> None:
    group = driver.completing_group(LEADER, FOLLOWER, "third-instance")
    old, other = group.members[1:]
    of_old = driver.sync(old.member_id, group.generation, instance_id=old.group_instance_id)
    of_other = driver.sync(other.member_id, group.generation, instance_id=other.group_instance_id)
    assert of_old.is_parked
    assert driver.join(instance_id=old.group_instance_id).is_parked
    assert of_old.error is Error.FENCED_INSTANCE_ID
    assert of_other.error is Error.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


@scenario(38, "StaticRejoinInEmptyGroup")
def static_rejoin_in_empty_group(driver: Driver) -> None:
    _, leader, follower = static_group(driver)
    driver.leave(leader, follower)
    assert driver.state() == "Empty"
    assert driver.join(leader.member_id, instance_id=LEADER).error is Error.UNKNOWN_MEMBER_ID


@scenario(38, "StaticReplaceInEmptyGroupWithMembers", needs=(FORCED_STATE,))
def static_replace_in_empty_group_with_members(driver: Driver) -> None:
    static_group(driver)
    driver.force_state("PreparingRebalance", "Empty")
    assert driver.join(instance_id=FOLLOWER).error is Error.UNKNOWN_SERVER_ERROR


@scenario(38, "StaticRejoinInDeadGroup", needs=(DEAD_GROUP,))
def static_rejoin_in_dead_group(driver: Driver) -> None:
    _, _, follower = static_group(driver)
    driver.force_state("Dead")
    assert driver.join(instance_id=FOLLOWER).error is Error.COORDINATOR_NOT_AVAILABLE
    known = driver.join(follower.member_id, instance_id=FOLLOWER)
    assert known.error is Error.COORDINATOR_NOT_AVAILABLE


@scenario(39, "StaticFollowerFailsToRejoin")
def static_follower_fails_to_rejoin(driver: Driver) -> None:
    group, leader, follower = static_group(driver)
    third = driver.join_with_new_id(session_ms=60_000)
    driver.advance(10_000)
    # Neither static member has rejoined: the newcomer leads, and the two stay members.
    assert (third.error, third.response.generation_id) == (Error.NONE, group.generation + 1)
    assert third.response.leader == third.response.member_id
    everybody = {leader.member_id, follower.member_id, third.response.member_id}
    assert {member.member_id for member in third.response.members} == everybody
    assert driver.member_ids() == everybody


@scenario(40, "GroupStuckWithStaticLeader")
def group_stuck_with_static_leader(driver: Driver) -> None:
    group = driver.stable_group(LEADER, None, session_ms=60_000)
    static, dynamic = sorted(group.members, key=lambda member: member.group_instance_id is None)
    waiting = driver.join_with_new_id(session_ms=60_000)
    assert driver.leave(Member(waiting.request.member_id)).members[0].error is Error.NONE
    assert (waiting.error, waiting.response.member_id) == (Error.UNKNOWN_MEMBER_ID, "")
    driver.advance(10_000)
    # The dynamic member is purged, nobody has joined: the group waits for its static member, again and again.
    assert driver.member_ids() == {static.member_id}
    assert driver.state() == "PreparingRebalance"
    driver.advance(10_000)
    assert driver.state() == "PreparingRebalance"
    instance_id = static.group_instance_id
    error = driver.heartbeat(static.member_id, group.generation, instance_id=instance_id)
    assert error is Error.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(dynamic.member_id, group.generation) is Error.UNKNOWN_MEMBER_ID
