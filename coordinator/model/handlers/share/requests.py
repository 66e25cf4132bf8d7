"""Handles the other APIs (joins, commits, deletions, descriptions) for share groups.

A share group commits no offsets and has no members of another protocol, so most of these requests are refused. It never
expires. DeleteGroups deletes an empty share group in two operations: the first writes that the states of its partitions
are being deleted, which the share coordinator then does, and the second writes its tombstones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.model.groups.modern.states import EMPTY
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.share.records import new_share_states_record
from groupledger.coordinator.model.messages import DescribedShareGroup, DescribedShareMember, refusal
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.messages import (
        DeleteGroupsRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        SyncGroupRequest,
    )
    from groupledger.coordinator.model.operation import Operation

ASSIGNOR: Final = "simple"


def refuse_join(request: JoinGroupRequest, operation: Operation) -> None:
    operation.response = refusal(request, Error.INCONSISTENT_GROUP_PROTOCOL)


def refuse_as_not_found(request: Any, operation: Operation) -> None:
    operation.response = refusal(request, Error.GROUP_ID_NOT_FOUND)


def refuse_as_unknown(request: SyncGroupRequest | HeartbeatRequest, operation: Operation) -> None:
    operation.response = refusal(request, Error.UNKNOWN_MEMBER_ID)


def mark_states_deleting(request: DeleteGroupsRequest, operation: Operation) -> None:
    """Writes for each empty share group that the states of its partitions are being deleted. Sets no response, since
    `delete_groups` follows."""
    for group_id in request.group_ids:
        group = operation.group(group_id, ShareGroup)
        if group is not None and group.state == EMPTY and group.states is not None:
            operation.records.append(new_share_states_record(group_id, group.states.all_deleting()))


def describe_share_group(group: ShareGroup | None, group_id: str) -> DescribedShareGroup:
    if group is None:
        return DescribedShareGroup(group_id=group_id, error=Error.GROUP_ID_NOT_FOUND)
    return DescribedShareGroup(
        group_id=group_id,
        error=Error.NONE,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=ASSIGNOR,
        members=tuple(
            DescribedShareMember(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=tuple(sorted(member.topics)),
                assignment=member.assigned,
            )
            for member in group.members.values()
        ),
    )
