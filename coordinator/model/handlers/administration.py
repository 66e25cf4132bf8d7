"""DescribeGroups, ListGroups and DeleteGroups: what administrators ask of a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.records import new_group_metadata_tombstone_record
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.records import group_tombstones
from groupledger.coordinator.model.groups.modern.states import EMPTY
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.share.records import share_group_tombstones
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.groups.streams.records import streams_group_tombstones
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
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.operation import Operation
    from groupledger.schemas.codec.records import Record

_CLASSIC = "classic"
_CONSUMER = "consumer"
_SHARE = "share"
_STREAMS = "streams"
_GROUP_ID_NOT_FOUND_SINCE = 6


_TOMBSTONES: dict[type[ConsumerGroup | ShareGroup | StreamsGroup], Callable[[str], list[Record]]] = {
    ConsumerGroup: group_tombstones,
    ShareGroup: share_group_tombstones,
    StreamsGroup: streams_group_tombstones,
}


def describe_group(group: Group | None, group_id: str, api_version: int, *, is_modern: bool = False) -> DescribedGroup:
    """Describes a classic group. Before API 6 a missing group, or one of another kind, is described as a Dead one,
    without an error."""
    if group is None:
        missing = f"Group {group_id} {'is not a classic group' if is_modern else 'not found'}."
        is_told = api_version >= _GROUP_ID_NOT_FOUND_SINCE
        return DescribedGroup(
            group_id=group_id,
            error=Error.GROUP_ID_NOT_FOUND if is_told else Error.NONE,
            group_state=State.DEAD.value,
            error_message=missing if is_told else None,
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


def list_groups(
    groups: Iterable[Group],
    consumer_groups: Iterable[ConsumerGroup],
    share_groups: Iterable[ShareGroup],
    streams_groups: Iterable[StreamsGroup],
    request: ListGroupsRequest,
) -> list[ListedGroup]:
    states = [state.strip().lower() for state in request.states_filter]
    types = [group_type.lower() for group_type in request.types_filter]
    known = [
        *(ListedGroup(group.group_id, group.protocol_type or "", group.state.value, _CLASSIC) for group in groups),
        *(ListedGroup(group.group_id, _CONSUMER, group.state, _CONSUMER) for group in consumer_groups),
        *(ListedGroup(group.group_id, _SHARE, group.state, _SHARE) for group in share_groups),
        *(ListedGroup(group.group_id, _STREAMS, group.state, _STREAMS) for group in streams_groups),
    ]
    return [
        one
        for one in known
        if (not states or one.group_state.lower() in states) and (not types or one.group_type in types)
    ]


def delete_groups(request: DeleteGroupsRequest, operation: Operation) -> None:
    """Deletes the Empty ones among these groups, their offsets first."""
    results = []
    deleted = []
    offset_count = 0
    for group_id in request.group_ids:
        group = operation.groups.get(group_id)
        modern = (
            operation.consumer_groups.get(group_id)
            or operation.share_groups.get(group_id)
            or operation.streams_groups.get(group_id)
        )
        if modern is not None:
            error = Error.NONE if modern.state == EMPTY else Error.NON_EMPTY_GROUP
            if error is Error.NONE:
                offset_count += delete_all_offsets(group_id, operation)
                operation.records += _TOMBSTONES[type(modern)](group_id)
                deleted.append(group_id)
        elif group is None or group.state is State.DEAD:
            error = Error.GROUP_ID_NOT_FOUND
        elif group.state is not State.EMPTY:
            error = Error.NON_EMPTY_GROUP
        else:
            error = Error.NONE
            offset_count += delete_all_offsets(group_id, operation)
            operation.records.append(new_group_metadata_tombstone_record(group_id))
            deleted.append(group_id)
        results.append(DeletedGroup(group_id, error))
    operation.log("groups_deleted", group_ids=", ".join(deleted), offset_count=offset_count)
    operation.response = DeleteGroupsResponse(request.request_id, tuple(results))
