"""Translates the coordinator's requests and responses to and from Kafka's own messages.

`to_wire` returns the message for a request, in the API version that the request names. `from_wire` returns the
coordinator's form of a broker's answer. `comparable_response` makes the responses of both comparable: it drops fields
that the API version can't express, and sorts lists that have no order in Kafka. The messages are those of kafka-python,
which are made from Kafka's definitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import groups as administration
from kafka.protocol.consumer import group as membership
from kafka.protocol.producer import transaction as transactions

from groupledger.coordinator.model import messages
from groupledger.coordinator.model.partitions import partitions_of
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of, uuid_of
from lab.kafka import share_messages, streams_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.partitions import Partitions

HEARTBEAT_VERSION = 4
OFFSET_FETCH_VERSION = 9  # the last in which topics have names
LIST_GROUPS_VERSION = 5
OF_THE_CLASSIC_PROTOCOL = 0  # a member's type in ConsumerGroupDescribe
DELETE_GROUPS_VERSION = 2

_JOIN_HAS_INSTANCE_SINCE = 5
_JOIN_HAS_PROTOCOL_TYPE_SINCE = 7
_JOIN_HAS_SKIP_ASSIGNMENT_SINCE = 9
_SYNC_HAS_PROTOCOL_SINCE = 5
_DESCRIBE_HAS_INSTANCE_SINCE = 4
_LEAVE_NAMES_MEMBERS_SINCE = 3
_COMMIT_NAMES_TOPIC_IDS_SINCE = 10


# Requests


def to_wire(request: messages.Request, transactional_id: str = "") -> Any:
    message = _TO_WIRE[type(request)](request)
    if isinstance(request, messages.TxnOffsetCommitRequest):
        message.transactional_id = transactional_id
    return message


def _join_group(request: messages.JoinGroupRequest) -> Any:
    protocol = membership.JoinGroupRequest.JoinGroupRequestProtocol
    return membership.JoinGroupRequest(
        version=request.api_version,
        group_id=request.group_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=[protocol(name=name, metadata=metadata) for name, metadata in request.protocols],
        reason=request.reason,
    )


def _sync_group(request: messages.SyncGroupRequest) -> Any:
    assignment = membership.SyncGroupRequest.SyncGroupRequestAssignment
    return membership.SyncGroupRequest(
        version=request.api_version,
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=[assignment(member_id=member_id, assignment=data) for member_id, data in request.assignments],
    )


def _heartbeat(request: messages.HeartbeatRequest) -> Any:
    return membership.HeartbeatRequest(
        version=HEARTBEAT_VERSION,
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )


def _leave_group(request: messages.LeaveGroupRequest) -> Any:
    if request.api_version < _LEAVE_NAMES_MEMBERS_SINCE:
        (member,) = request.members
        return membership.LeaveGroupRequest(
            version=request.api_version, group_id=request.group_id, member_id=member.member_id
        )
    identity = membership.LeaveGroupRequest.MemberIdentity
    members = [
        identity(member_id=member.member_id, group_instance_id=member.group_instance_id, reason=member.reason)
        for member in request.members
    ]
    return membership.LeaveGroupRequest(version=request.api_version, group_id=request.group_id, members=members)


def _offset_commit(request: messages.OffsetCommitRequest) -> Any:
    kind = membership.OffsetCommitRequest
    topic = kind.OffsetCommitRequestTopic
    return kind(
        version=request.api_version,
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=[
            topic(name=name, topic_id=uuid_of(topic_id), partitions=_offsets(topic, offsets))
            for (name, topic_id), offsets in _grouped(
                ((offset.topic, offset.topic_id), offset) for offset in request.offsets
            )
        ],
    )


def _txn_offset_commit(request: messages.TxnOffsetCommitRequest) -> Any:
    kind = transactions.TxnOffsetCommitRequest
    topic = kind.TxnOffsetCommitRequestTopic
    return kind(
        version=request.api_version,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            topic(name=name, partitions=_offsets(topic, offsets))
            for name, offsets in _grouped((offset.topic, offset) for offset in request.offsets)
        ],
    )


def _offsets(topic: Any, offsets: list[messages.OffsetToCommit]) -> list[Any]:
    partition = topic.fields["partitions"].data_class
    return [
        partition(
            partition_index=offset.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        for offset in offsets
    ]


def _offset_fetch(request: messages.OffsetFetchRequest) -> Any:
    group_kind = membership.OffsetFetchRequest.OffsetFetchRequestGroup
    topic_kind = group_kind.OffsetFetchRequestTopics
    groups = []
    for group in request.groups:
        topics = None
        if group.partitions is not None:
            topics = [topic_kind(name=name, partition_indexes=found) for name, found in _grouped(group.partitions)]
        named = {"member_id": group.member_id, "member_epoch": group.member_epoch}
        groups.append(group_kind(group_id=group.group_id, topics=topics, **named))
    return membership.OffsetFetchRequest(
        version=OFFSET_FETCH_VERSION, groups=groups, require_stable=request.require_stable
    )


def _offset_delete(request: messages.OffsetDeleteRequest) -> Any:
    topic = membership.OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = topic.OffsetDeleteRequestPartition
    topics = [
        topic(name=name, partitions=[partition(partition_index=index) for index in indexes])
        for name, indexes in _grouped(request.partitions)
    ]
    return membership.OffsetDeleteRequest(version=0, group_id=request.group_id, topics=topics)


def _describe_groups(request: messages.DescribeGroupsRequest) -> Any:
    return administration.DescribeGroupsRequest(version=request.api_version, groups=list(request.group_ids))


def _list_groups(request: messages.ListGroupsRequest) -> Any:
    states, types = list(request.states_filter), list(request.types_filter)
    return administration.ListGroupsRequest(version=LIST_GROUPS_VERSION, states_filter=states, types_filter=types)


def _delete_groups(request: messages.DeleteGroupsRequest) -> Any:
    return administration.DeleteGroupsRequest(version=DELETE_GROUPS_VERSION, groups_names=list(request.group_ids))


def _heartbeat_of_consumer(request: messages.ConsumerGroupHeartbeatRequest) -> Any:
    kind = ConsumerGroupHeartbeatRequest.TopicPartitions
    owned = request.owned
    names = request.subscribed_topic_names
    return ConsumerGroupHeartbeatRequest(
        version=request.api_version,
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else [*names],
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        topic_partitions=None
        if owned is None
        else [kind(topic_id=uuid_of(topic), partitions=[*numbers]) for topic, numbers in owned.items()],
    )


def _describe_consumer_groups(request: messages.ConsumerGroupDescribeRequest) -> Any:
    return ConsumerGroupDescribeRequest(version=1, group_ids=[*request.group_ids])


_TO_WIRE: dict[type[messages.Request], Callable[[Any], Any]] = {
    messages.JoinGroupRequest: _join_group,
    messages.SyncGroupRequest: _sync_group,
    messages.HeartbeatRequest: _heartbeat,
    messages.LeaveGroupRequest: _leave_group,
    messages.OffsetCommitRequest: _offset_commit,
    messages.TxnOffsetCommitRequest: _txn_offset_commit,
    messages.OffsetFetchRequest: _offset_fetch,
    messages.OffsetDeleteRequest: _offset_delete,
    messages.DescribeGroupsRequest: _describe_groups,
    messages.ListGroupsRequest: _list_groups,
    messages.DeleteGroupsRequest: _delete_groups,
    messages.ConsumerGroupHeartbeatRequest: _heartbeat_of_consumer,
    messages.ConsumerGroupDescribeRequest: _describe_consumer_groups,
    **share_messages.TO_WIRE,
    **streams_messages.TO_WIRE,
}


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
    """Nests (topic, partition) pairs as Kafka does: each topic once, in order of first appearance."""
    nested: dict[Any, list[Any]] = {}
    for key, value in pairs:
        nested.setdefault(key, []).append(value)
    return list(nested.items())


# Responses


def from_wire(answer: Any, request: messages.Request) -> messages.Response:
    return _FROM_WIRE[type(request)](answer, request)


def _joined(answer: Any, request: messages.Request) -> messages.Response:
    return messages.JoinGroupResponse(
        request.request_id,
        error=Error(answer.error_code),
        member_id=answer.member_id,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        members=tuple(
            messages.JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in answer.members
        ),
    )


def _synced(answer: Any, request: messages.Request) -> messages.Response:
    return messages.SyncGroupResponse(
        request.request_id,
        error=Error(answer.error_code),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=bytes(answer.assignment),
    )


def _heard(answer: Any, request: messages.Request) -> messages.Response:
    return messages.HeartbeatResponse(request.request_id, Error(answer.error_code))


def _left(answer: Any, request: messages.Request) -> messages.Response:
    members = tuple(
        messages.LeftMember(member.member_id, member.group_instance_id, Error(member.error_code))
        for member in answer.members
    )
    return messages.LeaveGroupResponse(request.request_id, Error(answer.error_code), members)


def _committed(answer: Any, request: Any) -> messages.Response:
    names = {uuid_of(offset.topic_id): offset.topic for offset in getattr(request, "offsets", ())}
    named = request.api_version < _COMMIT_NAMES_TOPIC_IDS_SINCE
    results = tuple(
        messages.PartitionResult(
            topic.name if named else names[topic.topic_id], partition.partition_index, Error(partition.error_code)
        )
        for topic in answer.topics
        for partition in topic.partitions
    )
    return messages.OffsetCommitResponse(request.request_id, results)


def _fetched(answer: Any, request: messages.Request) -> messages.Response:
    groups = tuple(
        messages.FetchedGroup(
            group.group_id,
            Error(group.error_code),
            tuple(
                messages.FetchedOffset(
                    topic=topic.name,
                    partition=partition.partition_index,
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error=Error(partition.error_code),
                )
                for topic in group.topics
                for partition in topic.partitions
            ),
        )
        for group in answer.groups
    )
    return messages.OffsetFetchResponse(request.request_id, groups)


def _offsets_deleted(answer: Any, request: messages.Request) -> messages.Response:
    results = tuple(
        messages.PartitionResult(topic.name, partition.partition_index, Error(partition.error_code))
        for topic in answer.topics
        for partition in topic.partitions
    )
    return messages.OffsetDeleteResponse(request.request_id, Error(answer.error_code), results)


def _described(answer: Any, request: messages.Request) -> messages.Response:
    groups = tuple(
        messages.DescribedGroup(
            group_id=group.group_id,
            error=Error(group.error_code),
            group_state=group.group_state,
            protocol_type=group.protocol_type,
            protocol_data=group.protocol_data,
            members=tuple(
                messages.DescribedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=bytes(member.member_metadata),
                    assignment=bytes(member.member_assignment),
                )
                for member in group.members
            ),
            error_message=group.error_message,
        )
        for group in answer.groups
    )
    return messages.DescribeGroupsResponse(request.request_id, groups)


def _listed(answer: Any, request: messages.Request) -> messages.Response:
    groups = tuple(
        messages.ListedGroup(group.group_id, group.protocol_type, group.group_state, group.group_type)
        for group in answer.groups
    )
    return messages.ListGroupsResponse(request.request_id, Error(answer.error_code), groups)


def _groups_deleted(answer: Any, request: messages.Request) -> messages.Response:
    results = tuple(messages.DeletedGroup(one.group_id, Error(one.error_code)) for one in answer.results)
    return messages.DeleteGroupsResponse(request.request_id, results)


def _heard_by_consumer(answer: Any, request: messages.Request) -> messages.Response:
    assignment = answer.assignment
    return messages.ConsumerGroupHeartbeatResponse(
        request.request_id,
        error=Error(answer.error_code),
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if assignment is None else _partitions(assignment.topic_partitions),
    )


def _consumer_groups_described(answer: Any, request: messages.Request) -> messages.Response:
    groups = tuple(
        messages.DescribedConsumerGroup(
            group_id=group.group_id,
            error=Error(group.error_code),
            group_state=group.group_state,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.assignor_name,
            members=tuple(sorted(map(_consumer_described, group.members), key=lambda member: member.member_id)),
        )
        for group in answer.groups
    )
    return messages.ConsumerGroupDescribeResponse(request.request_id, groups=groups)


def _consumer_described(member: Any) -> messages.DescribedConsumerMember:
    return messages.DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex or "",
        assignment=_partitions(member.assignment.topic_partitions),
        target=_partitions(member.target_assignment.topic_partitions),
        is_classic=member.member_type == OF_THE_CLASSIC_PROTOCOL,
    )


def _partitions(topics: Iterable[Any]) -> Partitions:
    return partitions_of({"topic_id": kafka_id_of(each.topic_id), "partitions": each.partitions} for each in topics)


_FROM_WIRE: dict[type[messages.Request], Callable[[Any, Any], messages.Response]] = {
    messages.JoinGroupRequest: _joined,
    messages.SyncGroupRequest: _synced,
    messages.HeartbeatRequest: _heard,
    messages.LeaveGroupRequest: _left,
    messages.OffsetCommitRequest: _committed,
    messages.TxnOffsetCommitRequest: _committed,
    messages.OffsetFetchRequest: _fetched,
    messages.OffsetDeleteRequest: _offsets_deleted,
    messages.DescribeGroupsRequest: _described,
    messages.ListGroupsRequest: _listed,
    messages.DeleteGroupsRequest: _groups_deleted,
    messages.ConsumerGroupHeartbeatRequest: _heard_by_consumer,
    messages.ConsumerGroupDescribeRequest: _consumer_groups_described,
    **share_messages.FROM_WIRE,
    **streams_messages.FROM_WIRE,
}


# Comparing


def errors_of(response: Any) -> list[str]:
    """Returns the name of every error code in a response and its parts, NONE included."""
    errors = [response.error.name] if hasattr(response, "error") else []
    for name in ("groups", "members", "results", "partitions"):
        for part in getattr(response, name, ()):
            errors.extend(errors_of(part))
    return errors


def comparable_response(response: Any, request: Any) -> Any:
    """Returns a response for comparison: without the fields that the request's API version can't express, and with
    groups and committed partitions sorted, since they have no order in Kafka."""
    if isinstance(response, messages.JoinGroupResponse):
        return _comparable_join(response, request.api_version)
    if isinstance(response, messages.SyncGroupResponse) and request.api_version < _SYNC_HAS_PROTOCOL_SINCE:
        return replace(response, protocol_type=None, protocol_name=None)
    if isinstance(response, (messages.OffsetCommitResponse, messages.OffsetDeleteResponse)):
        return replace(response, partitions=tuple(sorted(response.partitions, key=repr)))
    if isinstance(response, messages.DeleteGroupsResponse):
        return replace(response, results=tuple(sorted(response.results, key=repr)))
    if isinstance(response, messages.DescribeGroupsResponse) and request.api_version < _DESCRIBE_HAS_INSTANCE_SINCE:
        response = replace(response, groups=tuple(map(_without_instances, response.groups)))
    if hasattr(response, "groups"):
        return replace(response, groups=tuple(sorted(response.groups, key=repr)))
    return response


def _without_instances(described: messages.DescribedGroup) -> messages.DescribedGroup:
    return replace(described, members=tuple(replace(member, group_instance_id=None) for member in described.members))


def _comparable_join(response: messages.JoinGroupResponse, api_version: int) -> messages.JoinGroupResponse:
    if api_version < _JOIN_HAS_PROTOCOL_TYPE_SINCE:
        response = replace(response, protocol_type=None, protocol_name=response.protocol_name or "")
    if api_version < _JOIN_HAS_SKIP_ASSIGNMENT_SINCE:
        response = replace(response, skip_assignment=False)
    if api_version < _JOIN_HAS_INSTANCE_SINCE:
        members = tuple(replace(member, group_instance_id=None) for member in response.members)
        response = replace(response, members=members)
    return response
