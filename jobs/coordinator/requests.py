"""Translates requests about groups from Kafka's messages to the coordinator's.

A field that an older version of a request lacks gets the value that Kafka's own reader gives it. A topic id that no
topic has, and a partition that does not exist, are left out: Kafka refuses them before the coordinator is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model import messages as model
from groupledger.coordinator.model.partitions import partitions_of
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kafka.uuids import kafka_id_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from groupledger.jobs.coordinator.frames import Incoming

# The first version in which ...
_JOIN_HAS_REBALANCE_TIMEOUT = 1
_LEAVE_NAMES_MEMBERS = 3
_COMMIT_NAMES_TOPIC_IDS = 10
_FETCH_NAMES_GROUPS = 8
_FETCH_NAMES_MEMBERS = 9
_FETCH_NAMES_TOPIC_IDS = 10


class Cluster(NamedTuple):
    """The functions that a translation needs of the cluster. They return the topic of an id, the id of a topic, whether
    a partition exists, and a new UUID for a member."""

    topic_of: Callable[[UUID], str | None]
    id_of: Callable[[str], UUID | None]
    has_partition: Callable[[str, int], bool]
    new_uuid: Callable[[], str]


class Asker(NamedTuple):
    """The sender of a request. `request_id` is the number by which its response is found, `client_host` the address
    that the group shows for the member."""

    request_id: int
    client_host: str


def to_model(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    return _TO_MODEL[incoming.api](incoming, asker, cluster)


def _join_group(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    body, version = incoming.body, incoming.version
    has_timeout = version >= _JOIN_HAS_REBALANCE_TIMEOUT
    return model.JoinGroupRequest(
        asker.request_id,
        body.group_id,
        member_id=body.member_id,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if has_timeout else body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in body.protocols),
        new_member_uuid=cluster.new_uuid(),
        group_instance_id=body.group_instance_id,
        reason=body.reason,
        client_id=incoming.client_id,
        client_host=asker.client_host,
        api_version=version,
    )


def _sync_group(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    body = incoming.body
    return model.SyncGroupRequest(
        asker.request_id,
        body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple((each.member_id, bytes(each.assignment)) for each in body.assignments),
        api_version=incoming.version,
    )


def _heartbeat(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    body = incoming.body
    return model.HeartbeatRequest(
        asker.request_id,
        body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
    )


def _leave_group(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    body = incoming.body
    if incoming.version < _LEAVE_NAMES_MEMBERS:
        members: tuple[model.LeavingMember, ...] = (model.LeavingMember(body.member_id),)
    else:
        members = tuple(
            model.LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in body.members
        )
    return model.LeaveGroupRequest(asker.request_id, body.group_id, members, incoming.version)


def _offset_commit(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    body = incoming.body
    return model.OffsetCommitRequest(
        asker.request_id,
        body.group_id,
        offsets=tuple(
            model.OffsetToCommit(
                topic=name,
                partition=partition.partition_index,
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata,
                topic_id=topic_id,
            )
            for name, topic_id, partitions in _named_topics(body.topics, incoming.version, cluster)
            for partition in partitions
            if cluster.has_partition(name, partition.partition_index)
        ),
        generation_id=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        retention_time_ms=body.retention_time_ms,
        api_version=incoming.version,
    )


def _txn_offset_commit(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    body = incoming.body
    return model.TxnOffsetCommitRequest(
        asker.request_id,
        body.group_id,
        producer_id=body.producer_id,
        producer_epoch=body.producer_epoch,
        offsets=tuple(
            model.OffsetToCommit(
                topic=topic.name,
                partition=partition.partition_index,
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata,
            )
            for topic in body.topics
            for partition in topic.partitions
            if cluster.has_partition(topic.name, partition.partition_index)
        ),
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        api_version=incoming.version,
    )


def _named_topics(topics: Any, version: int, cluster: Cluster) -> list[tuple[str, str, Any]]:
    """Returns (name, id, partitions) of the topics that have a name; since API 10 a client names them by id."""
    if version < _COMMIT_NAMES_TOPIC_IDS:
        return [(topic.name, ZERO_UUID, topic.partitions) for topic in topics]
    named = ((cluster.topic_of(topic.topic_id), topic) for topic in topics)
    return [(name, kafka_id_of(topic.topic_id), topic.partitions) for name, topic in named if name is not None]


def _offset_fetch(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    body, version = incoming.body, incoming.version
    asked = body.groups if version >= _FETCH_NAMES_GROUPS else (body,)
    return model.OffsetFetchRequest(
        asker.request_id,
        tuple(
            model.OffsetFetchGroup(
                each.group_id,
                _places(each.topics, version, cluster),
                each.member_id if version >= _FETCH_NAMES_MEMBERS else None,
                each.member_epoch if version >= _FETCH_NAMES_MEMBERS else model.NO_GENERATION,
            )
            for each in asked
        ),
        require_stable=bool(body.require_stable),
    )


def _places(topics: Any, version: int, cluster: Cluster) -> tuple[TopicPartition, ...] | None:
    if topics is None:
        return None
    by_id = version >= _FETCH_NAMES_TOPIC_IDS
    named = ((cluster.topic_of(topic.topic_id) if by_id else topic.name, topic) for topic in topics)
    return tuple(
        TopicPartition(name, partition)
        for name, topic in named
        if name is not None
        for partition in topic.partition_indexes
    )


def _offset_delete(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    places = (
        TopicPartition(topic.name, partition.partition_index)
        for topic in incoming.body.topics
        for partition in topic.partitions
    )
    return model.OffsetDeleteRequest(
        asker.request_id, incoming.body.group_id, tuple(place for place in places if cluster.has_partition(*place))
    )


def _describe_groups(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    return model.DescribeGroupsRequest(asker.request_id, tuple(incoming.body.groups), incoming.version)


def _list_groups(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    return model.ListGroupsRequest(
        asker.request_id, tuple(incoming.body.states_filter or ()), tuple(incoming.body.types_filter or ())
    )


def _delete_groups(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    return model.DeleteGroupsRequest(asker.request_id, tuple(incoming.body.groups_names))


def _heartbeat_of_consumer(incoming: Incoming, asker: Asker, cluster: Cluster) -> model.Request:
    body = incoming.body
    names, owned = body.subscribed_topic_names, body.topic_partitions
    # kafka-python has None for the id of zeros, which no topic has.
    ids = (ZERO_UUID if each.topic_id is None else kafka_id_of(each.topic_id) for each in owned or ())
    by_id = ({"topic_id": topic, "partitions": each.partitions} for topic, each in zip(ids, owned or (), strict=True))
    return model.ConsumerGroupHeartbeatRequest(
        asker.request_id,
        body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        owned=None if owned is None else partitions_of(by_id),
        new_member_id=cluster.new_uuid(),
        client_id=incoming.client_id,
        client_host=asker.client_host,
        api_version=incoming.version,
    )


def _describe_consumer_groups(incoming: Incoming, asker: Asker, _: Cluster) -> model.Request:
    return model.ConsumerGroupDescribeRequest(asker.request_id, group_ids=tuple(incoming.body.group_ids))


_TO_MODEL: dict[ApiKey, Callable[[Incoming, Asker, Cluster], model.Request]] = {
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _heartbeat_of_consumer,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumer_groups,
}
GROUP_REQUESTS = frozenset(_TO_MODEL)
