"""Renders the lines of a 4.2 broker's request log about group APIs: `kafka.request.logger` at DEBUG, JSON since
KIP-673.

A line is written when the answer has been sent, also to a client that has hung up. Fields are those of
`schemas.kafka.request_fields`, in their order; their values are the attributes of the coordinator's messages, bytes in
base64. For requests of a real client, they are the fields that were sent. Virtual time has whole milliseconds: the
total time of a request is the time for which it waited at the broker, and a constant fraction of a millisecond.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model.apis import API_OF_REQUEST
from groupledger.coordinator.model.messages import OffsetCommitRequest
from groupledger.schemas.kafka import request_fields as names
from groupledger.schemas.kafka import request_line as line
from groupledger.schemas.kafka.log4j_line import render_log_line
from groupledger.schemas.kafka.request_fields import BODIES, ListOf
from groupledger.schemas.wire.model import snake_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.simulator.network import Exchange
    from groupledger.schemas.kafka.api_keys import ApiKey
    from groupledger.schemas.kafka.request_fields import Fields

_COMMITS_BY_TOPIC_ID_SINCE = 10
# Where an attribute is not called as the field is.
_ATTRIBUTES = {
    names.GENERATION_ID_OR_MEMBER_EPOCH: "generation_id",
    names.GROUPS_NAMES: "group_ids",
    names.PARTITION_INDEX: "partition",
    names.COMMITTED_OFFSET: "offset",
    names.COMMITTED_LEADER_EPOCH: "leader_epoch",
    names.COMMITTED_METADATA: "metadata",
    names.ERROR_CODE: "error",
    names.TOPIC_PARTITIONS: "owned",
    names.STATUS_CODE: "code",
    names.STATUS_DETAIL: "detail",
    names.PARTITIONS_BY_USER_ENDPOINT: "endpoints",
}
# Fields that the coordinator's messages do not have.
_LEFT_OUT: dict[str, Callable[[Any], Any]] = {
    names.THROTTLE_TIME_MS: lambda _: 0,
    names.ERROR_MESSAGE: lambda _: None,
    names.TRANSACTIONAL_ID: lambda request: f"transaction-{request.producer_id}",
    names.ACTIVE_TASKS: lambda response: response.assignment and response.assignment.active,
    names.STANDBY_TASKS: lambda response: response.assignment and response.assignment.standby,
    names.WARMUP_TASKS: lambda response: response.assignment and response.assignment.warmup,
    names.TASK_OFFSETS: lambda _: None,
    names.TASK_END_OFFSETS: lambda _: None,
    names.ACCEPTABLE_RECOVERY_LAG: lambda _: 0,
    names.TASK_OFFSET_INTERVAL_MS: lambda _: 0,
}


def render_line(exchange: Exchange) -> str:
    """Returns the line of one exchange without its line end. Its time is in UTC."""
    body = json.dumps(_body(exchange), separators=(",", ":"), ensure_ascii=False)
    return render_log_line(exchange.sent_at_ms, "DEBUG", line.COMPLETED + body, line.LOGGER)


def _body(exchange: Exchange) -> dict[str, Any]:
    api, version, request, response = _bodies_of(exchange)
    parked_ms = exchange.sent_at_ms - exchange.received_at_ms
    host = exchange.client_host.removeprefix("/")
    return {
        line.IS_FORWARDED: False,
        line.HEADER: {
            line.API_KEY: api,
            line.API_VERSION: version,
            line.CORRELATION_ID: exchange.request.request_id & 0x7FFFFFFF,
            line.CLIENT_ID: exchange.client_id,
            "requestApiKeyName": api.name,
        },
        line.REQUEST: request,
        line.RESPONSE: response,
        line.CONNECTION: f"10.0.1.{exchange.broker_id}:9092-{host}:{32768 + exchange.connection_id % 28000}"
        f"-{exchange.broker_id}-{exchange.connection_id}",
        line.TOTAL_TIME_MS: parked_ms + 0.375,
        "requestQueueTimeMs": 0.0625,
        "localTimeMs": 0.125,
        "remoteTimeMs": float(parked_ms),
        "throttleTimeMs": 0,
        "responseQueueTimeMs": 0.0625,
        "sendTimeMs": 0.125,
        line.SECURITY_PROTOCOL: "PLAINTEXT",
        line.PRINCIPAL: "User:ANONYMOUS",
        line.LISTENER: "PLAINTEXT",
        line.CLIENT_INFORMATION: dict(zip((line.SOFTWARE_NAME, line.SOFTWARE_VERSION), exchange.software, strict=True)),
    }


def _bodies_of(exchange: Exchange) -> tuple[ApiKey, int, dict[str, Any], dict[str, Any]]:
    """Returns API, version and the two bodies."""
    request, wire = exchange.request, exchange.on_the_wire
    if wire is not None:
        return wire.api, wire.version, *wire.bodies()
    api = API_OF_REQUEST[type(request)]
    bodies = BODIES[api]
    version = getattr(request, "api_version", bodies.version)
    answer = _struct(bodies.response, exchange.response, request)
    return api, version, _struct(bodies.request, request, request), answer


def _struct(fields: Fields, source: Any, request: Request) -> dict[str, Any]:
    found = {}
    for field in fields:
        if not isinstance(field, ListOf):
            found[field] = _value(field, source)
        elif field.name == names.TOPICS:
            found[field.name] = _topics(field, source, request)
        else:
            elements = _attribute_of(field.name, source)
            found[field.name] = elements and [_element(field.fields, each, request) for each in elements]
    return found


def _attribute_of(name: str, source: Any) -> Any:
    value = getattr(source, _attribute(name), _LEFT_OUT)
    return _LEFT_OUT[name](source) if value is _LEFT_OUT else value


def _value(name: str, source: Any) -> Any:
    value = _attribute_of(name, source)
    plain = _plain(value)
    return {names.TOPIC_PARTITIONS: plain} if isinstance(value, dict) and name == names.ASSIGNMENT else plain


def _plain(value: Any) -> Any:
    """Returns a value as it is printed; a dict has partitions by topic id, a dataclass is a struct."""
    if isinstance(value, dict):
        return [{names.TOPIC_ID: topic_id, names.PARTITIONS: numbers} for topic_id, numbers in value.items()]
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    if is_dataclass(value):
        return {_camel_case(each.name): _plain(getattr(value, each.name)) for each in fields_of(value)}
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


@cache
def _attribute(name: str) -> str:
    return _ATTRIBUTES.get(name) or snake_case(name)


def _element(fields: Fields, source: Any, request: Request) -> dict[str, Any]:
    """Protocols and assignments are pairs of a name and bytes."""
    if type(source) is tuple:
        return {str(name): _plain(value) for name, value in zip(fields, source, strict=True)}
    return _struct(fields, source, request)


class _Place(NamedTuple):
    topic: str
    partition: int


def _topics(field: ListOf, source: Any, request: Request) -> list[dict[str, Any]] | None:
    """Returns rows with a topic and a partition, gathered by topic in the order of the topics' first rows."""
    rows = source.offsets if hasattr(source, "offsets") else source.partitions
    if rows is None:
        return None
    _, partitions = field.fields
    gathered: dict[str, list[Any]] = {}
    for row in rows:
        place = row if hasattr(row, "topic") else _Place(*row)
        shown = _struct(partitions.fields, place, request) if isinstance(partitions, ListOf) else place.partition
        gathered.setdefault(place.topic, []).append(shown)
    name = partitions.name if isinstance(partitions, ListOf) else partitions
    return [{**_topic(topic, request), name: found} for topic, found in gathered.items()]


def _topic(topic: str, request: Request) -> dict[str, str]:
    """Since API 10 an OffsetCommit names topics by their ids alone."""
    if not isinstance(request, OffsetCommitRequest) or request.api_version < _COMMITS_BY_TOPIC_ID_SINCE:
        return {names.TOPIC_NAME: topic}
    return {names.TOPIC_ID: next(each.topic_id for each in request.offsets if each.topic == topic)}
