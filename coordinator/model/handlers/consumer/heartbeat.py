"""Handles ConsumerGroupHeartbeat: joining, reconciling and leaving a consumer group of KIP-848.

The first heartbeat that joins an empty classic group ends that group, and the first that joins a classic group with
members makes a consumer group of it (`conversion`). `membership` changes members, and `regexes` resolves their regular
expressions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.model.errors import RefusedError
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.consumer.assignors import ASSIGNORS
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.records import new_current_record, new_member_record
from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
from groupledger.coordinator.model.handlers.consumer.conversion import CLASSIC_TO_CONSUMER, upgrade
from groupledger.coordinator.model.handlers.consumer.epochs import new_epoch
from groupledger.coordinator.model.handlers.consumer.membership import (
    check_size,
    fence,
    new_dynamic_member,
    new_static_member,
    step_to_target,
    take_place,
)
from groupledger.coordinator.model.handlers.consumer.regexes import RegexChange, change_regex
from groupledger.coordinator.model.handlers.consumer.timers import SESSION_TIMER
from groupledger.coordinator.model.handlers.static_members import check_away, member_of_instance
from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from groupledger.coordinator.model.partitions import common, units_of
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.operation import Operation

PROTOCOL: Final = "consumer"  # as the log calls it


def heartbeat_of_consumer(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> None:
    try:
        if request.member_epoch in (LEFT, AWAY):
            operation.response = _leave(request, operation)
        else:
            operation.response = _heartbeat(request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = ConsumerGroupHeartbeatResponse(request.request_id, error=refused.error)


def refusal_of_invalid(request: ConsumerGroupHeartbeatRequest, _: Config) -> Error:
    """Returns the error with which a request is refused before any group is read, or NONE if it is valid."""
    epoch = request.member_epoch
    is_joining = epoch == 0
    wrong = (
        (request.api_version > 0 or epoch > 0 or epoch == LEFT) and not request.member_id.strip(),
        not request.group_id.strip(),
        any(text is not None and not text.strip() for text in (request.instance_id, request.rack_id)),
        is_joining and (request.rebalance_timeout_ms == -1 or request.owned is None or bool(request.owned)),
        is_joining and request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        epoch == AWAY and request.instance_id is None,
        epoch < AWAY,
    )
    if any(wrong):
        return Error.INVALID_REQUEST
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        return Error.UNSUPPORTED_ASSIGNOR
    return Error.NONE


# A member that is or will be there


def _heartbeat(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroupHeartbeatResponse:
    group = _group(request, operation)
    member_id = request.member_id or request.new_member_id
    check_size(group, member_id, request.instance_id, operation)
    before = (_static if request.instance_id else _dynamic)(group, member_id, request, operation)
    member = _with_requested_fields(before, request)
    if member != before:
        operation.records.append(new_member_record(group.group_id, member))
    has_changed = member.topics != before.topics
    regex = change_regex(group, before, member, operation)
    begins_epoch = has_changed or regex is RegexChange.RESOLVED or _changes_assignor(group, before, member, operation)
    epoch = new_epoch(group, member, operation, has_changed=begins_epoch)
    has_changed = has_changed or regex is not RegexChange.NONE
    member = step_to_target(group, before, member, epoch, request.owned, operation, has_changed=has_changed)
    operation.set_timer(SESSION_TIMER, group.group_id, operation.config.group_consumer_session_timeout_ms, member_id)
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.owned is not None
    )
    sends_assignment = request.member_epoch == 0 or is_full or member.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=operation.config.group_consumer_heartbeat_interval_ms,
        assignment=member.assigned if sends_assignment else None,
    )


def _changes_assignor(
    group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, operation: Operation
) -> bool:
    """Whether the group's assignor is another one by the member's vote, which begins an epoch since 4.4."""
    default = operation.config.group_consumer_assignors[0]
    after = group.preferred_assignor(before, member) or default
    return operation.config.is_4_4 and after != (group.preferred_assignor() or default)


def _group(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroup:
    """Returns the group, which the first member makes, also of a classic one."""
    group = operation.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if request.member_epoch != 0:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    if isinstance(group, Group):
        if not group.is_empty:
            return upgrade(group, operation)
        operation.log("empty_group_converted", group_id=request.group_id, **CLASSIC_TO_CONSUMER)
        operation.records += group.tombstones()
    return ConsumerGroup(request.group_id, operation.config.first_epoch)


def _dynamic(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, operation: Operation
) -> ConsumerMember:
    if request.member_epoch == 0:
        return new_dynamic_member(group, member_id, PROTOCOL, operation)
    member = group.members.get(member_id)
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    _check_epoch(member, request)
    return member


def _static(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, operation: Operation
) -> ConsumerMember:
    """Returns the member of an instance id. A joining one replaces a member that is away, or a classic one."""
    instance_id = request.instance_id or ""
    if request.member_epoch != 0:
        known = member_of_instance(group, instance_id, member_id, operation)
        _check_epoch(known, request)
        return known
    member = group.static_member(instance_id)
    if member is None:
        return new_static_member(group, instance_id, member_id, PROTOCOL, operation)
    if member.classic is None:
        check_away(group.group_id, member, member_id, operation)
    return take_place(group, member, member_id, PROTOCOL, operation)


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuses an epoch that is not the member's, but the one before if the member owns nothing beyond its own."""
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    is_retried = epoch < member.epoch and epoch == member.previous_epoch and request.owned is not None
    if not is_retried or common(request.owned or {}, member.assigned) != request.owned:
        raise RefusedError(Error.FENCED_MEMBER_EPOCH)


def _with_requested_fields(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Returns the member with the fields that the request sets; others stay."""
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "assignor": request.server_assignor,
        "topics": None if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
        "regex": request.subscribed_topic_regex,
    }
    said = {name: value for name, value in said.items() if value is not None}
    return replace(member, client_id=request.client_id, client_host=request.client_host, classic=None, **said)


# A member that goes


def _leave(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroupHeartbeatResponse:
    group = operation.group(request.group_id, ConsumerGroup)
    if group is None:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    words = {"group_id": group.group_id, "member_id": request.member_id}
    if request.instance_id is None:
        known = group.members.get(request.member_id)
        if known is None:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        member = known
        operation.log("consumer_member_left", **words)
    else:
        member = member_of_instance(group, request.instance_id, request.member_id, operation)
        kind = "consumer_static_member_paused" if request.member_epoch == AWAY else "consumer_static_member_left"
        operation.log(kind, **words, group_instance_id=request.instance_id)
    if request.member_epoch == AWAY:
        epochs = dict.fromkeys(units_of(member.assigned), 0) if operation.config.is_4_4 else {}
        away = replace(member, epoch=AWAY, pending_revocation={}, epochs=epochs)
        operation.records.append(new_current_record(group.group_id, away))
    else:
        fence(group, [member], operation)
    return ConsumerGroupHeartbeatResponse(
        request.request_id, error=Error.NONE, member_id=request.member_id, member_epoch=request.member_epoch
    )
