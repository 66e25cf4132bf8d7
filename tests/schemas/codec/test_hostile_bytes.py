"""Bytes made to break the codec: damage at every position, lengths that lie, and the fuzzer.

Every byte of every golden key and value is changed. All 256 values are tried in one record for each type and version,
up to 300 bytes; in the others the eight single bits and the edge values, and above 400 bytes four values. With
EXHAUSTIVE=1 in the environment all 256 are tried everywhere, which takes a quarter of an hour. All inputs are
enumerated or seeded, so a failure repeats."""

import os
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import ModuleType, SimpleNamespace

import pytest

from groupledger.schemas.codec.connect_protocol import decode_connect_assignment, decode_connect_metadata
from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.codec.errors import DecodeError, LengthPastEndError, StringTooLongError
from groupledger.schemas.codec.primitives import write_unsigned_varint
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.codec.user_data import decode_sticky_user_data
from groupledger.schemas.wire.record_types import RECORD_TYPE_BY_NAME

ALL_BYTES = range(256)
EDGE_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)
BOMB_ITEMS = 4_000
# What a dict of a few fields takes where the bytes hold an empty struct: 3 bytes become 304.
MEMORY_PER_BYTE_MAX = 128
MEMORY_BASE_BYTES = 64 * 1024


def replacements(name: str, size: int, byte: int) -> Iterable[int]:
    """Returns the values that replace one byte of a golden record of `size` bytes."""
    is_representative = name.endswith((" typical", " range")) and size <= 300
    if is_representative or "EXHAUSTIVE" in os.environ:
        return ALL_BYTES
    if size <= 400:
        return {*(byte ^ 1 << bit for bit in range(8)), *EDGE_BYTES}
    return (0x00, 0xFF, byte ^ 0x01, byte ^ 0x80)


@pytest.mark.slow
def test_a_changed_byte_lets_no_other_error_out(golden_record: SimpleNamespace) -> None:
    """A golden record with one byte of its key or value changed decodes or is refused by reason."""
    key, value = golden_record.key, golden_record.value
    whole = key + (value or b"")
    reasons = {"decoded"}
    for at, byte in enumerate(whole):
        for replacement in replacements(golden_record.name, len(whole), byte):
            changed = whole[:at] + bytes([replacement]) + whole[at + 1 :]
            changed_value = None if value is None else changed[len(key) :]
            reasons.add(reason_of(changed[: len(key)], changed_value))
    assert reasons <= {"decoded", *(error.reason for error in DecodeError.__subclasses__())}
    assert {"decoded", "length_past_end", "unknown_record_type"} <= reasons


def reason_of(key: bytes, value: bytes | None) -> str:
    try:
        decode_record(key, value)
    except DecodeError as error:
        return error.reason
    return "decoded"


@pytest.mark.slow
def test_a_hundred_thousand_hostile_inputs(fuzzer: ModuleType) -> None:
    """Random and structure-aware bytes: every input decodes or is refused, and all are counted."""
    outcomes = fuzzer.fuzz(seed=20260211, count=100_000)
    assert outcomes.total() == 100_000
    assert outcomes[fuzzer.DECODED] > 10_000
    assert len(outcomes) > 12


def test_the_fuzzer_gives_the_same_inputs_for_a_seed(fuzzer: ModuleType) -> None:
    """A failing input can be made again from the seed that is printed with it."""
    first, again, other = (list(fuzzer.fuzz_inputs(seed, 200)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_the_fuzzer_notices_an_error_of_another_type(
    fuzzer: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted bug makes it fail, with seed and input printed: the canary of the harness."""

    def broken(_key: bytes | None, _value: bytes | None) -> None:
        raise IndexError

    monkeypatch.setattr(fuzzer, "decode_record", broken)
    with pytest.raises(IndexError):
        fuzzer.fuzz(seed=3, count=10)
    assert "seed 3, input 0: FuzzInput(key=" in capsys.readouterr().out


# ---- memory


def varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def peak_bytes(decode: Callable[[], object]) -> int:
    """The most memory that the call held at once, whether it decodes or refuses."""
    tracemalloc.start()
    try:
        with suppress(DecodeError):
            decode()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def key_of(record_type: str) -> bytes:
    """A key of the record type whose fields are all at their defaults."""
    fields = RECORD_TYPE_BY_NAME[record_type].key
    defaults = {field.column: field.default_value() for field in fields}
    return encode_record(Record(record_type, defaults, None, None))[0]


COMMIT = "0000000000000000 00000000"
GROUP = "0000 00000000 ffff ffff 0000000000000000"
LIES = {
    "commit metadata of 32,767 bytes": ("offset_commit", f"0003 {COMMIT} 7fff"),
    "compact metadata of 2^31 bytes": ("offset_commit", f"0004 {COMMIT} ffffffff07"),
    "2^31-1 members": ("group_metadata", f"0003 {GROUP} 7fffffff"),
    "-2 members": ("group_metadata", f"0003 {GROUP} fffffffe"),
    "a length of 10 varint bytes": ("offset_commit", f"0004 {COMMIT} {'ff' * 9} 01"),
    "2^32-1 topics": ("consumer_group_regular_expression", "0000 ffffffff0f"),
    "2^32-1 tags": ("consumer_group_metadata", "0000 00000000 ffffffff0f"),
    "a tag of 2^32-1 bytes": ("consumer_group_metadata", "0000 00000000 01 09 ffffffff0f"),
    "arrays in arrays": ("streams_group_topology", "0000 00000000 02 01 01 01 ffffffff07"),
}


@pytest.mark.parametrize(("record_type", "value_hex"), LIES.values(), ids=LIES)
def test_a_length_that_lies_costs_no_memory(record_type: str, value_hex: str) -> None:
    """A few bytes that promise gigabytes are refused before anything of that size is made."""
    key, value = key_of(record_type), bytes.fromhex(value_hex)
    with pytest.raises(DecodeError) as caught:
        decode_record(key, value)
    assert caught.value.reason in {"length_past_end", "negative_length", "varint_too_long"}
    assert peak_bytes(lambda: decode_record(key, value)) < MEMORY_BASE_BYTES


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        pytest.param(decode_subscription, "0003 7fffffff", id="topics"),
        pytest.param(decode_subscription, "0003 00000001 7fff", id="topic"),
        pytest.param(decode_subscription, "0003 00000000 7fffffff", id="user data"),
        pytest.param(decode_assignment, "0000 00000001 0000 7fffffff", id="partitions"),
        pytest.param(decode_assignment, "0000 7fffffff", id="topic partitions"),
        pytest.param(decode_connect_metadata, "0001 0000 0000000000000000 7fffffff", id="allocation"),
        pytest.param(decode_connect_assignment, "0001 0000 0000 0000 0000000000000000 7fffffff", id="connectors"),
        pytest.param(decode_sticky_user_data, "7fffffff", id="previous assignment"),
    ],
)
def test_a_length_that_lies_inside_a_members_bytes_costs_no_memory(
    decode: Callable[[bytes], object], data: str
) -> None:
    """The same holds for every value that a client can send to any group."""
    with pytest.raises(LengthPastEndError):
        decode(bytes.fromhex(data))
    assert peak_bytes(lambda: decode(bytes.fromhex(data))) < MEMORY_BASE_BYTES


def bombs() -> dict[str, tuple[str, bytes]]:
    """Returns values whose counts are true: as many of the smallest elements as their bytes can hold."""
    count = BOMB_ITEMS
    empty_task_ids = varint(count + 1) + b"\x01\x01\x00" * count
    last_configs = varint(count + 1) + b"\x01\x01\x00" * count
    tags = b"".join(varint(tag) + b"\x00" for tag in range(1, count))
    empty_member = bytes(24)
    return {
        "task ids": (
            "streams_group_current_member_assignment",
            bytes(11) + empty_task_ids + b"\x01" * 5 + b"\x00",
        ),
        "tagged configs": (
            "streams_group_metadata",
            bytes(14) + b"\x01\x01" + varint(len(last_configs)) + last_configs,
        ),
        "subtopologies": (
            "streams_group_topology",
            bytes(6) + varint(count + 1) + (b"\x01" * 7 + b"\x00") * count + b"\x00",
        ),
        "copartition groups": (
            "streams_group_topology",
            bytes(6) + b"\x02" + b"\x01" * 6 + varint(count + 1) + b"\x01\x01\x01\x00" * count + bytes(2),
        ),
        "unknown tags": ("consumer_group_target_assignment_metadata", bytes(6) + varint(count - 1) + tags),
        "topic names": (
            "consumer_group_regular_expression",
            bytes(2) + varint(count + 1) + b"\x01" * count + bytes(17),
        ),
        "members": (
            "group_metadata",
            b"\x00\x03" + bytes(18) + count.to_bytes(4, "big") + empty_member * count,
        ),
    }


@pytest.mark.parametrize(("record_type", "value"), bombs().values(), ids=bombs())
def test_memory_stays_within_a_multiple_of_the_bytes(record_type: str, value: bytes) -> None:
    """The worst that true lengths can do is bounded: small elements become dicts, not more."""
    key = key_of(record_type)
    assert decode_record(key, value).value is not None
    peak = peak_bytes(lambda: decode_record(key, value))
    assert peak < MEMORY_PER_BYTE_MAX * len(value) + MEMORY_BASE_BYTES


def test_a_million_tags_in_a_few_bytes_are_refused_at_once() -> None:
    """Tags take two bytes each, so a count above half of the remaining bytes can't be true."""
    key, value = key_of("consumer_group_metadata"), bytes(6) + varint(1_000_000) + bytes(1000)
    with pytest.raises(LengthPastEndError):
        decode_record(key, value)
    assert peak_bytes(lambda: decode_record(key, value)) < MEMORY_BASE_BYTES


def test_a_mebibyte_of_commit_metadata_is_refused_and_one_of_user_data_kept() -> None:
    """Large values cost what they are: strings are limited by Kafka, bytes are copied once."""
    mebibyte = bytes(2**20)
    subscription = b"\x00\x00" + bytes(4) + len(mebibyte).to_bytes(4, "big") + mebibyte
    assert len(decode_subscription(subscription).fields["user_data"]) == 2**20
    assert peak_bytes(lambda: decode_subscription(subscription)) < 2 * len(mebibyte)
    commit = bytes.fromhex("0004 0000000000000000 00000000") + varint(2**20 + 1) + mebibyte
    with pytest.raises(StringTooLongError):
        decode_record(key_of("offset_commit"), commit)
