"""Creates topics and partitions when a client asks for them, as test suites do. A topic begins empty, and its records
come at the rate that all topics have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.topics import CreatePartitionsResponse, CreateTopicsResponse

from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from groupledger.jobs.coordinator.frames import Incoming
    from groupledger.jobs.coordinator.world import World

PARTITIONS_MAX = 10_000  # of one topic
TOPICS_MAX = 10_000
PARTITIONS_OF_ALL_MAX = 100_000
_DEFAULT = -1
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ONE_REPLICA = 1


def create_topics(incoming: Incoming, world: World, now_ms: int) -> Any:
    kind, body = CreateTopicsResponse, incoming.body
    topics = []
    for asked in body.topics:
        partitions = len(asked.assignments) or asked.num_partitions
        partitions = _ONE_REPLICA if partitions == _DEFAULT else partitions
        error = _refusal(asked.name, partitions, world)
        if not error and not body.validate_only:
            world.add_topic(asked.name, partitions, now_ms)
        topics.append(
            kind.CreatableTopicResult(
                name=asked.name,
                topic_id=None if error else world.id_of(asked.name),
                error_code=error,
                error_message=error.name if error else None,
                num_partitions=_DEFAULT if error else partitions,
                replication_factor=_DEFAULT if error else _ONE_REPLICA,
                configs=[],
            )
        )
    return kind(version=incoming.version, topics=topics)


def _refusal(name: str, partitions: int, world: World) -> Error:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        return Error.INVALID_TOPIC_EXCEPTION
    if world.id_of(name) is not None:
        return Error.TOPIC_ALREADY_EXISTS
    if len(world.topics.by_name) >= TOPICS_MAX:
        return Error.POLICY_VIOLATION
    return _refusal_of_partitions(partitions, partitions, world)


def _refusal_of_partitions(count: int, added: int, world: World) -> Error:
    if not 1 <= count <= PARTITIONS_MAX:
        return Error.INVALID_PARTITIONS
    return Error.NONE if world.partitions_of_all + added <= PARTITIONS_OF_ALL_MAX else Error.POLICY_VIOLATION


def create_partitions(incoming: Incoming, world: World, now_ms: int) -> Any:
    kind = CreatePartitionsResponse
    results = []
    for asked in incoming.body.topics:
        error = Error.NONE
        if asked.name == OFFSETS_TOPIC or world.id_of(asked.name) is None:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif asked.count <= (there := world.partition_count(asked.name)):
            error = Error.INVALID_PARTITIONS
        else:
            error = _refusal_of_partitions(asked.count, asked.count - there, world)
        if not error and not incoming.body.validate_only:
            world.add_partitions(asked.name, asked.count, now_ms)
        message = error.name if error else None
        results.append(kind.CreatePartitionsTopicResult(name=asked.name, error_code=error, error_message=message))
    return kind(version=incoming.version, results=results)
