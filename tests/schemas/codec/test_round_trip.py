"""Values that Hypothesis makes from the formats, for every record type and version, there and back."""

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.schemas.codec.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.wire.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from groupledger.schemas.wire.model import Array, Field, Message, Primitive, Struct, WireType
from groupledger.schemas.wire.record_types import RECORD_TYPES

pytestmark = pytest.mark.slow


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SCALARS: dict[Primitive, st.SearchStrategy[Any]] = {
    Primitive.INT8: integers(8),
    Primitive.INT16: integers(16),
    Primitive.UINT16: st.integers(0, 2**16 - 1),
    Primitive.INT32: integers(32),
    Primitive.INT64: integers(64),
    Primitive.UUID: st.binary(min_size=16, max_size=16).map(lambda raw: urlsafe_b64encode(raw)[:-2].decode("ascii")),
    Primitive.STRING: st.text(max_size=20) | st.just("a" * 300),
    Primitive.BYTES: st.binary(max_size=20),
}
UNKNOWN_TAGS = st.dictionaries(st.integers(9, 2**32 - 1), st.binary(max_size=3), min_size=1, max_size=2)


def values(wire_type: WireType, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, Struct):
        return structs(wire_type.fields, version, flexible=flexible)
    if isinstance(wire_type, Array):
        return st.lists(values(wire_type.element, version, flexible=flexible), max_size=2)
    return SCALARS[wire_type]


def structs(fields: tuple[Field, ...], version: int, *, flexible: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Dicts that have every column; those that the version lacks have their default."""
    columns = {}
    for field in fields:
        strategy: st.SearchStrategy[Any] = st.builds(field.default_value)
        if version in field.versions:
            strategy = values(field.type, version, flexible=flexible)
            if field.is_nullable(version):
                strategy = st.none() | strategy
            if field.tag is not None:
                strategy = st.builds(field.default_value) | strategy
        columns[field.column] = strategy
    dicts = st.fixed_dictionaries(columns)
    if not flexible:
        return dicts
    tagged = st.builds(lambda value, tags: value | {UNKNOWN_TAGGED_FIELDS: sorted(tags.items())}, dicts, UNKNOWN_TAGS)
    return dicts | tagged


def messages(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return structs(message.fields, version, flexible=message.is_flexible(version))


RECORDS = {
    (kind.record_type, version): st.builds(
        Record,
        st.just(kind.record_type),
        structs(kind.key, 0, flexible=False),
        st.just(version),
        messages(kind.value, version),
    )
    for kind in RECORD_TYPES
    for version in range(kind.value.latest_version + 1)
}
every_record = pytest.mark.parametrize(("record_type", "version"), RECORDS)


@every_record
@settings(max_examples=10)
@given(data=st.data())
def test_any_record_survives_a_round_trip(record_type: str, version: int, data: st.DataObject) -> None:
    """decode(encode(r)) == r for values of all types at their edges, and the JSON form is JSON."""
    record = data.draw(RECORDS[record_type, version])
    encoded = encode_record(record)
    assert decode_record(*encoded) == record
    form = to_json_form(record)
    assert json.loads(json.dumps(form)) == form


@every_record
@settings(max_examples=10)
@given(data=st.data())
def test_damaged_bytes_that_decode_mean_what_they_encode_to(
    record_type: str, version: int, data: st.DataObject
) -> None:
    """Bytes that no broker writes, but that decode, have a value that is stable when written."""
    key, value = encode_record(data.draw(RECORDS[record_type, version]))
    assert value is not None
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = value[:at] + data.draw(st.binary(min_size=1, max_size=2)) + value[at + 1 :]
    with suppress(DecodeError):
        record = decode_record(key, damaged)
        assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize("version", range(4))
@settings(max_examples=10)
@given(data=st.data())
def test_any_consumer_protocol_message_survives_a_round_trip(version: int, data: st.DataObject) -> None:
    """Subscriptions and assignments of each version survive, with and without further bytes after them."""
    trailing = data.draw(st.binary(max_size=3))
    subscription = ProtocolMessage(version, data.draw(messages(SUBSCRIPTION, version)), trailing)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assignment = ProtocolMessage(version, data.draw(messages(ASSIGNMENT, version)), trailing)
    assert decode_assignment(encode_assignment(assignment)) == assignment
