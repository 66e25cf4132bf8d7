"""Makes two records of every type in every value version: one with every field filled, and one with every field empty.

Today's brokers don't write most of these, which are found in old logs. They are written to an ordinary topic, since
DumpLogSegments decodes the segments of any topic: so Kafka's own classes check our encoder, decoder and JSON form.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.wire.model import Array, Field, Primitive, RecordType, Struct, WireType
from groupledger.schemas.wire.record_types import RECORD_TYPES
from lab.kafka.topics import make_topics

TOPIC = "samples"

FILLED: dict[Primitive, Any] = {
    Primitive.INT8: 2,
    Primitive.INT16: -32_768,
    Primitive.UINT16: 65_535,
    Primitive.INT32: 2_147_483_647,
    Primitive.INT64: -9_223_372_036_854_775_808,
    Primitive.UUID: "_-9_AAAAQACAAAAAAAAAAQ",
    Primitive.STRING: 'größe 😀\x00\n"\\',
    Primitive.BYTES: b"\x00\xffbytes",
}


def all_samples() -> list[Record]:
    return [
        Record(
            kind.record_type, _struct(kind.key, 0, bare=bare), version, _struct(kind.value.fields, version, bare=bare)
        )
        for kind in RECORD_TYPES
        for version in readable_versions(kind)
        for bare in (False, True)
    ]


def produce(bootstrap_servers: str) -> None:
    """Write the samples, in their order, to the only partition of their topic."""
    make_topics(bootstrap_servers, {TOPIC: 1})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for sample in all_samples():
        key, value = encode_record(sample)
        producer.produce(TOPIC, key=key, value=value, partition=0)
    producer.flush()


def readable_versions(kind: RecordType) -> range:
    """Returns the versions that Kafka reads: of type 0 only the first, although it once had the versions of type
    1."""
    return range(1) if kind.id == 0 else range(kind.value.latest_version + 1)


def _struct(fields: tuple[Field, ...], version: int, *, bare: bool) -> dict[str, Any]:
    return {
        field.column: _field(field, version, bare=bare) if version in field.versions else field.default_value()
        for field in fields
    }


def _field(field: Field, version: int, *, bare: bool) -> Any:
    if not bare:
        return _filled(field.type, version)
    return None if field.is_nullable(version) else field.default_value()


def _filled(wire_type: WireType, version: int) -> Any:
    if isinstance(wire_type, Struct):
        return _struct(wire_type.fields, version, bare=False)
    if isinstance(wire_type, Array):
        return [_filled(wire_type.element, version)] * 2
    return FILLED[wire_type]
