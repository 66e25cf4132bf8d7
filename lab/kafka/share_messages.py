"""Translates requests about share groups and their answers to and from Kafka's messages (see `group_messages`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model import messages
from groupledger.coordinator.model.partitions import all_partitions_of
from groupledger.jobs.kafka.messages import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.partitions import Partitions

VERSION = 1


def _heartbeat_of_share(request: messages.ShareGroupHeartbeatRequest) -> Any:
    names = request.subscribed_topic_names
    return ShareGroupHeartbeatRequest(
        version=VERSION,
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed_topic_names=None if names is None else [*names],
    )


def _describe_share_groups(request: messages.ShareGroupDescribeRequest) -> Any:
    return ShareGroupDescribeRequest(version=VERSION, group_ids=[*request.group_ids])


def _heard_by_share(answer: Any, request: messages.Request) -> messages.Response:
    assignment = answer.assignment
    return messages.ShareGroupHeartbeatResponse(
        request.request_id,
        error=Error(answer.error_code),
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if assignment is None else _all_partitions(assignment.topic_partitions),
    )


def _share_groups_described(answer: Any, request: messages.Request) -> messages.Response:
    groups = tuple(
        messages.DescribedShareGroup(
            group_id=group.group_id,
            error=Error(group.error_code),
            group_state=group.group_state,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.assignor_name,
            members=tuple(sorted(map(_share_described, group.members), key=lambda member: member.member_id)),
        )
        for group in answer.groups
    )
    return messages.ShareGroupDescribeResponse(request.request_id, groups=groups)


def _share_described(member: Any) -> messages.DescribedShareMember:
    return messages.DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
        assignment=_all_partitions(member.assignment.topic_partitions),
    )


def _all_partitions(topics: Iterable[Any]) -> Partitions:
    """Returns partitions by topic id, with the topics that have none."""
    return all_partitions_of({"topic_id": kafka_id_of(each.topic_id), "partitions": each.partitions} for each in topics)


TO_WIRE: dict[type[messages.Request], Callable[[Any], Any]] = {
    messages.ShareGroupHeartbeatRequest: _heartbeat_of_share,
    messages.ShareGroupDescribeRequest: _describe_share_groups,
}
FROM_WIRE: dict[type[messages.Request], Callable[[Any, Any], messages.Response]] = {
    messages.ShareGroupHeartbeatRequest: _heard_by_share,
    messages.ShareGroupDescribeRequest: _share_groups_described,
}
