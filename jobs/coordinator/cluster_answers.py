"""Answers requests about the cluster: its APIs, nodes and topics, and the coordinator of a group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata.api_versions import ApiVersionsResponse
from kafka.protocol.metadata.find_coordinator import FindCoordinatorResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from groupledger.jobs.coordinator.apis import SERVED
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.request_fields import KEY_TYPE_OF_GROUPS

if TYPE_CHECKING:
    from groupledger.jobs.coordinator.frames import Incoming
    from groupledger.jobs.coordinator.world import World

_SOFTWARE_IS_SENT_SINCE = 3
# The names and versions of client software that Kafka accepts.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_METADATA_OF_ALL_IS_NULL_SINCE = 1
_COORDINATORS_OF_MANY_SINCE = 4
_KEY_TYPE_OF_TRANSACTIONS = 1
_BROKERS_ENDPOINT = 1
_NO_NODE = -1


def api_versions(incoming: Incoming, _: World) -> Any:
    """Returns the served APIs. If the request's own version is not served, returns UNSUPPORTED_VERSION with the served
    versions of ApiVersions; if the name or version of the client's software is invalid, INVALID_REQUEST."""
    api_kind = ApiVersionsResponse.ApiVersion
    apis = {
        key: api_kind(api_key=key, min_version=api.min_version, max_version=api.max_version)
        for key, api in SERVED.items()
    }
    error, body = Error.NONE, incoming.body
    if body is None:
        error = Error.UNSUPPORTED_VERSION
    elif incoming.version >= _SOFTWARE_IS_SENT_SINCE and software_of(incoming) is None:
        error = Error.INVALID_REQUEST
    shown = [apis[ApiKey.API_VERSIONS]] if body is None else [] if error else list(apis.values())
    return ApiVersionsResponse(version=incoming.version, error_code=error, api_keys=shown)


def software_of(incoming: Incoming) -> tuple[str, str] | None:
    """Returns the name and the version of the client's software; None if the request lacks them, or one is invalid."""
    if incoming.version < _SOFTWARE_IS_SENT_SINCE:
        return None
    software = (incoming.body.client_software_name, incoming.body.client_software_version)
    return software if all(_SOFTWARE.fullmatch(each) for each in software) else None


def metadata(incoming: Incoming, world: World) -> Any:
    kind, version, asked = MetadataResponse, incoming.version, incoming.body.topics
    is_of_all = asked is None if version >= _METADATA_OF_ALL_IS_NULL_SINCE else not asked
    if is_of_all:
        topics = [_topic(name, world) for name in (*world.topics.by_name, OFFSETS_TOPIC)]
    else:
        topics = [_described_topic(each, world) for each in asked]
    brokers = [
        kind.MetadataResponseBroker(node_id=node, host=address.host, port=address.port)
        for node, address in world.addresses.items()
    ]
    controller = next(iter(world.addresses))
    return kind(version=version, brokers=brokers, cluster_id=world.cluster_id, controller_id=controller, topics=topics)


def _described_topic(asked: Any, world: World) -> Any:
    """Answers for a topic by its name, or by its id where it has no name. No topic is ever created."""
    name = asked.name
    if name is None:
        name = world.topic_of(asked.topic_id)
        if name is None:
            kind = MetadataResponse.MetadataResponseTopic
            return kind(error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=[])
    if world.id_of(name) is None:
        kind = MetadataResponse.MetadataResponseTopic
        return kind(error_code=Error.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[])
    return _topic(name, world)


def _topic(name: str, world: World) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    partitions = []
    for index in range(world.partition_count(name)):
        leader = world.leader_of(name, index)
        partitions.append(
            kind.MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=0, replica_nodes=[leader], isr_nodes=[leader]
            )
        )
    is_internal = name == OFFSETS_TOPIC
    return kind(name=name, topic_id=world.id_of(name), is_internal=is_internal, partitions=partitions)


def describe_cluster(incoming: Incoming, world: World) -> Any:
    kind, version = DescribeClusterResponse, incoming.version
    if incoming.body.endpoint_type != _BROKERS_ENDPOINT:
        return kind(version=version, error_code=Error.UNSUPPORTED_ENDPOINT_TYPE, brokers=[])
    brokers = [
        kind.DescribeClusterBroker(broker_id=node, host=address.host, port=address.port)
        for node, address in world.addresses.items()
    ]
    controller = next(iter(world.addresses))
    return kind(version=version, cluster_id=world.cluster_id, controller_id=controller, brokers=brokers)


def find_coordinator(incoming: Incoming, world: World) -> Any:
    kind, version, body = FindCoordinatorResponse, incoming.version, incoming.body
    if version >= _COORDINATORS_OF_MANY_SINCE:
        found = []
        for key in body.coordinator_keys:
            error, node = _coordinator_of(key, body.key_type, world)
            found.append(
                kind.Coordinator(key=key, error_code=error, error_message=_message(error), **_node(node, world))
            )
        return kind(version=version, coordinators=found)
    error, node = _coordinator_of(body.key, body.key_type, world)
    return kind(version=version, error_code=error, error_message=_message(error), **_node(node, world))


def _coordinator_of(key: str, key_type: int, world: World) -> tuple[Error, int]:
    if key_type not in (KEY_TYPE_OF_GROUPS, _KEY_TYPE_OF_TRANSACTIONS):
        return Error.INVALID_REQUEST, _NO_NODE
    node = world.brokers.coordinator_of(key)
    return (Error.COORDINATOR_NOT_AVAILABLE, _NO_NODE) if node is None else (Error.NONE, node)


def _node(node: int, world: World) -> dict[str, Any]:
    if node == _NO_NODE:
        return {"node_id": _NO_NODE, "host": "", "port": -1}
    address = world.addresses[node]
    return {"node_id": node, "host": address.host, "port": address.port}


def _message(error: Error) -> str | None:
    return error.name if error else None
