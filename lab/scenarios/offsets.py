"""Plays scenarios 59 to 65: offset commits, commits in transactions, and the expiry and deletion of offsets."""

from typing import Any

from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

from .driver import Driver
from .registry import DEAD_GROUP, LONG_WAIT, scenario

RETENTION_MS = 10_080 * 60_000


def committed_offset(driver: Driver) -> int:
    groups = (OffsetFetchGroup(driver.group_id, (TopicPartition("orders", 0),)),)
    response = driver.answer(OffsetFetchRequest(driver.next_request_id(), groups))
    offset: int = response.groups[0].partitions[0].offset
    return offset


@scenario(59, "OffsetCommitUnknownGroup")
def offset_commit_unknown_group(driver: Driver) -> None:
    assert driver.commit(member_id="x", generation_id=10, api_version=9) is Error.GROUP_ID_NOT_FOUND
    assert driver.commit(member_id="x", generation_id=10, api_version=8) is Error.ILLEGAL_GENERATION
    assert driver.take_records() == []
    assert driver.commit() is Error.NONE
    (record,) = driver.take_records()
    assert (record.record_type, record.value_version) == ("offset_commit", 4)
    assert driver.state() == "Empty"


@scenario(60, "OffsetCommitByState")
def offset_commit_by_state(driver: Driver) -> None:
    driver.join()
    assert driver.commit(member_id="x", group_instance_id="x") is Error.NONE  # Empty: who commits does not matter
    assert driver.commit(member_id="x", generation_id=0) is Error.UNKNOWN_MEMBER_ID
    driver.advance(6_000)  # the member that was given an id is gone
    group = driver.completing_group("leader-instance", None, session_ms=60_000)
    member, generation = group.leader, group.generation
    refused: dict[str, Any] = {"member_id": member.member_id, "generation_id": generation}
    assert driver.commit(**refused) is Error.REBALANCE_IN_PROGRESS
    assert driver.commit(member_id="x", generation_id=generation) is Error.UNKNOWN_MEMBER_ID
    assert driver.commit(member_id=member.member_id, generation_id=generation + 1) is Error.ILLEGAL_GENERATION
    driver.sync_all(group)
    driver.take_records()
    assert driver.commit() is Error.UNKNOWN_MEMBER_ID
    assert driver.commit(member_id=member.member_id) is Error.ILLEGAL_GENERATION
    dynamic = next(member for member in group.members if member.group_instance_id is None)
    fenced: dict[str, Any] = {"member_id": dynamic.member_id, "generation_id": generation}
    assert driver.commit(**fenced, group_instance_id="leader-instance") is Error.FENCED_INSTANCE_ID
    assert driver.commit(**fenced, group_instance_id="unknown") is Error.UNKNOWN_MEMBER_ID
    assert driver.take_records() == []
    assert driver.commit(offset=7, **refused) is Error.NONE
    driver.join_with_new_id(session_ms=60_000)
    assert driver.state() == "PreparingRebalance"
    assert driver.commit(offset=3, **refused) is Error.NONE
    assert [record.value["offset"] for record in driver.take_records() if record.value] == [7, 3]


@scenario(60, "OffsetCommitDeadGroup", needs=(DEAD_GROUP,))
def offset_commit_dead_group(driver: Driver) -> None:
    driver.join()
    driver.force_state("Dead")
    assert driver.commit() is Error.COORDINATOR_NOT_AVAILABLE
    assert driver.txn_commit(1) is Error.COORDINATOR_NOT_AVAILABLE


@scenario(61, "OffsetCommitMaintainsSession")
def offset_commit_maintains_session(driver: Driver) -> None:
    group = driver.stable_group(None)
    member: dict[str, Any] = {"member_id": group.leader.member_id, "generation_id": group.generation}
    for _ in range(3):
        driver.advance(2_500)
        assert driver.commit(**member) is Error.NONE
    driver.join_with_new_id()
    for _ in range(3):
        driver.advance(2_500)
        assert driver.commit(**member) is Error.NONE
    assert driver.state() == "PreparingRebalance"


@scenario(62, "TxnOffsetCommit")
def txn_offset_commit(driver: Driver) -> None:
    assert driver.txn_commit(1, generation_id=5) is Error.ILLEGAL_GENERATION
    group = driver.completing_group("leader-instance", "follower-instance")
    leader, follower = group.members
    member: dict[str, Any] = {"member_id": leader.member_id, "generation_id": group.generation}
    assert driver.txn_commit(1, **member) is Error.NONE  # no state of the group is in the way
    driver.sync_all(group)
    assert driver.txn_commit(1, **member) is Error.NONE
    assert driver.txn_commit(1, member_id=leader.member_id, generation_id=9) is Error.ILLEGAL_GENERATION
    assert driver.txn_commit(1, member_id="x", generation_id=group.generation) is Error.UNKNOWN_MEMBER_ID
    fenced = driver.txn_commit(1, **member, group_instance_id=follower.group_instance_id)
    assert fenced is Error.FENCED_INSTANCE_ID
    assert driver.txn_commit(1) is Error.NONE


@scenario(62, "TxnMarkersOutOfOrder")
def txn_markers_out_of_order(driver: Driver) -> None:
    assert driver.txn_commit(1, offset=10) is Error.NONE
    assert driver.txn_commit(2, offset=20) is Error.NONE
    assert driver.txn_commit(3, offset=30) is Error.NONE
    assert committed_offset(driver) == -1
    driver.end_transaction(2, committed=True)
    assert committed_offset(driver) == 20
    driver.end_transaction(1, committed=True)  # written before the other: it comes too late to count
    assert committed_offset(driver) == 20
    driver.end_transaction(3, committed=False)
    assert committed_offset(driver) == 20


@scenario(63, "OffsetMetadataTooLarge")
def offset_metadata_too_large(driver: Driver) -> None:
    metadata = ("x" * 4_097, "x" * 4_096, "\U0001f600" * 2_049, None)
    offsets = tuple(
        OffsetToCommit(topic="orders", partition=index, offset=1, metadata=text) for index, text in enumerate(metadata)
    )
    response = driver.answer(OffsetCommitRequest(driver.next_request_id(), driver.group_id, offsets=offsets))
    large = Error.OFFSET_METADATA_TOO_LARGE
    assert [one.error for one in response.partitions] == [large, Error.NONE, large, Error.NONE]
    written = [record.value["metadata"] for record in driver.take_records() if record.value]
    assert written == ["x" * 4_096, ""]


@scenario(64, "DeleteGroup")
def delete_group(driver: Driver) -> None:
    def delete(group_id: str) -> Error:
        response = driver.answer(DeleteGroupsRequest(driver.next_request_id(), (group_id,)))
        error: Error = response.results[0].error
        return error

    assert delete("unknown") is Error.GROUP_ID_NOT_FOUND
    group = driver.stable_group(None)
    member: dict[str, Any] = {"member_id": group.leader.member_id, "generation_id": group.generation}
    assert driver.commit(**member) is Error.NONE
    assert delete(driver.group_id) is Error.NON_EMPTY_GROUP
    driver.leave(group.leader)
    driver.take_records()
    assert delete(driver.group_id) is Error.NONE
    records = driver.take_records()
    assert [(record.record_type, record.value) for record in records] == [
        ("offset_commit", None),
        ("group_metadata", None),
    ]
    assert driver.state() == "Dead"
    assert delete(driver.group_id) is Error.GROUP_ID_NOT_FOUND


@scenario(64, "OffsetDelete")
def offset_delete(driver: Driver) -> None:
    def delete(*topics: str) -> list[Error]:
        partitions = tuple(TopicPartition(topic, 0) for topic in topics)
        response = driver.answer(OffsetDeleteRequest(driver.next_request_id(), driver.group_id, partitions))
        return [response.error, *(one.error for one in response.partitions)]

    assert delete("orders") == [Error.GROUP_ID_NOT_FOUND]
    group = driver.stable_group(None, session_ms=60_000)
    member: dict[str, Any] = {"member_id": group.leader.member_id, "generation_id": group.generation}
    assert driver.commit(**member) is Error.NONE
    driver.take_records()
    assert delete("orders", "other") == [Error.NONE, Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]
    assert driver.take_records() == []
    driver.leave(group.leader)
    driver.take_records()
    assert delete("orders", "other") == [Error.NONE, Error.NONE, Error.NONE]
    (tombstone,) = driver.take_records()
    assert (tombstone.key["topic"], tombstone.value) == ("orders", None)


@scenario(64, "OffsetDeleteAfterUnreadableSubscription")
def offset_delete_after_unreadable_subscription(driver: Driver) -> None:
    group = driver.stable_group(None, session_ms=60_000)
    # A topic without a name makes the broker's reader throw as the next generation begins.
    unreadable = (("range", b"\0\0\0\0\0\1\xff\xff"),)
    again = driver.join(group.leader.member_id, protocols=unreadable, session_ms=60_000)
    assert again.error is Error.UNKNOWN_SERVER_ERROR
    # The members' subscriptions are as they were before.
    partitions = (TopicPartition("orders", 0), TopicPartition("other", 0))
    response = driver.answer(OffsetDeleteRequest(driver.next_request_id(), driver.group_id, partitions))
    assert [one.error for one in response.partitions] == [Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]


@scenario(65, "OffsetsExpire", needs=(LONG_WAIT,))
def offsets_expire(driver: Driver) -> None:
    driver.commit()
    driver.take_records()
    # Nobody has ever joined: retention counts from the commit, and equal is expired.
    driver.advance(RETENTION_MS - 1)
    assert driver.take_records() == []
    driver.advance(1)
    records = driver.take_records()
    assert [(record.record_type, record.value) for record in records] == [
        ("offset_commit", None),
        ("group_metadata", None),
    ]
    assert driver.state() == "Dead"


@scenario(65, "OffsetsExpireAsRequested", offsets_retention_check_interval_ms=60_000)
def offsets_expire_as_requested(driver: Driver) -> None:
    # Up to API 4 a client could say how long its offsets are kept: that counts, whatever the broker's retention.
    offsets = (OffsetToCommit(topic="orders", partition=0, offset=1),)
    retention: dict[str, Any] = {"retention_time_ms": 10_000, "api_version": 2}
    driver.answer(OffsetCommitRequest(driver.next_request_id(), driver.group_id, offsets=offsets, **retention))
    (record,) = driver.take_records()
    assert record.value_version == 1
    driver.advance(60_000)
    records = driver.take_records()
    assert [(record.record_type, record.value) for record in records] == [
        ("offset_commit", None),
        ("group_metadata", None),
    ]
    assert driver.state() == "Dead"
