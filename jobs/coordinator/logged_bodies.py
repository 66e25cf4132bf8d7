"""Converts a Kafka message to JSON as in a broker's request log, with the fields of its version in their order.

The names are those of Kafka's definitions; bytes are base64, and ids are Kafka's 22 characters. Tagged fields are left
out, as a broker leaves out those that have their default: no API about groups has others.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Any

from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.kafka.uuids import kafka_id_of

_NOT_ASKED_FOR = -(2**31)  # Kafka's authorizedOperations of who did not ask for them, for which kafka-python has None


def body_of(message: Any, version: int) -> dict[str, Any]:
    return _struct(message, message.fields.values(), version)


def _struct(source: Any, fields: Any, version: int) -> dict[str, Any]:
    return {
        _camel_case(field.name): _value(field, getattr(source, field.name), version)
        for field in fields
        if field.for_version_q(version) and field.tag is None
    }


def _value(field: Any, value: Any, version: int) -> Any:
    if value is None:
        return {"uuid": ZERO_UUID, "bitfield": _NOT_ASKED_FOR}.get(field.type_str)
    if field.is_struct():
        return _struct(value, field.fields.values(), version)
    if field.is_struct_array():
        return [_struct(each, field.fields.values(), version) for each in value]
    if field.type_str == "uuid":
        return kafka_id_of(value)
    return b64encode(value).decode() if isinstance(value, (bytes, bytearray, memoryview)) else value


@cache
def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
