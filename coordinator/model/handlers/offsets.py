"""Handles OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, and removes offsets without a request (expiry,
deleted topics).

The broker checks which member commits, and never checks the offset: it may be lower than the last, negative, or past
the end of the log. Anybody may commit to a group without members. The first commit to a group that does not exist
creates a *simple* group, which has no record of its own. Functions here decide and collect records; the offset store
changes when these are applied.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import signed64, utf16_length
from groupledger.coordinator.model.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.handlers.classic.rebalance import reset_session
from groupledger.coordinator.model.handlers.offset_records import (
    NO_EXPIRY,
    new_offset_commit_record,
    new_offset_commit_tombstone_record,
)
from groupledger.coordinator.model.messages import (
    NO_RETENTION_TIME,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetToCommit,
    PartitionResult,
    TxnOffsetCommitRequest,
    refusal,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.offset_store import OffsetStore
    from groupledger.coordinator.model.operation import Operation

_GROUP_ID_NOT_FOUND_SINCE = 9
_NO_TIMESTAMP = -1

# Committing


def commit_offsets(request: OffsetCommitRequest, operation: Operation) -> None:
    group = operation.group(request.group_id, Group)
    error = Error.NONE
    if group is not None:
        error = _validate_commit(group, request, operation, is_transactional=False)
        if error is Error.NONE and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            reset_session(group, group.members[request.member_id], operation)
    elif request.generation_id < 0:
        operation.log("simple_group_created", group_id=request.group_id)
        operation.create_group(Group(group_id=request.group_id, current_state_timestamp_ms=operation.now_ms))
    elif request.api_version >= _GROUP_ID_NOT_FOUND_SINCE:
        error = Error.GROUP_ID_NOT_FOUND
    else:
        error = Error.ILLEGAL_GENERATION
    write_offsets(request, error, expiry_of(request, operation), operation)


def expiry_of(request: OffsetCommitRequest, operation: Operation) -> int:
    if request.retention_time_ms == NO_RETENTION_TIME:
        return NO_EXPIRY
    return signed64(operation.now_ms + request.retention_time_ms)  # Java's sum of two longs


def commit_transactional_offsets(request: TxnOffsetCommitRequest, operation: Operation) -> None:
    """Stores offsets that stay pending until their transaction ends. Sessions and rebalances are not affected."""
    group = operation.group(request.group_id, Group)
    error = Error.NONE
    if group is not None:
        error = _validate_commit(group, request, operation, is_transactional=True)
    elif request.generation_id < 0:
        operation.create_group(Group(group_id=request.group_id, current_state_timestamp_ms=operation.now_ms))
    else:
        error = Error.ILLEGAL_GENERATION
    operation.producer_id = request.producer_id
    operation.producer_epoch = request.producer_epoch
    write_offsets(request, error, NO_EXPIRY, operation)


def _validate_commit(
    group: Group, request: OffsetCommitRequest | TxnOffsetCommitRequest, operation: Operation, *, is_transactional: bool
) -> Error:
    if group.state is State.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    if request.generation_id < 0 and group.state is State.EMPTY:
        return Error.NONE
    error = Error.NONE
    if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        api = "offset-commit" if is_transactional else "txn-offset-commit"  # swapped, as the broker has it
        error = group.validate_member(request.member_id, request.group_instance_id, api, operation)
        if error is Error.NONE and request.generation_id != group.generation_id:
            error = Error.ILLEGAL_GENERATION
    elif not is_transactional:
        error = Error.UNKNOWN_MEMBER_ID
    if error is Error.NONE and not is_transactional and group.state is State.COMPLETING_REBALANCE:
        error = Error.REBALANCE_IN_PROGRESS
    return error


def write_offsets(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, error: Error, expire_timestamp_ms: int, operation: Operation
) -> None:
    """Writes a record for each partition whose metadata is not too large, and sets the response. If `error` is not
    NONE, it refuses the whole request with it instead."""
    if error is not Error.NONE:
        operation.response = refusal(request, error)
        return
    results = []
    for offset in request.offsets:
        error = Error.NONE
        if is_too_large(offset, operation):
            error = Error.OFFSET_METADATA_TOO_LARGE
        else:
            named = with_topic_id(offset, operation)
            record = new_offset_commit_record(request.group_id, named, operation.now_ms, expire_timestamp_ms)
            operation.records.append(record)
        results.append(PartitionResult(offset.topic, offset.partition, error))
    operation.response = OffsetCommitResponse(request.request_id, tuple(results))


def is_too_large(offset: OffsetToCommit, operation: Operation) -> bool:
    return utf16_length(offset.metadata or "") > operation.config.offset_metadata_max_bytes


def with_topic_id(offset: OffsetToCommit, operation: Operation) -> OffsetToCommit:
    """Returns an offset with the id of its topic. A 4.4 broker writes the id even if the client did not name it; for a
    4.2 broker the offset stays as it is."""
    topic = operation.topics.get(offset.topic) if operation.config.is_4_4 else None
    return offset if topic is None else replace(offset, topic_id=topic.topic_id)


def takeable(request: OffsetCommitRequest | TxnOffsetCommitRequest, operation: Operation) -> list[OffsetToCommit]:
    """Returns the offsets whose metadata is short enough. A broker checks only for these whether the member may
    commit."""
    return [offset for offset in request.offsets if not is_too_large(offset, operation)]


# Reading


def fetch_offsets(
    request: OffsetFetchGroup, offsets: OffsetStore, *, is_known: bool, require_stable: bool
) -> FetchedGroup:
    """Returns the committed offsets of a group. If the group is not known, no partition has one. `require_stable`
    refuses partitions that have a pending offset."""
    group_id = request.group_id
    partitions: Iterable[TopicPartition] = request.partitions or ()
    if request.partitions is None and is_known:
        partitions = [TopicPartition(topic, number) for topic, number, _ in offsets.committed.of_group(group_id)]
    fetched = []
    for topic, partition in partitions:
        offset = offsets.committed.get(group_id, topic, partition) if is_known else None
        if require_stable and offsets.has_pending(group_id, topic, partition):
            one = FetchedOffset(topic=topic, partition=partition, error=Error.UNSTABLE_OFFSET_COMMIT)
        elif offset is None:
            one = FetchedOffset(topic=topic, partition=partition)
        else:
            value = offset.value
            one = FetchedOffset(
                topic=topic,
                partition=partition,
                offset=value["offset"],
                leader_epoch=value["leader_epoch"],
                metadata=value["metadata"],
            )
        fetched.append(one)
    return FetchedGroup(group_id, Error.NONE, tuple(fetched))


# Deleting


def delete_offsets(request: OffsetDeleteRequest, operation: Operation) -> None:
    """Writes tombstones for a classic group's offsets of the named partitions, except for topics to which its members
    subscribe. Refuses the request if the group is missing, or has members that are not consumers."""
    group = operation.group(request.group_id, Group)
    if group is None or group.state is State.DEAD:
        operation.response = refusal(request, Error.GROUP_ID_NOT_FOUND)
        return
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        operation.response = refusal(request, Error.NON_EMPTY_GROUP)
        return
    delete_unsubscribed(request, group, operation)


def delete_unsubscribed(
    request: OffsetDeleteRequest, group: Group | ConsumerGroup | StreamsGroup, operation: Operation
) -> None:
    """Writes tombstones for a group's offsets of the named partitions, except for topics to which its members
    subscribe."""
    results = []
    for topic, partition in request.partitions:
        key = (request.group_id, topic, partition)
        error = Error.NONE
        if group.is_subscribed_to_topic(topic):
            error = Error.GROUP_SUBSCRIBED_TO_TOPIC
        elif operation.offsets.committed.get(*key) is not None or operation.offsets.has_pending(*key):
            operation.records.append(new_offset_commit_tombstone_record(*key))
        results.append(PartitionResult(topic, partition, error))
    operation.response = OffsetDeleteResponse(request.request_id, Error.NONE, tuple(results))


def delete_all_offsets(group_id: str, operation: Operation) -> int:
    """Writes tombstones for all offsets of a group, first for the committed ones, then for those that are only pending.
    Returns the number of tombstones."""
    committed = operation.offsets.committed
    keys = [(group_id, topic, partition) for topic, partition, _ in committed.of_group(group_id)]
    for topic, partition, _ in operation.offsets.open_transactions.of_group(group_id):
        if committed.get(group_id, topic, partition) is None:
            keys.append((group_id, topic, partition))
    operation.records.extend(new_offset_commit_tombstone_record(*key) for key in keys)
    return len(keys)


def delete_offsets_of_partitions(partitions: tuple[TopicPartition, ...], operation: Operation) -> None:
    """Writes tombstones for the offsets of these partitions in every group, because their topics were deleted."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    for offsets in (operation.offsets.committed, *operation.offsets.pending.values()):
        for group_id, topics in offsets.groups.items():
            for topic, found in topics.items():
                operation.records.extend(
                    new_offset_commit_tombstone_record(group_id, topic, partition)
                    for partition in by_topic.get(topic, ())
                    if partition in found
                )
    printed = [str(partition) for partition in partitions]
    operation.log("partitions_deleted", tombstone_count=len(operation.records), partitions=printed)


# Expiring


def expire_groups(operation: Operation) -> None:
    """Writes tombstones for expired offsets, and for Empty groups that have no offset left."""
    for group in operation.groups.values():
        if isinstance(group, ShareGroup):
            continue  # it has no offsets, and never expires
        if _expire_offsets(group.group_id, partial(_is_over, group), operation) and group.is_empty:
            operation.records += group.tombstones()
    if operation.records:
        operation.log("tombstones_generated", tombstone_count=len(operation.records))


def _is_over(
    group: Group | ConsumerGroup | StreamsGroup, topic: str, offset: Mapping[str, Any], now_ms: int, config: Config
) -> bool:
    if group.is_subscribed_to_topic(topic):
        return False
    if isinstance(group, Group):
        return is_expired(group, offset, now_ms, config)
    return _has_outlived(offset, offset["commit_timestamp_ms"], now_ms, config)


def _expire_offsets(group_id: str, is_over: Callable[..., bool], operation: Operation) -> bool:
    """Writes tombstones for a group's expired offsets. Returns whether none is left, not even a pending one."""
    offsets = operation.offsets
    are_all_expired = True
    for topic, partition, offset in offsets.committed.of_group(group_id):
        is_pending = offsets.has_pending(group_id, topic, partition)
        if not is_pending and is_over(topic, offset.value, operation.now_ms, operation.config):
            operation.records.append(new_offset_commit_tombstone_record(group_id, topic, partition))
        else:
            are_all_expired = False
    return are_all_expired and group_id not in offsets.open_transactions.groups


def is_expired(group: Group, offset: Mapping[str, Any], now_ms: int, config: Config) -> bool:
    """Returns whether an offset of a classic group has expired. The caller has checked that no member subscribes to its
    topic.

    The retention begins at the commit, or in an Empty group when the group became Empty. A group with members keeps its
    offsets, unless it is a Stable group of consumers. An expiry in the record itself replaces the retention.
    """
    base_ms: int = offset["commit_timestamp_ms"]
    if group.protocol_type is not None:
        if group.state is State.EMPTY:
            if group.current_state_timestamp_ms != _NO_TIMESTAMP:
                base_ms = group.current_state_timestamp_ms
        elif group.state is not State.STABLE or group.subscribed_topics is None:
            return False  # subscribed_topics is known of consumers only
    return _has_outlived(offset, base_ms, now_ms, config)


def _has_outlived(offset: Mapping[str, Any], base_ms: int, now_ms: int, config: Config) -> bool:
    expire_timestamp_ms: int = offset["expire_timestamp_ms"]
    if expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= expire_timestamp_ms
    return now_ms - base_ms >= config.offsets_retention_ms
