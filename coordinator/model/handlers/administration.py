"""Handles DescribeGroups, ListGroups and DeleteGroups, the requests of administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.handlers.offsets import delete_all_offsets
from groupledger.coordinator.model.messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    ListGroupsRequest,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.model.groups.any_group import AnyGroup
    from groupledger.coordinator.model.operation import Operation

_GROUP_ID_NOT_FOUND_SINCE = 6


def describe_group(group: AnyGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """Returns the description of a classic group. If it is missing or of another type, it is described as Dead, since
    API version 6 with the error GROUP_ID_NOT_FOUND."""
    if not isinstance(group, Group):
        missing = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
        has_error = api_version >= _GROUP_ID_NOT_FOUND_SINCE
        return DescribedGroup(
            group_id=group_id,
            error=Error.GROUP_ID_NOT_FOUND if has_error else Error.NONE,
            group_state=State.DEAD.value,
            error_message=missing if has_error else None,
        )
    is_stable = group.state is State.STABLE
    members = tuple(
        DescribedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=member.metadata(group.protocol_name) if is_stable else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    protocol_data = (group.protocol_name or "") if is_stable else ""
    protocol_type = group.protocol_type or ""
    return DescribedGroup(
        group_id=group_id,
        error=Error.NONE,
        group_state=group.state.value,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
    )


def list_groups(groups: Iterable[AnyGroup], request: ListGroupsRequest) -> list[ListedGroup]:
    states = [state.strip().lower() for state in request.states_filter]
    types = [group_type.lower() for group_type in request.types_filter]
    return [
        one
        for one in map(_listed, groups)
        if (not states or one.group_state.lower() in states) and (not types or one.group_type in types)
    ]


def _listed(group: AnyGroup) -> ListedGroup:
    if isinstance(group, Group):
        return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, group.group_type)
    return ListedGroup(group.group_id, group.group_type, group.state, group.group_type)


def delete_groups(request: DeleteGroupsRequest, operation: Operation) -> None:
    """Deletes those of the named groups that are Empty. Each group's offsets are deleted before it."""
    results = []
    deleted = []
    offset_count = 0
    for group_id in request.group_ids:
        group = operation.groups.get(group_id)
        error = Error.NONE
        if group is None or group.state is State.DEAD:
            error = Error.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = Error.NON_EMPTY_GROUP
        else:
            offset_count += delete_all_offsets(group_id, operation)
            operation.records += group.tombstones()
            deleted.append(group_id)
        results.append(DeletedGroup(group_id, error))
    operation.log("groups_deleted", group_ids=", ".join(deleted), offset_count=offset_count)
    operation.response = DeleteGroupsResponse(request.request_id, tuple(results))
