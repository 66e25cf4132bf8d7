"""Handles SyncGroup, Heartbeat and LeaveGroup, the requests of a member between its joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.errors import response_error_of_failed_append
from groupledger.coordinator.model.groups.classic.group import Group, Member
from groupledger.coordinator.model.groups.classic.records import new_group_metadata_record
from groupledger.coordinator.model.groups.classic.states import Event, State
from groupledger.coordinator.model.handlers.classic.rebalance import (
    SESSION_TIMER,
    SYNC_TIMER,
    maybe_complete_join_phase,
    prepare_rebalance,
    reset_and_propagate_assignment_with_error,
    reset_session,
    set_and_propagate_assignment,
)
from groupledger.coordinator.model.log_lines import Reason
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
    refusal,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import NOT_PROVIDED

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.classic.group import Member
    from groupledger.coordinator.model.operation import Operation

_BATCH_LEAVE_SINCE = 3


def sync_group(request: SyncGroupRequest, operation: Operation) -> None:
    group = operation.group(request.group_id, Group)
    if group is None or group.state is State.EMPTY:
        error = Error.UNKNOWN_MEMBER_ID
    else:
        error = _validate(group, request, "sync-group", operation) or _validate_phase(group, request)
    if group is None or error is not Error.NONE:
        operation.responses.append(SyncGroupResponse(request.request_id, error=error))
        return
    member = group.members[request.member_id]
    group.pending_sync_members.pop(member.member_id)
    if not group.pending_sync_members:
        operation.cancel_timer(SYNC_TIMER, group.group_id)
    member.awaiting_sync = request.request_id
    if group.state is State.STABLE:
        group.complete_sync(member, operation)
    elif member.member_id == group.leader_id:
        _receive_assignment(group, member, dict(request.assignments), operation)


def _validate(group: Group, request: SyncGroupRequest | HeartbeatRequest, api: str, operation: Operation) -> Error:
    if group.state is State.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id, api, operation)
    if error is Error.NONE and request.generation_id != group.generation_id:
        error = Error.ILLEGAL_GENERATION
    return error


def _validate_phase(group: Group, request: SyncGroupRequest) -> Error:
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS
    return Error.NONE


def _differs(of_request: str | None, of_group: str | None) -> bool:
    return of_request is not None and of_group is not None and of_request != of_group


def _receive_assignment(group: Group, leader: Member, assignments: dict[str, bytes], operation: Operation) -> None:
    """Appends the leader's assignment. Once it is in the log, the rebalance is over."""
    operation.log(
        "assignment_received",
        member_id=leader.member_id,
        group_id=group.group_id,
        generation=group.generation_id,
        member_count=len(group.members),
        static_member_count=len(group.static_members),
    )
    missing = hash_map_order(member_id for member_id in group.members if member_id not in assignments)
    if missing:
        assignments |= dict.fromkeys(missing, b"")
        printed = ", ".join(f"{member_id}=[B@0" for member_id in missing)
        operation.log(
            "empty_assignments_set",
            members=f"{{{printed}}}",
            group_id=group.group_id,
            generation=group.generation_id,
        )

    def after_append(error: Error) -> None:
        if error is Error.NONE:
            set_and_propagate_assignment(group, assignments, operation)
            group.apply(Event.ASSIGNMENT_STORED, operation.now_ms)
            return
        response_error = response_error_of_failed_append(error)
        reset_and_propagate_assignment_with_error(group, response_error, operation)
        fields = {"error": response_error.name, "member_id": leader.member_id}
        prepare_rebalance(group, Reason("assignment_not_stored", fields), operation)

    operation.append(new_group_metadata_record(group, assignments), after_append)


def heartbeat(request: HeartbeatRequest, operation: Operation) -> None:
    group = operation.group(request.group_id, Group)
    error = Error.UNKNOWN_MEMBER_ID
    if group is not None:
        error = _validate(group, request, "heartbeat", operation)
        if error is Error.NONE and group.state is State.EMPTY:
            error = Error.UNKNOWN_MEMBER_ID
        elif error is Error.NONE:
            reset_session(group, group.members[request.member_id], operation)
            if group.state is State.PREPARING_REBALANCE:
                error = Error.REBALANCE_IN_PROGRESS
    operation.responses.append(HeartbeatResponse(request.request_id, error))


def leave_group(request: LeaveGroupRequest, operation: Operation) -> None:
    """Removes the named members one by one, and then starts one rebalance for all that were removed.

    Before API version 3 a request names one member, and that member's error is the error of the response.
    """
    group = operation.group(request.group_id, Group)
    if group is not None and group.state is State.DEAD:
        operation.response = refusal(request, Error.COORDINATOR_NOT_AVAILABLE)
        return
    left = []
    for leaving in request.members:
        error = Error.UNKNOWN_MEMBER_ID if group is None else _leave(group, leaving, operation)
        left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
    if request.api_version < _BATCH_LEAVE_SINCE:
        operation.response = refusal(request, left[0].error)
    else:
        operation.response = LeaveGroupResponse(request.request_id, Error.NONE, tuple(left))
    gone = [member.member_id for member in left if member.error is Error.NONE]
    if group is None or not gone:
        return
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        reason = Reason("members_left", {"member_ids": ", ".join(gone)})
        prepare_rebalance(group, reason, operation)
    else:
        maybe_complete_join_phase(group, operation)


def _leave(group: Group, leaving: LeavingMember, operation: Operation) -> Error:
    """Removes one member, and returns its error. An administrator names an instance id and no member id."""
    member_id: str | None = leaving.member_id
    reason = NOT_PROVIDED if leaving.reason is None else leaving.reason
    kind = "member_left"
    if not member_id:
        instance_id = leaving.group_instance_id
        member_id = None if instance_id is None else group.static_members.get(instance_id)
        if member_id is None:
            return Error.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_join_members:
        kind = "pending_member_left"
    else:
        error = group.validate_member(member_id, leaving.group_instance_id, "leave-group", operation)
        if error is not Error.NONE:
            return error
    operation.cancel_timer(SESSION_TIMER, group.group_id, member_id)
    operation.log(kind, group_id=group.group_id, member_id=member_id, client_reason=reason)
    member = group.members.get(member_id)
    if member is not None:
        group.complete_join(member, operation, error=Error.UNKNOWN_MEMBER_ID, member_id="")
    group.remove(member_id)
    return Error.NONE
