"""Client protocols and transaction markers against what Kafka's own classes write and read."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from groupledger.schemas.codec import connect_protocol, consumer_protocol, user_data
from groupledger.schemas.codec.control_record import (
    EndTransaction,
    decode_end_transaction,
    encode_end_transaction,
)
from groupledger.schemas.codec.errors import (
    DecodeError,
    EmptyProtocolError,
    EncodeError,
    LengthPastEndError,
    NullNotAllowedError,
    TruncatedError,
    UnknownControlTypeError,
    UnknownProtocolVersionError,
)
from groupledger.schemas.codec.json_form import fields_to_json_form
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.wire import connect_protocol as connect_formats
from groupledger.schemas.wire import consumer_protocol as consumer_formats
from groupledger.schemas.wire.model import Message
from groupledger.schemas.wire.sticky_assignor import COOPERATIVE_STICKY_USER_DATA, STICKY_USER_DATA
from groupledger.schemas.wire.streams_assignor import SUBSCRIPTION_INFO


class Protocol(NamedTuple):
    decode: Callable[[bytes], ProtocolMessage]
    encode: Callable[[ProtocolMessage], bytes]
    message: Message


PROTOCOLS = {
    "subscription": Protocol(
        consumer_protocol.decode_subscription,
        consumer_protocol.encode_subscription,
        consumer_formats.SUBSCRIPTION,
    ),
    "assignment": Protocol(
        consumer_protocol.decode_assignment,
        consumer_protocol.encode_assignment,
        consumer_formats.ASSIGNMENT,
    ),
    "connect_metadata": Protocol(
        connect_protocol.decode_connect_metadata,
        connect_protocol.encode_connect_metadata,
        connect_formats.METADATA,
    ),
    "connect_assignment": Protocol(
        connect_protocol.decode_connect_assignment,
        connect_protocol.encode_connect_assignment,
        connect_formats.ASSIGNMENT,
    ),
    "sticky": Protocol(user_data.decode_sticky_user_data, user_data.encode_sticky_user_data, STICKY_USER_DATA),
    "cooperative_sticky": Protocol(
        user_data.decode_cooperative_sticky_user_data,
        user_data.encode_cooperative_sticky_user_data,
        COOPERATIVE_STICKY_USER_DATA,
    ),
    "streams": Protocol(
        user_data.decode_streams_subscription_info,
        user_data.encode_streams_subscription_info,
        SUBSCRIPTION_INFO,
    ),
}
FULL_SUBSCRIPTION = ProtocolMessage(
    3,
    {
        "topics": ["orders"],
        "user_data": None,
        "owned_partitions": [{"topic": "orders", "partitions": [0, 7]}],
        "generation_id": 41,
        "rack_id": "rack-a",
    },
)


def test_golden_protocol_reads_as_kafka_reads_it(golden_protocol: SimpleNamespace) -> None:
    """Version and fields equal what Kafka's class makes of the same bytes."""
    protocol = PROTOCOLS[golden_protocol.kind]
    message = protocol.decode(golden_protocol.data)
    known_version = min(message.version, protocol.message.latest_version)
    assert message.version == golden_protocol.version
    assert fields_to_json_form(protocol.message.fields, message.fields, known_version) == golden_protocol.fields


def test_golden_protocol_survives_a_round_trip(golden_protocol: SimpleNamespace) -> None:
    """encode(decode(b)) == b, but for fields that Kafka itself lets go missing at the end."""
    protocol = PROTOCOLS[golden_protocol.kind]
    message = protocol.decode(golden_protocol.data)
    encoded = protocol.encode(message)
    assert protocol.decode(encoded) == message
    if "without delay" in golden_protocol.name or "ends before" in golden_protocol.name:
        assert encoded[: len(golden_protocol.data)] == golden_protocol.data
    else:
        assert encoded == golden_protocol.data


def test_every_strict_prefix_is_refused_or_tolerated_as_kafka_does(
    golden_protocol: SimpleNamespace,
) -> None:
    """A cut inside a field is refused; a cut where Kafka tolerates it still gives the head.

    Tolerated are: missing last fields of Connect since version 1, sticky user data without its
    generation, and the loss of bytes that no field claims.
    """
    protocol = PROTOCOLS[golden_protocol.kind]
    data, whole = golden_protocol.data, protocol.decode(golden_protocol.data)
    fields_end = len(data) - len(whole.trailing_bytes)
    tolerated = [length for length in range(len(data)) if decodes(protocol, data[:length], whole)]
    if golden_protocol.kind == "sticky":
        assert tolerated in ([], [fields_end - 4, fields_end - 3, fields_end - 2, fields_end - 1])
    elif golden_protocol.kind.startswith("connect") and whole.version >= 1:
        assert len(tolerated) <= 3
    else:
        assert tolerated == list(range(fields_end, len(data)))


def decodes(protocol: Protocol, data: bytes, whole: ProtocolMessage) -> bool:
    """Whether a prefix of a message's bytes decodes; then its fields are the whole's or defaults."""
    try:
        message = protocol.decode(data)
    except (TruncatedError, LengthPastEndError, EmptyProtocolError):
        return False
    defaults = {field.column: field.default_value() for field in protocol.message.fields}
    for column, value in message.fields.items():
        assert value in (whole.fields[column], defaults[column])
    return True


def test_a_later_version_is_read_as_the_latest_and_keeps_what_follows() -> None:
    """Version 9 with a field that we do not know gives the fields of version 3 and the rest."""
    later = consumer_protocol.encode_subscription(ProtocolMessage(9, FULL_SUBSCRIPTION.fields, b"\x01\x02"))
    message = consumer_protocol.decode_subscription(later)
    assert message == ProtocolMessage(9, FULL_SUBSCRIPTION.fields, b"\x01\x02")


@pytest.mark.parametrize("kind", ["subscription", "assignment", "connect_metadata", "streams"])
def test_no_bytes_and_negative_versions_differ_from_damage(kind: str) -> None:
    """A coordinator writes empty bytes for a forgotten member; versions start at 0 or 1."""
    protocol = PROTOCOLS[kind]
    with pytest.raises(EmptyProtocolError):
        protocol.decode(b"")
    with pytest.raises(UnknownProtocolVersionError):
        protocol.decode(b"\xff" * 8)


def test_a_version_below_the_first_is_not_written() -> None:
    """Negative versions have no form, whatever the fields."""
    with pytest.raises(EncodeError):
        consumer_protocol.encode_subscription(ProtocolMessage(-1, FULL_SUBSCRIPTION.fields))
    with pytest.raises(EncodeError):
        user_data.encode_streams_subscription_info(ProtocolMessage(0, {"process_id": "A" * 22}))


def test_a_version_that_lacks_a_field_refuses_its_value() -> None:
    """Owned partitions can't be written in version 0, and are not dropped in silence."""
    with pytest.raises(EncodeError):
        consumer_protocol.encode_subscription(ProtocolMessage(0, FULL_SUBSCRIPTION.fields))


def test_connect_tolerates_missing_fields_only_since_version_1() -> None:
    """The eager assignment must be whole and not null; the incremental one may end before it."""
    head = bytes.fromhex("0000 0000 0000 0000000000000007")
    with pytest.raises(TruncatedError):
        connect_protocol.decode_connect_assignment(bytes(2) + head)
    with pytest.raises(NullNotAllowedError):
        connect_protocol.decode_connect_assignment(bytes(2) + head + b"\xff" * 4)
    fields = connect_protocol.decode_connect_assignment(b"\x00\x01" + head).fields
    assert (fields["assignment"], fields["revoked"], fields["delay_ms"]) == (None, None, 0)


def test_connect_allocation_is_an_assignment_again() -> None:
    """The bytes of a worker's allocation are read by the same function as its assignment."""
    fields = {
        "error": 0,
        "leader": "worker-1",
        "leader_url": "http://worker-1:8083/",
        "config_offset": 7,
        "assignment": [{"connector": "sink", "tasks": [-1, 0]}],
        "revoked": [],
        "delay_ms": 300_000,
    }
    allocation = connect_protocol.encode_connect_assignment(ProtocolMessage(2, fields))
    metadata = connect_protocol.encode_connect_metadata(
        ProtocolMessage(2, {"url": "u", "config_offset": 7, "allocation": allocation})
    )
    read = connect_protocol.decode_connect_metadata(metadata).fields["allocation"]
    assert connect_protocol.decode_connect_assignment(read).fields == fields


def test_user_data_has_no_other_versions() -> None:
    """Sticky user data is version 0 or 1, cooperative-sticky 0."""
    with pytest.raises(EncodeError):
        user_data.encode_sticky_user_data(ProtocolMessage(2, {}))
    with pytest.raises(EncodeError):
        user_data.encode_cooperative_sticky_user_data(ProtocolMessage(1, {"generation": 1}))


def test_golden_control_records(golden_control_records: list[dict[str, str]]) -> None:
    """Commit and abort markers are read as Kafka reads them, and written as Kafka writes them."""
    assert len(golden_control_records) == 4
    for golden in golden_control_records:
        key, value = bytes.fromhex(golden["key"]), bytes.fromhex(golden["value"])
        marker = EndTransaction(**json.loads(golden["json"]))
        assert decode_end_transaction(key, value) == marker
        assert encode_end_transaction(marker) == (key, value)
        assert decode_end_transaction(b"\x00\x01" + key[2:] + b"x", value + b"x") == marker


@pytest.mark.parametrize(
    ("key", "value", "error", "part"),
    [
        pytest.param("0000 0002", "0000 00000001", UnknownControlTypeError, "key", id="leader"),
        pytest.param("0000 ffff", "0000 00000001", UnknownControlTypeError, "key", id="unknown"),
        pytest.param("ffff 0000", "0000 00000001", UnknownProtocolVersionError, "key", id="key v-1"),
        pytest.param("0000", "0000 00000001", TruncatedError, "key", id="half a key"),
        pytest.param("0000 0001", "0000 0000", TruncatedError, "value", id="half a value"),
        pytest.param("0000 0001", "", EmptyProtocolError, "value", id="no value"),
        pytest.param("0000 0001", "8000 00000001", UnknownProtocolVersionError, "value", id="v<0"),
    ],
)
def test_control_records_that_end_no_transaction_are_refused(
    key: str, value: str, error: type[DecodeError], part: str
) -> None:
    """Other control types and broken markers have each their reason and part."""
    with pytest.raises(error) as caught:
        decode_end_transaction(bytes.fromhex(key), bytes.fromhex(value))
    assert caught.value.part == part
