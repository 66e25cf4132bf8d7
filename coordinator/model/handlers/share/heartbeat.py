"""Handles ShareGroupHeartbeat: how a member joins a share group (KIP-932), moves to its target, and leaves.

One heartbeat writes in this order: the member's subscription and settings, a new epoch of the group if these or the
topics changed or if initialized partitions are unassigned, a new target for that epoch, the member's step to its
target, and which partitions the share coordinator has to initialize. A broker sends its response before they are
initialized. Then another operation writes that they are, and the next heartbeat assigns them to members. When a member
leaves, or its session ends, it is removed and a new epoch begins, whose target the next heartbeat of another member
computes.

The share coordinator itself is not modelled: it initializes and deletes at once, and never fails. A broker's records
for a deleted topic are not modelled either.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.errors import RefusedError
from groupledger.coordinator.model.groups.modern.epochs import LEFT
from groupledger.coordinator.model.groups.modern.topics import metadata_hash
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.share.member import ShareMember
from groupledger.coordinator.model.groups.share.partition_states import PartitionStates
from groupledger.coordinator.model.groups.share.records import (
    new_share_current_record,
    new_share_epoch_record,
    new_share_member_record,
    new_share_states_record,
    new_share_target_record,
)
from groupledger.coordinator.model.groups.share.simple import ShareSubscriber, assign_simple
from groupledger.coordinator.model.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.share.partition_states import ByTopic
    from groupledger.coordinator.model.operation import Operation
    from groupledger.coordinator.model.partitions import Partitions

SHARE_SESSION_TIMER: Final = "share-session"


def heartbeat_of_share(request: ShareGroupHeartbeatRequest, operation: Operation) -> None:
    try:
        operation.response = (_leave if request.member_epoch == LEFT else _heartbeat)(request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = ShareGroupHeartbeatResponse(request.request_id, error=refused.error)


def refusal_of_invalid_share(request: ShareGroupHeartbeatRequest, _: Config) -> Error:
    """Returns the error with which a request is refused before any group is read, or NONE if it is valid."""
    names = request.member_id, request.group_id, request.rack_id
    wrong = (
        any(text is not None and not text.strip() for text in names),
        request.member_epoch == 0 and not request.subscribed_topic_names,
        request.member_epoch < LEFT,
    )
    return Error.INVALID_REQUEST if any(wrong) else Error.NONE


# A member that is or will be there


def _heartbeat(request: ShareGroupHeartbeatRequest, operation: Operation) -> ShareGroupHeartbeatResponse:
    group = _group(request, operation)
    if len(group.members) >= operation.config.group_share_max_size and request.member_id not in group.members:
        raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)
    before = _member(group, request)
    member = _with_requested_fields(before, request)
    if member != before:
        operation.records.append(new_share_member_record(group.group_id, member))
    topics = group.topics_with(member)
    found = metadata_hash(topics, operation.topics)
    config = operation.config
    # Since 4.4 what is not given yet waits for the target that is due anyway.
    has_ungiven = group.has_ungiven() and not (config.is_4_4 and group.target_epoch < group.epoch)
    is_new_epoch = member.topics != before.topics or has_ungiven or found != group.metadata_hash
    epoch = group.epoch + is_new_epoch
    if is_new_epoch:
        operation.records.append(new_share_epoch_record(group.group_id, epoch, found))
    target_epoch, target = group.target_epoch, group.target.get(member.member_id, {})
    may_assign = config.may_assign(group.targeted_at_ms, config.group_share_assignment_interval_ms, operation.now_ms)
    if epoch > group.target_epoch and may_assign:
        target_epoch, target = epoch, _new_target(group, member, epoch, operation)
    if is_new_epoch or member.epoch != target_epoch:
        member = _reconciled(group, member, target_epoch, target, operation)
    operation.set_timer(
        SHARE_SESSION_TIMER, group.group_id, operation.config.group_share_session_timeout_ms, member.member_id
    )
    _initialize(group, topics, operation)
    sends_assignment = request.member_epoch == 0 or request.subscribed_topic_names is not None
    return ShareGroupHeartbeatResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=operation.config.group_share_heartbeat_interval_ms,
        assignment=member.assigned if sends_assignment or member.assigned != before.assigned else None,
    )


def _group(request: ShareGroupHeartbeatRequest, operation: Operation) -> ShareGroup:
    """Returns the group, which the first member makes. Not even an empty group of another type becomes one."""
    group = operation.groups.get(request.group_id)
    if isinstance(group, ShareGroup):
        return group
    if request.member_epoch != 0 or group is not None:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    return ShareGroup(request.group_id, operation.config.first_epoch)


def _member(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """Returns the member at its epoch or the one before; it may also join again at any time."""
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != 0:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        return ShareMember(member_id=request.member_id)
    epoch = request.member_epoch
    if epoch not in (0, member.epoch) and (epoch > member.epoch or epoch != member.previous_epoch):
        raise RefusedError(Error.FENCED_MEMBER_EPOCH)
    return member


def _with_requested_fields(member: ShareMember, request: ShareGroupHeartbeatRequest) -> ShareMember:
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if names is None else frozenset(names),
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _new_target(group: ShareGroup, member: ShareMember, epoch: int, operation: Operation) -> Partitions:
    """Computes a target for all members, writes the changes, and returns the target of the requesting member."""
    known = group.members
    if member.member_id not in known:
        # A broker puts a new member among the others before anything is written.
        known = known.copied()
        known.put(member.member_id, member)
    members = {each.member_id: each for each in known.values()}
    members[member.member_id] = member
    subscribers = {
        name: ShareSubscriber(_topic_ids(each, operation), group.target.get(name, {})) for name, each in members.items()
    }
    initialized = {} if group.states is None else group.states.initialized
    counts = {topic.topic_id: topic.partition_count for topic in operation.topics.values()}
    assignable = {
        topic: [number for number in each.partitions if number < counts[topic]]
        for topic, each in initialized.items()
        if topic in counts
    }
    is_equal = len({each.topics for each in members.values()}) <= 1
    found = assign_simple(subscribers, assignable, is_equal=is_equal)
    for name in hash_map_order(members):
        if found.get(name, {}) != group.target.get(name):
            operation.records.append(new_share_target_record(group.group_id, name, found.get(name, {})))
    targeted_at_ms = operation.now_ms if operation.config.is_4_4 else 0
    operation.records.append(group.new_target_epoch_record(epoch, targeted_at_ms))
    return found.get(member.member_id, {})


def _topic_ids(member: ShareMember, operation: Operation) -> tuple[str, ...]:
    order = hash_map_order(sorted(member.topics), expected_size=len(member.topics))
    return tuple(operation.topics[name].topic_id for name in order if name in operation.topics)


def _reconciled(
    group: ShareGroup, member: ShareMember, epoch: int, target: Partitions, operation: Operation
) -> ShareMember:
    """Returns the member at its target, but for topics to which it does not subscribe."""
    topic_ids = _topic_ids(member, operation)
    assigned = {topic: numbers for topic, numbers in target.items() if topic in topic_ids}
    after = replace(member, assigned=assigned)
    if epoch != member.epoch:
        after = replace(after, epoch=epoch, previous_epoch=member.epoch)
    if after != member:
        operation.records.append(new_share_current_record(group.group_id, after))
    return after


# Requests to the share coordinator


def _initialize(group: ShareGroup, topics: frozenset[str], operation: Operation) -> None:
    states = group.states or PartitionStates()
    found = states.to_initialize(
        operation.topics[name] for name in hash_map_order(sorted(topics)) if name in operation.topics
    )
    if found:
        operation.records.append(new_share_states_record(group.group_id, states.with_initializing(found)))
        operation.then = partial(_write_initialized, group.group_id, found)


def _write_initialized(group_id: str, found: ByTopic, _: ShareGroupHeartbeatRequest, operation: Operation) -> None:
    states = operation.require_group(group_id, ShareGroup).states or PartitionStates()
    operation.records.append(new_share_states_record(group_id, states.with_initialized(found)))


# A member that goes


def _leave(request: ShareGroupHeartbeatRequest, operation: Operation) -> ShareGroupHeartbeatResponse:
    group = operation.group(request.group_id, ShareGroup)
    if group is None:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    member = group.members.get(request.member_id)
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    _fence(group, member, operation)
    return ShareGroupHeartbeatResponse(
        request.request_id, error=Error.NONE, member_id=request.member_id, member_epoch=request.member_epoch
    )


def _fence(group: ShareGroup, member: ShareMember, operation: Operation) -> None:
    operation.records += group.member_tombstones(member.member_id)
    found = metadata_hash(group.topics_with(replace(member, topics=frozenset())), operation.topics)
    operation.records.append(new_share_epoch_record(group.group_id, group.epoch + 1, found))
    if operation.config.is_4_4 and len(group.members) == 1:
        operation.records.append(group.new_target_epoch_record(group.epoch + 1))
    operation.cancel_timer(SHARE_SESSION_TIMER, group.group_id, member.member_id)


def expire_share_session(group: ShareGroup, member_id: str, operation: Operation) -> None:
    member = group.members.get(member_id)
    if member is not None:
        _fence(group, member, operation)


def watch_loaded_share(group: ShareGroup, operation: Operation) -> None:
    """Starts the timers of a group that was loaded from its log."""
    for member_id in group.members:
        operation.set_timer(
            SHARE_SESSION_TIMER, group.group_id, operation.config.group_share_session_timeout_ms, member_id
        )
