"""Translates the coordinator's responses to Kafka's messages, in the version of the request.

The coordinator is not asked about a partition that does not exist. The response names it all the same, where the
request does, with the error that Kafka returns. The encoder leaves out fields that a version lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import groups as administration
from kafka.protocol.consumer import group as membership
from kafka.protocol.producer.transaction import TxnOffsetCommitResponse

from groupledger.coordinator.model import messages as model
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.partitions import Partitions
    from groupledger.jobs.coordinator.frames import Incoming
    from groupledger.jobs.coordinator.requests import Cluster

# The first version in which ...
_LEAVE_NAMES_MEMBERS = 3
_COMMIT_NAMES_TOPIC_IDS = 10
_FETCH_HAS_ERROR_OF_ITS_OWN = 2
_FETCH_NAMES_GROUPS = 8
_FETCH_NAMES_TOPIC_IDS = 10
_JOIN_MAY_NAME_NO_PROTOCOL = 7
_OF_THE_CLASSIC_PROTOCOL, _OF_THE_CONSUMER_PROTOCOL = 0, 1


def to_wire(response: Any, incoming: Incoming, cluster: Cluster) -> Any:
    return _TO_WIRE[incoming.api](response, incoming, cluster)


def _joined(response: model.JoinGroupResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = membership.JoinGroupResponse
    name = response.protocol_name
    return kind(
        version=incoming.version,
        error_code=response.error,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=name if incoming.version >= _JOIN_MAY_NAME_NO_PROTOCOL else name or "",
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            kind.JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata
            )
            for each in response.members
        ],
    )


def _synced(response: model.SyncGroupResponse, incoming: Incoming, _: Cluster) -> Any:
    return membership.SyncGroupResponse(
        version=incoming.version,
        error_code=response.error,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )


def _heard(response: model.HeartbeatResponse, incoming: Incoming, _: Cluster) -> Any:
    return membership.HeartbeatResponse(version=incoming.version, error_code=response.error)


def _left(response: model.LeaveGroupResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = membership.LeaveGroupResponse
    if incoming.version < _LEAVE_NAMES_MEMBERS:
        (error,) = [each.error for each in response.members] or [Error.NONE]
        return kind(version=incoming.version, error_code=response.error or error)
    members = [
        kind.MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error)
        for each in response.members
    ]
    return kind(version=incoming.version, error_code=response.error, members=members)


def _committed(response: model.OffsetCommitResponse, incoming: Incoming, cluster: Cluster) -> Any:
    is_transactional = incoming.api is ApiKey.TXN_OFFSET_COMMIT
    kind = TxnOffsetCommitResponse if is_transactional else membership.OffsetCommitResponse
    topic_kind = kind.fields["topics"].data_class
    partition_kind = topic_kind.fields["partitions"].data_class
    by_id = incoming.version >= _COMMIT_NAMES_TOPIC_IDS and not is_transactional
    errors = {(each.topic, each.partition): each.error for each in response.partitions}
    topics = []
    for topic in incoming.body.topics:
        name = cluster.topic_of(topic.topic_id) if by_id else topic.name
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION if name is not None else Error.UNKNOWN_TOPIC_ID
        partitions = [
            partition_kind(
                partition_index=each.partition_index,
                error_code=errors.get((name or "", each.partition_index), missing),
            )
            for each in topic.partitions
        ]
        named = {"topic_id": topic.topic_id} if by_id else {"name": topic.name}
        topics.append(topic_kind(**named, partitions=partitions))
    return kind(version=incoming.version, topics=topics)


def _fetched(response: model.OffsetFetchResponse, incoming: Incoming, cluster: Cluster) -> Any:
    kind, version, body = membership.OffsetFetchResponse, incoming.version, incoming.body
    if version < _FETCH_NAMES_GROUPS:
        (group,) = response.groups
        topics = _offsets(group, kind.OffsetFetchResponseTopic)
        if version < _FETCH_HAS_ERROR_OF_ITS_OWN and group.error:
            topics = _refused(body.topics, group.error, kind.OffsetFetchResponseTopic)
        return kind(version=version, error_code=group.error, topics=topics)
    group_kind = kind.OffsetFetchResponseGroup
    groups = []
    for asked, group in zip(body.groups, response.groups, strict=True):
        topics = _offsets(group, group_kind.OffsetFetchResponseTopics)
        if version >= _FETCH_NAMES_TOPIC_IDS:
            topics = _with_ids(topics, asked, group_kind.OffsetFetchResponseTopics, cluster)
        groups.append(group_kind(group_id=group.group_id, error_code=group.error, topics=topics))
    return kind(version=version, groups=groups)


def _offsets(group: model.FetchedGroup, topic_kind: Any) -> list[Any]:
    """Returns the topics with the offsets that the coordinator found, in the order of the first of each topic."""
    kind = topic_kind.fields["partitions"].data_class
    topics: dict[str, Any] = {}
    for each in group.partitions:
        topic = topics.setdefault(each.topic, topic_kind(name=each.topic, partitions=[]))
        topic.partitions.append(
            kind(
                partition_index=each.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                metadata=each.metadata,
                error_code=each.error,
            )
        )
    return list(topics.values())


def _refused(topics: Any, error: Error, topic_kind: Any) -> list[Any]:
    """Returns the topics of a request, each partition with an error in place of an offset."""
    kind = topic_kind.fields["partitions"].data_class
    return [
        topic_kind(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                kind(partition_index=partition, committed_offset=model.NO_OFFSET, metadata="", error_code=error)
                for partition in topic.partition_indexes
            ],
        )
        for topic in topics or ()
    ]


def _with_ids(topics: list[Any], asked: Any, topic_kind: Any, cluster: Cluster) -> list[Any]:
    """Returns the topics by their ids, and those that were asked for by an id which no topic has, with the error."""
    known = []
    for topic in topics:
        topic.topic_id = cluster.id_of(topic.name)
        if topic.topic_id is not None:
            known.append(topic)
    unknown = [topic for topic in asked.topics or () if cluster.topic_of(topic.topic_id) is None]
    return known + _refused(unknown, Error.UNKNOWN_TOPIC_ID, topic_kind)


def _offsets_deleted(response: model.OffsetDeleteResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = membership.OffsetDeleteResponse
    topic_kind = kind.OffsetDeleteResponseTopic
    errors = {(each.topic, each.partition): each.error for each in response.partitions}
    topics = [
        topic_kind(
            name=topic.name,
            partitions=[
                topic_kind.OffsetDeleteResponsePartition(
                    partition_index=each.partition_index,
                    error_code=errors.get((topic.name, each.partition_index), Error.UNKNOWN_TOPIC_OR_PARTITION),
                )
                for each in topic.partitions
            ],
        )
        for topic in incoming.body.topics
    ]
    return kind(version=incoming.version, error_code=response.error, topics=[] if response.error else topics)


def _described(response: model.DescribeGroupsResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = administration.DescribeGroupsResponse
    group_kind = kind.DescribedGroup
    groups = [
        group_kind(
            error_code=group.error,
            error_message=group.error_message,
            group_id=group.group_id,
            group_state=group.group_state,
            protocol_type=group.protocol_type,
            protocol_data=group.protocol_data,
            members=[
                group_kind.DescribedGroupMember(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    member_metadata=each.metadata,
                    member_assignment=each.assignment,
                )
                for each in group.members
            ],
        )
        for group in response.groups
    ]
    return kind(version=incoming.version, groups=groups)


def _listed(response: model.ListGroupsResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = administration.ListGroupsResponse
    groups = [
        kind.ListedGroup(
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            group_state=each.group_state,
            group_type=each.group_type,
        )
        for each in response.groups
    ]
    return kind(version=incoming.version, error_code=response.error, groups=groups)


def _groups_deleted(response: model.DeleteGroupsResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = administration.DeleteGroupsResponse
    results = [kind.DeletableGroupResult(group_id=each.group_id, error_code=each.error) for each in response.results]
    return kind(version=incoming.version, results=results)


def _heard_by_consumer(response: model.ConsumerGroupHeartbeatResponse, incoming: Incoming, _: Cluster) -> Any:
    kind = ConsumerGroupHeartbeatResponse
    assignment = None
    if response.assignment is not None:
        assignment = kind.Assignment(topic_partitions=_partitions(kind.Assignment.TopicPartitions, response.assignment))
    return kind(
        version=incoming.version,
        error_code=response.error,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=assignment,
    )


def _consumer_groups_described(
    response: model.ConsumerGroupDescribeResponse, incoming: Incoming, cluster: Cluster
) -> Any:
    kind = ConsumerGroupDescribeResponse
    group_kind = kind.DescribedGroup
    groups = [
        group_kind(
            group_id=group.group_id,
            error_code=group.error,
            group_state=group.group_state,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.assignor,
            members=[_consumer_described(group_kind.Member, each, cluster) for each in group.members],
        )
        for group in response.groups
    ]
    return kind(version=incoming.version, groups=groups)


def _consumer_described(kind: Any, member: model.DescribedConsumerMember, cluster: Cluster) -> Any:
    assignment_kind = kind.fields["assignment"].data_class
    partition_kind = assignment_kind.fields["topic_partitions"].data_class
    assignment, target = (
        assignment_kind(
            topic_partitions=[
                partition_kind(
                    topic_id=uuid_of(topic), topic_name=cluster.topic_of(uuid_of(topic)) or "", partitions=[*numbers]
                )
                for topic, numbers in partitions.items()
            ]
        )
        for partitions in (member.assignment, member.target)
    )
    return kind(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=[*member.subscribed_topic_names],
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=assignment,
        target_assignment=target,
        member_type=_OF_THE_CLASSIC_PROTOCOL if member.is_classic else _OF_THE_CONSUMER_PROTOCOL,
    )


def _partitions(kind: Any, partitions: Partitions) -> list[Any]:
    return [kind(topic_id=uuid_of(topic), partitions=[*numbers]) for topic, numbers in partitions.items()]


_TO_WIRE: dict[ApiKey, Callable[[Any, Incoming, Cluster], Any]] = {
    ApiKey.JOIN_GROUP: _joined,
    ApiKey.SYNC_GROUP: _synced,
    ApiKey.HEARTBEAT: _heard,
    ApiKey.LEAVE_GROUP: _left,
    ApiKey.OFFSET_COMMIT: _committed,
    ApiKey.TXN_OFFSET_COMMIT: _committed,
    ApiKey.OFFSET_FETCH: _fetched,
    ApiKey.OFFSET_DELETE: _offsets_deleted,
    ApiKey.DESCRIBE_GROUPS: _described,
    ApiKey.LIST_GROUPS: _listed,
    ApiKey.DELETE_GROUPS: _groups_deleted,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _heard_by_consumer,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_groups_described,
}
