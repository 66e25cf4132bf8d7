"""Plays scenarios 1 to 18: members join a group, and too many want to join it."""

from typing import Any

from groupledger.schemas.kafka.errors import Error

from .driver import TOO_LARGE, Driver
from .registry import APPEND_FAILURE, DEAD_GROUP, FAILOVER, LONG_WAIT, RECORD_TOO_LARGE, scenario

STICKY = (("sticky", b""),)


@scenario(1, "UnknownMemberNewGroup")
def unknown_member_new_group(driver: Driver) -> None:
    assert driver.join("x").error is Error.UNKNOWN_MEMBER_ID
    assert driver.take_records() == []


@scenario(2, "NewClassicGroup")
def new_classic_group(driver: Driver) -> None:
    join = driver.join()
    assert join.error is Error.MEMBER_ID_REQUIRED
    assert join.response.member_id.startswith("client-")
    (record,) = driver.take_records()
    assert record.key == {"group_id": driver.group_id}
    assert record.value_version == 3
    assert record.value is not None
    birth = {"generation": 0, "protocol_type": "", "protocol": None, "leader": None, "members": []}
    assert record.value == {**birth, "current_state_timestamp_ms": record.value["current_state_timestamp_ms"]}


@scenario(2, "NewClassicGroupAppendFailure", needs=(APPEND_FAILURE,))
def new_classic_group_append_failure(driver: Driver) -> None:
    driver.fail_next_append(Error.NOT_LEADER_OR_FOLLOWER)
    assert driver.join(api_version=3).error is Error.NOT_COORDINATOR
    assert driver.state() == "Dead"
    # The id has been given out before the append fails; the group that knew it is gone.
    driver.fail_next_append(Error.NOT_LEADER_OR_FOLLOWER)
    required = driver.join()
    assert required.error is Error.MEMBER_ID_REQUIRED
    assert driver.join(required.response.member_id).error is Error.UNKNOWN_MEMBER_ID
    assert driver.take_records() == []


@scenario(2, "NewClassicGroupRecordTooLarge", needs=(RECORD_TOO_LARGE,))
def new_classic_group_record_too_large(driver: Driver) -> None:
    group_id = f"{driver.group_id}-{'x' * TOO_LARGE}"
    driver.fail_next_append(Error.MESSAGE_TOO_LARGE)
    assert driver.join(group_id=group_id, api_version=3).error is Error.UNKNOWN_SERVER_ERROR
    driver.fail_next_append(Error.MESSAGE_TOO_LARGE)
    required = driver.join(group_id=group_id)
    assert required.error is Error.MEMBER_ID_REQUIRED
    assert driver.join(required.response.member_id, group_id=group_id).error is Error.UNKNOWN_MEMBER_ID
    assert driver.take_records() == []


@scenario(3, "InconsistentProtocolType")
def inconsistent_protocol_type(driver: Driver) -> None:
    driver.join_with_new_id()
    assert driver.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL


@scenario(4, "EmptyProtocolType")
def empty_protocol_type(driver: Driver) -> None:
    assert driver.join(protocol_type="").error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join(protocols=(), group_id=driver.other_group_id).error is Error.INCONSISTENT_GROUP_PROTOCOL
    # Refused, but the groups are there: their births are recorded.
    births = {record.key["group_id"] for record in driver.take_records()}
    assert births == {driver.group_id, driver.other_group_id}


@scenario(5, "SecondJoinInconsistentProtocol")
def second_join_inconsistent_protocol(driver: Driver) -> None:
    first = driver.join_with_new_id()
    assert driver.join(protocols=STICKY).error is Error.INCONSISTENT_GROUP_PROTOCOL
    driver.advance(3_000)
    assert first.error is Error.NONE
    assert len(first.response.members) == 1


@scenario(6, "InvalidSessionTimeoutOrGroupId")
def invalid_session_timeout_or_group_id(driver: Driver) -> None:
    assert driver.join(session_ms=9).error is Error.INVALID_SESSION_TIMEOUT
    assert driver.join(session_ms=600_010).error is Error.INVALID_SESSION_TIMEOUT
    refused = driver.join("x", group_id="")
    assert (refused.error, refused.response.member_id) == (Error.INVALID_GROUP_ID, "x")
    assert driver.take_records() == []


@scenario(7, "UnknownConsumerExistingGroup")
def unknown_consumer_existing_group(driver: Driver) -> None:
    driver.join_with_new_id()
    assert driver.join("x").error is Error.UNKNOWN_MEMBER_ID


@scenario(8, "DeadGroup", needs=(DEAD_GROUP,))
def dead_group(driver: Driver) -> None:
    driver.join()
    driver.force_state("Dead")
    assert driver.join().error is Error.COORDINATOR_NOT_AVAILABLE
    assert driver.join("x").error is Error.COORDINATOR_NOT_AVAILABLE


@scenario(9, "ReturnsTheProtocolType")
def returns_the_protocol_type(driver: Driver) -> None:
    first = driver.join_with_new_id()
    refused = driver.join(protocols=STICKY).response
    assert (refused.protocol_type, refused.protocol_name) == (None, None)
    assert (refused.generation_id, refused.leader, refused.members) == (-1, "", ())
    driver.advance(3_000)
    assert (first.response.protocol_type, first.response.protocol_name) == ("consumer", "range")


@scenario(10, "InitialDelayOnEmptyGroup")
def initial_delay_on_empty_group(driver: Driver) -> None:
    join = driver.join_with_new_id()
    driver.advance(2_999)
    assert join.is_parked
    assert driver.state() == "PreparingRebalance"
    driver.advance(1)
    assert join.response.generation_id == 1
    assert driver.state() == "CompletingRebalance"


@scenario(11, "ResetDelayWhenNewMemberJoins")
def reset_delay_when_new_member_joins(driver: Driver) -> None:
    first = driver.join_with_new_id(rebalance_ms=9_000)
    driver.advance(2_999)
    second = driver.join_with_new_id(rebalance_ms=9_000)
    driver.advance(1_502)
    assert first.is_parked
    assert second.is_parked
    driver.advance(1_500)
    assert (first.error, second.error) == (Error.NONE, Error.NONE)


@scenario(12, "DelayUptoRebalanceTimeout")
def delay_up_to_rebalance_timeout(driver: Driver) -> None:
    joins = [driver.join_with_new_id(rebalance_ms=6_000)]
    for _ in range(5):
        driver.advance(1_000)
        joins.append(driver.join_with_new_id(rebalance_ms=6_000))
    driver.advance(999)
    assert all(join.is_parked for join in joins)
    driver.advance(1)
    assert [join.error for join in joins] == [Error.NONE] * 6


@scenario(13, "HeartbeatExpirationRemovesPendingMember")
def heartbeat_expiration_removes_pending_member(driver: Driver) -> None:
    member_id = driver.join(session_ms=1_000).response.member_id
    driver.take_records()
    driver.advance(1_500)  # nothing shows that it has expired, so a driver in real time waits a little longer
    assert driver.take_records() == []
    assert driver.join(member_id).error is Error.UNKNOWN_MEMBER_ID


@scenario(14, "NewMemberJoinExpiration", needs=(LONG_WAIT,))
def new_member_join_expiration(driver: Driver) -> None:
    timeouts = {"session_ms": 305_000, "rebalance_ms": 310_000}
    group = driver.stable_group(None, **timeouts)
    second = driver.join_with_new_id(**timeouts)
    driver.advance(299_999)
    assert second.is_parked
    driver.advance(1)
    assert (second.error, second.response.member_id) == (Error.UNKNOWN_MEMBER_ID, "")
    assert driver.member_ids() == {group.leader.member_id}


@scenario(15, "GroupOverMaxSize", group_max_size=10)
def group_over_max_size(driver: Driver) -> None:
    joins = [driver.join(api_version=3) for _ in range(10)]
    refused = driver.join(api_version=3)
    assert (refused.error, refused.response.member_id) == (Error.GROUP_MAX_SIZE_REACHED, "")
    assert all(join.is_parked for join in joins)


@scenario(16, "DynamicMembersWithMaxSizeAndRequiredMemberId", group_max_size=10)
def dynamic_members_with_max_size(driver: Driver) -> None:
    required = [driver.join(session_ms=60_000) for _ in range(11)]
    assert [join.error for join in required] == [Error.MEMBER_ID_REQUIRED] * 11
    ids = [join.response.member_id for join in required]
    joins = [driver.join(member_id, session_ms=60_000) for member_id in ids]
    assert all(join.is_parked for join in joins[:10])
    assert joins[10].error is Error.GROUP_MAX_SIZE_REACHED
    again = [driver.join(member_id, session_ms=60_000) for member_id in ids[:10]]
    driver.advance(10_000)
    assert [join.error for join in again] == [Error.NONE] * 10


@scenario(17, "LastJoiningMembersAreKickedOut", needs=(FAILOVER,))
def last_joining_members_are_kicked_out(driver: Driver) -> None:
    timeouts: dict[str, Any] = {"session_ms": 60_000, "rebalance_ms": 30_000}
    group = driver.stable_group(*[None] * 12, **timeouts)
    driver.failover(group_max_size=10)
    assert driver.state() == "PreparingRebalance"
    joins = [driver.join(member.member_id, **timeouts) for member in group.members]
    assert all(join.is_parked for join in joins[:10])
    assert [join.error for join in joins[10:]] == [Error.GROUP_MAX_SIZE_REACHED] * 2
    driver.advance(30_000)
    assert [join.error for join in joins[:10]] == [Error.NONE] * 10
    assert driver.state() == "CompletingRebalance"
    assert len(driver.member_ids()) == 10


@scenario(18, "StaticMembersWithMaxSize", group_max_size=10)
def static_members_with_max_size(driver: Driver) -> None:
    joins = [driver.join(instance_id=f"instance-{number}") for number in range(11)]
    assert all(join.is_parked for join in joins[:10])
    assert joins[10].error is Error.GROUP_MAX_SIZE_REACHED
    driver.advance(6_000)
    ids = [join.response.member_id for join in joins[:10]]
    again = [driver.join(member_id, instance_id=f"instance-{number}") for number, member_id in enumerate(ids)]
    assert [join.error for join in again] == [Error.NONE] * 10
    assert driver.join(instance_id="instance-10").error is Error.GROUP_MAX_SIZE_REACHED
    # At full capacity even a member that comes back is refused: with an empty id it is no member.
    assert driver.join(instance_id="instance-0").error is Error.GROUP_MAX_SIZE_REACHED
    assert driver.state() == "CompletingRebalance"
