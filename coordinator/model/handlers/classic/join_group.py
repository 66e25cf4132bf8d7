"""Handles JoinGroup: which members may join, under which id, and whether that starts a rebalance.

Ids: a client joins with an empty id first. A dynamic member on API 4 or later is given an id and asked to come again
with it; until then it is *pending*. An older client, and a static member, is added at once. A static member whose
instance id is known already replaces the old member, under a new id.

The first join with an empty id creates the group, whatever its answer, and a record of the empty group is written. A
join with any other id is refused while there is no group. Source: KIP-394 (member id required), KIP-345 (static
membership), KIP-814 (skipAssignment).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.errors import IllegalStateError, response_error_of_failed_append
from groupledger.coordinator.model.groups.classic.group import Group, Member
from groupledger.coordinator.model.groups.classic.records import (
    new_empty_group_metadata_record,
    new_group_metadata_record,
)
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.handlers.classic.rebalance import (
    SESSION_TIMER,
    maybe_complete_join_phase,
    maybe_prepare_rebalance_or_complete_join,
    prepare_rebalance,
    reset_session,
)
from groupledger.coordinator.model.log_lines import Reason
from groupledger.coordinator.model.messages import JoinGroupRequest, JoinGroupResponse
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import NOT_PROVIDED

if TYPE_CHECKING:
    from groupledger.coordinator.model.operation import Operation

MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


def join_group(request: JoinGroupRequest, operation: Operation) -> None:
    if request.api_version == 0:  # this version has no rebalance timeout
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    group = operation.group(request.group_id, Group)
    if group is None:
        if request.member_id:
            _refuse(request, operation, Error.UNKNOWN_MEMBER_ID, request.member_id)
            return
        group = Group(group_id=request.group_id, current_state_timestamp_ms=operation.now_ms)
        operation.create_group(group)
    if not _has_capacity(group, request.member_id, operation.config.group_max_size):
        group.remove(request.member_id)
        _refuse(request, operation, Error.GROUP_MAX_SIZE_REACHED)
    elif group.state is State.DEAD:
        _refuse(request, operation, Error.COORDINATOR_NOT_AVAILABLE, request.member_id)
    elif not group.supports_protocols(request.protocol_type, request.protocols):
        _refuse(request, operation, Error.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif not request.member_id:
        _join_new_member(group, request, operation)
    else:
        _join_existing_member(group, request, operation)
    if operation.created_group_id is not None:
        _record_creation(group, operation)


def _has_capacity(group: Group, member_id: str, max_size: int) -> bool:
    """Whether this member fits in the group. In PreparingRebalance only members that wait for the join count, so that
    the last ones to rejoin are refused."""
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        is_awaiting = member is not None and member.awaiting_join is not None
        return is_awaiting or group.num_awaiting_join < max_size
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
        return member is not None or len(group.members) < max_size
    return True


def _record_creation(group: Group, operation: Operation) -> None:
    def after_append(error: Error) -> None:
        if error is Error.NONE:
            return
        operation.log("empty_metadata_not_written", group_id=group.group_id, error=error.name)
        response_error = response_error_of_failed_append(error)
        for member in group.members.values():
            group.complete_join(member, operation, error=response_error, member_id="")

    operation.append(new_empty_group_metadata_record(group), after_append)


# New members


def _join_new_member(group: Group, request: JoinGroupRequest, operation: Operation) -> None:
    instance_id = request.group_instance_id
    prefix = request.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{request.new_member_uuid}"
    fields = {"group_id": group.group_id, "state": group.state.value, "member_id": member_id}
    old_member_id = None if instance_id is None else group.static_members.get(instance_id)
    if instance_id is not None:
        fields["group_instance_id"] = instance_id
    if old_member_id is not None:
        operation.log("static_member_replaced", **fields, previous_member_id=old_member_id)
        _replace_static_member(group, request, old_member_id, member_id, operation)
    elif instance_id is not None:
        operation.log("static_member_added", **fields)
        _add_member(group, request, member_id, operation)
    elif request.api_version < MEMBER_ID_REQUIRED_SINCE:
        operation.log("dynamic_member_added", **fields)
        _add_member(group, request, member_id, operation)
    else:
        operation.log("member_id_required", **fields)
        group.pending_join_members.add(member_id)
        operation.set_timer(SESSION_TIMER, group.group_id, request.session_timeout_ms, member_id)
        _refuse(request, operation, Error.MEMBER_ID_REQUIRED, member_id)


def _add_member(group: Group, request: JoinGroupRequest, member_id: str, operation: Operation) -> None:
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        awaiting_join=request.request_id,
        is_new=True,
    )
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    group.add(member)
    # A new member can't heartbeat while its join waits, and its connection is not watched: only this timeout
    # keeps the retries of a vanished client from piling up as members.
    reset_session(group, member, operation, operation.config.new_member_join_timeout_ms)
    reason = _reason("new_member", request, member_id=member_id, group_instance_id=request.group_instance_id)
    maybe_prepare_rebalance_or_complete_join(group, reason, operation)


# Existing members


def _join_existing_member(group: Group, request: JoinGroupRequest, operation: Operation) -> None:
    member_id = request.member_id
    fields = {"member_id": member_id, "group_id": group.group_id, "state": group.state.value}
    if member_id in group.pending_join_members:
        if request.group_instance_id is not None:
            raise IllegalStateError(f"pending member {member_id} joins with an instance id")
        operation.log("pending_member_joins", **fields)
        _add_member(group, request, member_id, operation)
        return
    error = group.validate_member(member_id, request.group_instance_id, "join-group", operation)
    member = group.members.get(member_id)
    if member is None or error is not Error.NONE:
        _refuse(request, operation, error, member_id)
        return
    reason = _rebalance_reason(group, member, request)
    if reason is not None:
        _update_member(group, request, member)
        maybe_prepare_rebalance_or_complete_join(group, reason, operation)
    elif group.state is State.EMPTY:
        operation.log("rejoin_in_unexpected_state", **fields)
        _refuse(request, operation, Error.UNKNOWN_MEMBER_ID, member_id)
    else:
        operation.responses.append(_current_generation(group, request, member))


def _rebalance_reason(group: Group, member: Member, request: JoinGroupRequest) -> Reason | None:
    """Returns why this join must wait for a join phase, or None if the current generation answers it."""
    fields = {"member_id": member.member_id, "state": group.state.value}
    if group.state is State.PREPARING_REBALANCE:
        return _reason("member_joining", request, **fields)
    if group.state is State.STABLE and member.member_id == group.leader_id:
        # The leader may have seen changes that its metadata does not show, such as new partitions.
        return _reason("leader_rejoined", request, **fields)
    if group.state is not State.EMPTY and member.protocols != request.protocols:
        return _reason("metadata_changed", request, **fields)
    return None


def _current_generation(group: Group, request: JoinGroupRequest, member: Member) -> JoinGroupResponse:
    """Returns the current generation as an answer, for a member that has changed nothing or lost its answer."""
    return JoinGroupResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        members=group.joined_members() if member.member_id == group.leader_id else (),
    )


def _update_member(group: Group, request: JoinGroupRequest, member: Member) -> None:
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        awaiting_join=request.request_id,
    )


# Static members that come back under a new id


def _replace_static_member(
    group: Group, request: JoinGroupRequest, old_member_id: str, new_member_id: str, operation: Operation
) -> None:
    old_leader_id = group.leader_id
    member = group.replace_static_member(old_member_id, new_member_id, operation)
    before = replace(member, member_id=old_member_id)
    reset_session(group, member, operation)  # the old id's timer will find no member
    _update_member(group, request, member)
    fields = {"member_id": new_member_id, "group_instance_id": request.group_instance_id}
    if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
        operation.log("static_member_keeps_protocol")
        _persist_replacement(group, request, member, before, old_leader_id, operation)
    elif group.state is State.STABLE:
        prepare_rebalance(group, _reason("static_member_changes_protocol", request, **fields), operation)
    elif group.state is State.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id already: the new id gets partitions by another rebalance only.
        prepare_rebalance(group, _reason("static_member_replaced", request, **fields), operation)
    elif group.state is State.PREPARING_REBALANCE:
        maybe_complete_join_phase(group, operation)
    else:
        raise IllegalStateError(f"{request.group_instance_id} rejoins in {group.state}")


def _persist_replacement(
    group: Group,
    request: JoinGroupRequest,
    member: Member,
    before: Member,
    old_leader_id: str | None,
    operation: Operation,
) -> None:
    """Writes the group's record again without a rebalance, so that a failover knows the member by its new id.

    `before` is the member as it was, under its old id. A client below API 9 does not know skipAssignment: its answer
    names the old leader and no members, so that a restarted leader acts as a follower.
    """

    def after_append(error: Error) -> None:
        response: dict[str, Any] = {
            "error": response_error_of_failed_append(error),
            "generation_id": group.generation_id,
            "protocol_type": group.protocol_type,
            "protocol_name": group.protocol_name,
            "leader": old_leader_id or "",
        }
        if error is not Error.NONE:
            group.complete_join(member, operation, **response, member_id="")
            _restore_static_member(group, member, before, error, operation)
            return
        if request.api_version >= _SKIP_ASSIGNMENT_SINCE:
            is_leader = group.leader_id == member.member_id
            response["leader"] = group.leader_id or ""
            response["skip_assignment"] = is_leader
            response["members"] = group.joined_members() if is_leader else ()
        group.complete_join(member, operation, **response)

    assignments = {member.member_id: member.assignment for member in group.members.values()}
    operation.append(new_group_metadata_record(group, assignments), after_append)


def _restore_static_member(group: Group, member: Member, before: Member, error: Error, operation: Operation) -> None:
    operation.log(
        "static_member_not_persisted",
        group_id=group.group_id,
        member_id=member.member_id,
        group_instance_id=before.group_instance_id,
        error=error.name,
        previous_member_id=before.member_id,
    )
    group.update(
        member,
        before.protocols,
        rebalance_timeout_ms=before.rebalance_timeout_ms,
        session_timeout_ms=before.session_timeout_ms,
        awaiting_join=None,
    )
    restored = group.replace_static_member(member.member_id, before.member_id, operation)
    reset_session(group, restored, operation)


def _refuse(request: JoinGroupRequest, operation: Operation, error: Error, member_id: str = "") -> None:
    operation.responses.append(JoinGroupResponse(request.request_id, error=error, member_id=member_id))


def _reason(kind: str, request: JoinGroupRequest, **fields: str | None) -> Reason:
    return Reason(kind, {**fields, "client_reason": request.reason or NOT_PROVIDED})
