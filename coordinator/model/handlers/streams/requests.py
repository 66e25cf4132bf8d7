"""Handles the other APIs (joins, commits, fetches, deletions, descriptions) for streams groups.

A member commits with its own epoch, or with an older one in which it already had the task: a commit that was in flight
when the epoch changed is accepted. An empty streams group becomes a classic one when a classic member joins. A group
with members refuses other protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupledger.coordinator.model.groups.modern.states import EMPTY
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.groups.streams.tasks import Task, by_role
from groupledger.coordinator.model.handlers.classic.join_group import join_group
from groupledger.coordinator.model.handlers.consumer.requests import COMMITS_SINCE, in_transaction
from groupledger.coordinator.model.handlers.offset_records import NO_EXPIRY
from groupledger.coordinator.model.handlers.offsets import delete_unsubscribed, expiry_of, write_offsets
from groupledger.coordinator.model.handlers.streams.messages import DescribedStreamsGroup, DescribedStreamsMember
from groupledger.coordinator.model.messages import refusal
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.member import StreamsMember
    from groupledger.coordinator.model.messages import (
        JoinGroupRequest,
        OffsetCommitRequest,
        OffsetDeleteRequest,
        OffsetFetchGroup,
        TxnOffsetCommitRequest,
    )
    from groupledger.coordinator.model.operation import Operation

STREAMS_TO_CLASSIC: Final = {"previous_group_type": "streams", "group_type": "classic"}


def join_streams_as_classic(request: JoinGroupRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, StreamsGroup)
    if group.state != EMPTY:
        operation.response = refusal(request, Error.INCONSISTENT_GROUP_PROTOCOL)
        return
    operation.log("empty_group_converted", group_id=request.group_id, **STREAMS_TO_CLASSIC)
    if request.member_id:  # it will be refused: a broker forgets the group by that, and writes nothing
        operation.forget(group)
    else:
        operation.records += group.tombstones()
    join_group(request, operation)


# Offsets


def commit_by_streams(request: OffsetCommitRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, StreamsGroup)
    error = _refusal_of_commit(group, request)
    if request.member_id in group.members and request.api_version < COMMITS_SINCE:
        error = Error.UNSUPPORTED_VERSION
    write_offsets(request, error, expiry_of(request, operation), operation)


def commit_transactional_by_streams(request: TxnOffsetCommitRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, StreamsGroup)
    names_nobody = request.generation_id == -1 and not request.member_id and request.group_instance_id is None
    operation.producer_id, operation.producer_epoch = request.producer_id, request.producer_epoch
    error = Error.NONE if names_nobody else in_transaction(_refusal_of_commit(group, request))
    write_offsets(request, error, NO_EXPIRY, operation)


def _refusal_of_commit(group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Error:
    if request.generation_id < 0 and not group.members:
        return Error.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if request.generation_id == member.epoch:
        return Error.NONE
    if request.generation_id > member.epoch:
        return Error.STALE_MEMBER_EPOCH
    subtopologies = group.subtopology_by_topic()
    tasks = (Task(TaskRole.ACTIVE, subtopologies.get(offset.topic, ""), offset.partition) for offset in request.offsets)
    return Error.NONE if all(_had(member, task, request.generation_id) for task in tasks) else Error.STALE_MEMBER_EPOCH


def _had(member: StreamsMember, task: Task, epoch: int) -> bool:
    since = member.assigned.get(task, member.pending_revocation.get(task))
    return since is not None and since <= epoch


def refusal_of_streams_fetch(group: StreamsGroup, request: OffsetFetchGroup) -> Error:
    """Returns the error with which a member may not fetch offsets, or NONE. A request without a member id is
    allowed."""
    if request.member_id is None and request.member_epoch < 0:
        return Error.NONE
    member = group.members.get(request.member_id or "")
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    return Error.NONE if member.epoch == request.member_epoch else Error.STALE_MEMBER_EPOCH


def delete_offsets_of_streams(request: OffsetDeleteRequest, operation: Operation) -> None:
    delete_unsubscribed(request, operation.require_group(request.group_id, StreamsGroup), operation)


# Describing


def describe_streams_group(group: StreamsGroup | None, group_id: str) -> DescribedStreamsGroup:
    if group is None:
        return DescribedStreamsGroup(group_id=group_id, error=Error.GROUP_ID_NOT_FOUND)
    shown = group.shown
    topology = shown.topology if shown is not None and shown.is_ready else group.topology
    return DescribedStreamsGroup(
        group_id=group_id,
        error=Error.NONE,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if topology is None else topology.described(),
        members=tuple(
            DescribedStreamsMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                topology_epoch=member.topology_epoch,
                process_id=member.process_id,
                user_endpoint=member.user_endpoint,
                client_tags=member.client_tags,
                assignment=by_role(member.assigned),
                target=by_role(group.target.get(member.member_id, ())),
            )
            for member in group.members.values()
        ),
    )
