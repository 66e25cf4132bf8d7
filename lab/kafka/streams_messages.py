"""Translates requests about streams groups and their answers to and from Kafka's messages (see `group_messages`).

A broker holds tasks, endpoints, topics and configs in maps, so their order means nothing: they are sorted in answers.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.streams.configured import Status
from groupledger.coordinator.model.groups.streams.endpoints import EndpointPartitions
from groupledger.coordinator.model.groups.streams.member import Endpoint
from groupledger.coordinator.model.groups.streams.tasks import TasksByRole
from groupledger.coordinator.model.groups.streams.topology import KeyValue, Subtopology, TopicInfo, Topology
from groupledger.coordinator.model.handlers.streams import messages
from groupledger.jobs.kafka.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.groups.streams.tasks import TaskIds
    from groupledger.coordinator.model.messages import Request, Response

VERSION = 0


def _heartbeat_of_streams(request: messages.StreamsGroupHeartbeatRequest) -> Any:
    kind = StreamsGroupHeartbeatRequest
    return kind(
        version=VERSION,
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_information_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=_to_wire(kind, "topology", request.topology),
        active_tasks=_tasks(kind, "active_tasks", request.active_tasks),
        standby_tasks=_tasks(kind, "standby_tasks", request.standby_tasks),
        warmup_tasks=_tasks(kind, "warmup_tasks", request.warmup_tasks),
        process_id=request.process_id,
        user_endpoint=_to_wire(kind, "user_endpoint", request.user_endpoint),
        client_tags=None
        if request.client_tags is None
        else [_to_wire(kind, "client_tags", tag) for tag in request.client_tags],
        shutdown_application=request.shutdown_application,
    )


def _to_wire(kind: Any, name: str, part: Any) -> Any:
    """Returns a part of a request, whose fields have the names of the message's, as the message's own kind of it."""
    if not is_dataclass(part):
        return [_to_wire(kind, name, each) for each in part] if isinstance(part, tuple) else part
    inner = kind.fields[name].data_class
    return inner(**{each.name: _to_wire(inner, each.name, getattr(part, each.name)) for each in fields(part)})


def _tasks(kind: Any, name: str, given: TaskIds | None) -> Any:
    inner = kind.fields[name].data_class
    return None if given is None else [inner(subtopology_id=each, partitions=[*numbers]) for each, numbers in given]


def _describe_streams_groups(request: messages.StreamsGroupDescribeRequest) -> Any:
    return StreamsGroupDescribeRequest(version=VERSION, group_ids=[*request.group_ids])


def _heard_by_streams(answer: Any, request: Request) -> Response:
    endpoints = answer.partitions_by_user_endpoint
    return messages.StreamsGroupHeartbeatResponse(
        request.request_id,
        error=Error(answer.error_code),
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=tuple(Status(each.status_code, each.status_detail) for each in answer.status),
        assignment=None if answer.active_tasks is None else _by_role(answer),
        endpoint_information_epoch=answer.endpoint_information_epoch,
        endpoints=None if endpoints is None else tuple(map(_behind_endpoint, endpoints)),
    )


def _by_role(given: Any) -> TasksByRole:
    lists = given.active_tasks, given.standby_tasks, given.warmup_tasks
    return TasksByRole(*(_sorted((each.subtopology_id, each.partitions) for each in tasks) for tasks in lists))


def _behind_endpoint(given: Any) -> EndpointPartitions:
    lists = given.active_partitions, given.standby_partitions
    found = (_sorted((each.topic, each.partitions) for each in partitions) for partitions in lists)
    return EndpointPartitions(Endpoint(given.user_endpoint.host, given.user_endpoint.port), *found)


def _sorted(given: Iterable[tuple[str, Iterable[int]]]) -> TaskIds:
    return tuple(sorted((name, tuple(sorted(numbers))) for name, numbers in given))


def _streams_groups_described(answer: Any, request: Request) -> Response:
    groups = tuple(
        messages.DescribedStreamsGroup(
            group_id=group.group_id,
            error=Error(group.error_code),
            group_state=group.group_state,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            topology=None if group.topology is None else _topology(group.topology),
            members=tuple(sorted(map(_streams_described, group.members), key=lambda member: member.member_id)),
        )
        for group in answer.groups
    )
    return messages.StreamsGroupDescribeResponse(request.request_id, groups=groups)


def _topology(given: Any) -> Topology:
    subtopologies = (
        Subtopology(
            subtopology_id=each.subtopology_id,
            source_topics=tuple(each.source_topics),
            state_changelog_topics=tuple(map(_topic, each.state_changelog_topics)),
            repartition_sink_topics=tuple(each.repartition_sink_topics),
            repartition_source_topics=tuple(map(_topic, each.repartition_source_topics)),
        )
        for each in given.subtopologies
    )
    return Topology(given.epoch, tuple(subtopologies))


def _topic(given: Any) -> TopicInfo:
    return TopicInfo(given.name, given.partitions, given.replication_factor, _key_values(given.topic_configs))


def _key_values(given: Iterable[Any]) -> tuple[KeyValue, ...]:
    return tuple(sorted((KeyValue(each.key, each.value) for each in given), key=lambda each: each.key))


def _streams_described(member: Any) -> messages.DescribedStreamsMember:
    endpoint = member.user_endpoint
    return messages.DescribedStreamsMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=_key_values(member.client_tags),
        assignment=_by_role(member.assignment),
        target=_by_role(member.target_assignment),
    )


TO_WIRE: dict[type[Request], Callable[[Any], Any]] = {
    messages.StreamsGroupHeartbeatRequest: _heartbeat_of_streams,
    messages.StreamsGroupDescribeRequest: _describe_streams_groups,
}
FROM_WIRE: dict[type[Request], Callable[[Any, Any], Response]] = {
    messages.StreamsGroupHeartbeatRequest: _heard_by_streams,
    messages.StreamsGroupDescribeRequest: _streams_groups_described,
}
