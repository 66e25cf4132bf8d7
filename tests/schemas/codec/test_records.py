"""Records against Kafka's own bytes and Kafka's own tool, and against bytes that are no record."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from groupledger.schemas.codec import errors
from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.codec.errors import DecodeError, EncodeError
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.codec.records import Record, decode_key, decode_record, encode_record
from groupledger.schemas.wire.record_types import RECORD_TYPES, RETIRED_RECORD_TYPES

# Where Kafka's tool prints a record all the same: see the head of json_form.py.
STRICTER_THAN_THE_TOOL = (
    errors.TrailingBytesError,
    errors.InvalidUtf8Error,
    errors.NegativeLengthError,
    errors.InvalidTagError,
)
DECODERS = {"subscription": decode_subscription, "assignment": decode_assignment}
KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
VALUE = bytes.fromhex("0004000000000021d4a8ffffffff010000019964f2d83600")


def is_legacy_extension(golden: SimpleNamespace) -> bool:
    """Value versions above 0 after key 0, which brokers before 4.1 accepted and 4.2 refuses."""
    return golden.name.startswith("legacy_offset_commit v") and "v0" not in golden.name


def test_golden_record_renders_as_the_tool_prints_it(golden_record: SimpleNamespace) -> None:
    """The JSON form equals DumpLogSegments --offsets-decoder, field by field."""
    form = to_json_form(decode_record(golden_record.key, golden_record.value))
    if is_legacy_extension(golden_record):
        assert golden_record.printed is None
        as_offset_commit = decode_record(b"\x00\x01" + golden_record.key[2:], golden_record.value)
        assert form["value"] == to_json_form(as_offset_commit)["value"]
    else:
        assert form == golden_record.printed


def test_golden_record_encodes_to_its_own_bytes(golden_record: SimpleNamespace) -> None:
    """encode(decode(b)) == b for everything that Kafka's serde writes."""
    record = decode_record(golden_record.key, golden_record.value)
    assert encode_record(record) == (golden_record.key, golden_record.value)
    assert golden_record.name.startswith(record.record_type)


def test_every_strict_prefix_of_a_golden_record_is_refused(golden_record: SimpleNamespace) -> None:
    """No prefix of a key or of a value decodes, and each refusal has its reason and its part."""
    key, value = golden_record.key, golden_record.value
    for length in range(len(key)):
        with pytest.raises(DecodeError) as caught:
            decode_record(key[:length], value)
        assert caught.value.part == "key"
        assert caught.value.reason in {"empty_key", "truncated", "length_past_end"}
    for length in range(len(value or b"")):
        with pytest.raises(DecodeError) as caught:
            decode_record(key, value[:length])
        assert caught.value.part == "value"
        assert caught.value.reason in {"truncated", "length_past_end"}


def test_trailing_bytes_are_refused(golden_record: SimpleNamespace) -> None:
    """A byte after the last field of a key or a value is reported with its place."""
    key, value = golden_record.key, golden_record.value
    with pytest.raises(errors.TrailingBytesError) as caught:
        decode_record(key + b"\x00", value)
    assert (caught.value.part, caught.value.offset) == ("key", len(key))
    if value is not None:
        with pytest.raises(errors.TrailingBytesError) as caught:
            decode_record(key, value + b"\x00")
        assert (caught.value.part, caught.value.offset) == ("value", len(value))


def test_damaged_records_decode_as_the_tool_decodes_them(
    hostile_records: list[SimpleNamespace],
) -> None:
    """Damaged records decode, or are refused, as by Kafka's tool.

    Where only we refuse one, the reason is among those that json_form.py lists at its head.
    """
    decoded = 0
    for hostile in hostile_records:
        try:
            record = decode_record(hostile.key, hostile.value)
        except STRICTER_THAN_THE_TOOL:
            continue
        except DecodeError:
            assert hostile.printed is None, hostile.name
            continue
        decoded += 1
        if record.record_type == "legacy_offset_commit" and record.value_version:
            assert hostile.printed is None, hostile.name
            continue
        form = to_json_form(record)
        if form != hostile.printed:
            excuse_members_that_only_we_refuse(record, form, hostile.printed)
        assert form == hostile.printed, hostile.name
    assert decoded > len(hostile_records) / 3


def excuse_members_that_only_we_refuse(record: Record, form: dict[str, Any], printed: dict[str, Any]) -> None:
    """Copy the tool's decoded bytes into our form where they are broken by our stricter rules."""
    assert record.value is not None
    members = record.value["members"]
    ours, theirs = (json["value"]["data"]["members"] for json in (form, printed))
    for index, member in enumerate(members):
        for column, decode in DECODERS.items():
            if isinstance(ours[index][column], str) and isinstance(theirs[index][column], dict):
                with pytest.raises((errors.InvalidUtf8Error, errors.NegativeLengthError)):
                    decode(member[column])
                ours[index][column] = theirs[index][column]


def test_the_v4_commit_that_other_readers_misread() -> None:
    """A value that a Kafka 4.1 broker wrote, as franz-go's users published it.

    It is as long as a version 3 value with empty metadata, but its timestamp lies one byte earlier.
    """
    record = decode_record(KEY, VALUE)
    assert record == Record(
        "offset_commit",
        {"group_id": "g", "topic": "t", "partition": 0},
        4,
        {
            "offset": 2217128,
            "leader_epoch": -1,
            "metadata": "",
            "commit_timestamp_ms": 1758335260726,
            "expire_timestamp_ms": -1,
            "topic_id": "A" * 22,
        },
    )
    assert encode_record(record) == (KEY, VALUE)


def test_a_null_value_is_a_tombstone() -> None:
    """A key without value gives neither version nor fields, and is written as it was."""
    record = decode_record(KEY, None)
    assert (record.value_version, record.value) == (None, None)
    assert encode_record(record) == (KEY, None)


@pytest.mark.parametrize(
    ("key", "value", "error", "part"),
    [
        pytest.param(None, VALUE, errors.NullKeyError, "key", id="null key"),
        pytest.param(b"", VALUE, errors.EmptyKeyError, "key", id="empty key"),
        pytest.param(b"\x00", VALUE, errors.TruncatedError, "key", id="half a record type"),
        pytest.param(b"\x00\x00\x00\x01", VALUE, errors.LengthPastEndError, "key", id="half a key"),
        pytest.param(b"\x00\x18\x00\x01g", None, errors.UnknownRecordTypeError, "key", id="24"),
        pytest.param(b"\xff\xff\x00\x01g", None, errors.UnknownRecordTypeError, "key", id="-1"),
        pytest.param(b'{"k":1}', b"{}", errors.UnknownRecordTypeError, "key", id="not from Kafka"),
        pytest.param(KEY, b"", errors.TruncatedError, "value", id="empty value"),
        pytest.param(KEY, b"\x00\x05", errors.UnknownValueVersionError, "value", id="version 5"),
        pytest.param(KEY, b"\xff\xff", errors.UnknownValueVersionError, "value", id="version -1"),
        pytest.param(b"\x00\x01\xff\xff", None, errors.NullNotAllowedError, "key", id="null group"),
        pytest.param(b"\x00\x02\xff\xfe", None, errors.NegativeLengthError, "key", id="length -2"),
        pytest.param(b"\x00\x02\x00\x01\xff", None, errors.InvalidUtf8Error, "key", id="group of no text"),
        pytest.param(b"\x00\x02\x7f\xffg", None, errors.LengthPastEndError, "key", id="group too long"),
    ],
)
def test_bytes_that_are_no_record_are_refused_by_reason(
    key: bytes | None, value: bytes | None, error: type[DecodeError], part: str
) -> None:
    """Each kind of bad input has its own reason, and names the part that is bad."""
    with pytest.raises(error) as caught:
        decode_record(key, value)
    assert caught.value.part == part
    assert str(caught.value).startswith(f"{part} byte ")


@pytest.mark.parametrize(("type_id", "name"), RETIRED_RECORD_TYPES.items())
def test_retired_record_types_are_refused_by_name(type_id: int, name: str) -> None:
    """The two ids that only early builds wrote are distinguished from ids of the future, tombstone or not."""
    for value in (None, bytes(8)):
        with pytest.raises(errors.RetiredRecordTypeError, match=name):
            decode_record(type_id.to_bytes(2, "big") + b"\x00\x01g", value)


def test_a_key_decodes_without_its_value() -> None:
    """Keys repeat, so a caller may decode each once."""
    expected = {"group_id": "g", "topic": "t", "partition": 0}
    assert decode_key(KEY) == ("offset_commit", expected)


def test_a_record_that_has_no_bytes_is_refused() -> None:
    """Unknown types and versions, and half a tombstone, are our mistakes."""
    key = {"group_id": "g", "topic": "t", "partition": 0}
    value = decode_record(KEY, VALUE).value
    for record in (
        Record("offset_comit", key, 4, value),
        Record("offset_commit", key, 5, value),
        Record("offset_commit", key, -1, value),
        Record("offset_commit", key, None, value),
        Record("offset_commit", key, 4, None),
    ):
        with pytest.raises(EncodeError):
            encode_record(record)


def test_every_record_type_of_kafka_has_golden_records(
    golden_records: list[SimpleNamespace],
) -> None:
    """All 22 types, each in all its value versions and as a tombstone, are among the golden ones."""
    seen = {
        (record.record_type, record.value_version)
        for record in (decode_record(golden.key, golden.value) for golden in golden_records)
    }
    expected = {
        (kind.record_type, version)
        for kind in RECORD_TYPES
        for version in (None, *range(kind.value.latest_version + 1))
    }
    assert len(RECORD_TYPES) == 22
    assert seen == expected


def test_the_table_of_reasons_is_whole() -> None:
    """The head of errors.py lists each reason once, and each class has one of its own."""
    listed = re.findall(r"^\| (\w+) \|", errors.__doc__ or "", re.MULTILINE)
    reasons = [error.reason for error in DecodeError.__subclasses__()]
    assert listed[0] == "reason"
    assert sorted(listed[1:]) == sorted(reasons)
    assert len(set(reasons)) == len(reasons)
