"""Feeds hostile bytes to every decoder of the codec: `python bench/fuzz_codec.py --inputs N --seed S`.

Inputs are valid records, the same records damaged one to four times, random bytes, and random bytes after a true record
type and version. The bytes that a group's members carry are made the same way. A seed always gives the same inputs. For
each input:

- the record decodes or is refused with a reason; nothing but DecodeError leaves the codec;
- what decodes has a JSON form, and decoding what it encodes to gives the same record again;
- the same holds for its value, and its members' bytes, read as each client protocol;
- a record that was not damaged decodes, and encodes to the bytes that it came from.

At the end the program prints the counts by reason, which add up to the number of inputs. A failure prints its input as
hex, with the seed.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from groupledger.schemas.codec import connect_protocol, consumer_protocol, user_data
from groupledger.schemas.codec.control_record import decode_end_transaction, encode_end_transaction
from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS, message_codec
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.wire import connect_protocol as connect_formats
from groupledger.schemas.wire import consumer_protocol as consumer_formats
from groupledger.schemas.wire.model import Array, Field, Primitive, RecordType, Struct, WireType
from groupledger.schemas.wire.record_types import RECORD_TYPES

DECODED = "decoded"
POOL_RECORDS = 2_000
TEXTS = ("", "g", "topic-1", "café 消費者 😀", "a" * 127, "a" * 128, "\x00'; --\r\n", "../..")
UUID_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# Lengths, counts and varints at and beyond the limits that a reader accepts.
EDGES = (
    *(
        value.to_bytes(size, "big", signed=True)
        for size in (1, 2, 4)
        for value in (0, 1, -1, -2, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))
    ),
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 9 + b"\x01",
    b"\x81\x00",
)
MEMBER_FORMATS = (
    consumer_formats.SUBSCRIPTION,
    consumer_formats.ASSIGNMENT,
    connect_formats.METADATA,
    connect_formats.ASSIGNMENT,
)
_ProtocolPair = tuple[Callable[[bytes], ProtocolMessage], Callable[[ProtocolMessage], bytes]]
PROTOCOLS: tuple[_ProtocolPair, ...] = (
    (consumer_protocol.decode_subscription, consumer_protocol.encode_subscription),
    (consumer_protocol.decode_assignment, consumer_protocol.encode_assignment),
    (connect_protocol.decode_connect_metadata, connect_protocol.encode_connect_metadata),
    (connect_protocol.decode_connect_assignment, connect_protocol.encode_connect_assignment),
    (user_data.decode_sticky_user_data, user_data.encode_sticky_user_data),
    (
        user_data.decode_cooperative_sticky_user_data,
        user_data.encode_cooperative_sticky_user_data,
    ),
    (user_data.decode_streams_subscription_info, user_data.encode_streams_subscription_info),
)


class FuzzInput(NamedTuple):
    """The bytes of one input; `is_valid` says that a broker could have written them."""

    key: bytes | None
    value: bytes | None
    is_valid: bool


def chance(random: Random, share: float) -> bool:
    return random.random() < share


def random_fields(random: Random, fields: tuple[Field, ...], version: int, *, flexible: bool) -> dict[str, Any]:
    """Returns random values by column, as far as the version has the fields."""
    value = {}
    for field in fields:
        if version not in field.versions or (field.tag is not None and chance(random, 0.5)):
            value[field.column] = field.default_value()
        elif field.is_nullable(version) and chance(random, 0.2):
            value[field.column] = None
        else:
            value[field.column] = random_value(random, field.type, version, flexible=flexible)
    if flexible and chance(random, 0.1):
        value[UNKNOWN_TAGGED_FIELDS] = [(9, random.randbytes(3)), (200, b"")]
    return value


def random_value(random: Random, wire_type: WireType, version: int, *, flexible: bool) -> Any:
    if isinstance(wire_type, Struct):
        return random_fields(random, wire_type.fields, version, flexible=flexible)
    if isinstance(wire_type, Array):
        return [random_value(random, wire_type.element, version, flexible=flexible) for _ in range(random.randrange(4))]
    return SCALARS[wire_type](random)


def random_uuid(random: Random) -> str:
    return "".join(random.choices(UUID_DIGITS, k=21)) + random.choice("AQgw")


def random_integer(bits: int) -> Callable[[Random], int]:
    half = 2 ** (bits - 1)
    return lambda random: random.choice((-half, half - 1, -1, 0, random.randrange(-half, half)))


def member_bytes(random: Random) -> bytes:
    """Returns bytes that a client might put into a member, sometimes damaged."""
    if chance(random, 0.4):
        return random.randbytes(random.randrange(6))
    message = random.choice(MEMBER_FORMATS)
    version = random.randrange(message.latest_version + 1)
    out = bytearray(version.to_bytes(2, "big"))
    fields = random_fields(random, message.fields, version, flexible=False)
    message_codec(message, version).write(out, fields)
    return damaged(random, bytes(out)) if chance(random, 0.3) else bytes(out)


SCALARS: dict[Primitive, Callable[[Random], Any]] = {
    Primitive.INT8: random_integer(8),
    Primitive.INT16: random_integer(16),
    Primitive.UINT16: lambda random: random.randrange(2**16),
    Primitive.INT32: random_integer(32),
    Primitive.INT64: random_integer(64),
    Primitive.UUID: random_uuid,
    Primitive.STRING: lambda random: random.choice(TEXTS),
    Primitive.BYTES: member_bytes,
}


def random_record(random: Random, kind: RecordType) -> Record:
    key = random_fields(random, kind.key, 0, flexible=False)
    if chance(random, 0.05):
        return Record(kind.record_type, key, None, None)
    version = random.randrange(kind.value.latest_version + 1)
    flexible = kind.value.is_flexible(version)
    value = random_fields(random, kind.value.fields, version, flexible=flexible)
    if value.get("protocol_type") is not None and chance(random, 0.7):
        value["protocol_type"] = "consumer"
    return Record(kind.record_type, key, version, value)


def damaged(random: Random, data: bytes) -> bytes:
    """Returns the bytes with one part changed, put in, taken out, repeated or cut off."""
    at = random.randrange(len(data) + 1)
    size = random.choice((1, 1, 2, 4, 16))
    edge = random.choice(EDGES)
    flipped = bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])
    return random.choice(
        (
            data[:at] + flipped + data[at + 1 :],
            data[:at] + edge + data[at + len(edge) :],
            data[:at] + edge + data[at:],
            data[:at] + random.randbytes(size) + data[at:],
            data[:at] + data[at + size :],
            data[:at] + data[at : at + size] * 3 + data[at + size :],
            data[:at],
        )
    )


def valid_input(_random: Random, key: bytes, value: bytes | None) -> FuzzInput:
    return FuzzInput(key, value, is_valid=True)


def random_key_input(random: Random, _key: bytes, value: bytes | None) -> FuzzInput:
    return FuzzInput(random.randbytes(random.randrange(9)) or None, value, is_valid=False)


def random_value_input(random: Random, key: bytes, value: bytes | None) -> FuzzInput:
    version = (value or bytes(2))[:2]
    return FuzzInput(key, version + random.randbytes(random.randrange(60)), is_valid=False)


def damaged_input(random: Random, key: bytes, value: bytes | None) -> FuzzInput:
    for _ in range(random.randrange(1, 5)):
        if value is None or chance(random, 0.1):
            key = damaged(random, key)
        else:
            value = damaged(random, value)
    return FuzzInput(key, value, is_valid=False)


def fuzz_inputs(seed: int, count: int) -> Iterator[FuzzInput]:
    random = Random(seed)  # noqa: S311  # a seed must give the same inputs again
    pool = [encode_record(random_record(random, random.choice(RECORD_TYPES))) for _ in range(min(count, POOL_RECORDS))]
    makers = (valid_input, random_key_input, random_value_input, damaged_input)
    for _ in range(count):
        (make,) = random.choices(makers, weights=(10, 5, 5, 80))
        yield make(random, *random.choice(pool))


def check_record(key: bytes | None, value: bytes | None) -> str:
    """Returns DECODED or the reason. Raises AssertionError, or any other error, if the codec violates a rule above."""
    try:
        record = decode_record(key, value)
    except DecodeError as error:
        return error.reason
    assert decode_record(*encode_record(record)) == record
    assert to_json_form(record)
    for member in (record.value or {}).get("members", ()):
        check_protocols(member["subscription"])
        check_protocols(member["assignment"])
    return DECODED


def check_protocols(data: bytes) -> None:
    """Reads the bytes as each client protocol, and as both halves of a transaction marker."""
    for decode, encode in PROTOCOLS:
        try:
            message = decode(data)
        except DecodeError:
            continue
        assert decode(encode(message)) == message
    try:
        marker = decode_end_transaction(data, data)
    except DecodeError:
        return
    assert decode_end_transaction(*encode_end_transaction(marker)) == marker


def check(fuzz_input: FuzzInput) -> str:
    key, value, is_valid = fuzz_input
    outcome = check_record(key, value)
    if is_valid:
        assert outcome == DECODED
        assert encode_record(decode_record(key, value)) == (key, value)
    if value is not None:
        check_protocols(value)
    return outcome


def fuzz(seed: int, count: int) -> Counter[str]:
    """Returns how many inputs decoded, and how many were refused, by reason; the counts add up to `count`."""
    outcomes: Counter[str] = Counter()
    fuzz_input = None
    try:
        for fuzz_input in fuzz_inputs(seed, count):
            outcomes[check(fuzz_input)] += 1
    except Exception:
        print(f"seed {seed}, input {outcomes.total()}: {fuzz_input!r}")
        raise
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description="Feed hostile bytes to the codec.")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcomes = fuzz(options.seed, options.inputs)
    print(f"seed {options.seed}")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:>12,}  {outcome}")
    print(f"{outcomes.total():>12,}  inputs")
    assert outcomes.total() == options.inputs


if __name__ == "__main__":
    main()
