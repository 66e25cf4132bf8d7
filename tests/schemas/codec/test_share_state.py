"""Records of `__share_group_state` against Kafka's own bytes and Kafka's own tool, and against damaged bytes."""

from types import SimpleNamespace

import pytest

from groupledger.schemas.codec import errors
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.codec.records import SHARE_STATE, Record, decode_record
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES

# Where Kafka's tool prints a record all the same: see the head of json_form.py.
STRICTER_THAN_THE_TOOL = (
    errors.TrailingBytesError,
    errors.InvalidUtf8Error,
    errors.NegativeLengthError,
    errors.InvalidTagError,
)
# As a 4.2 broker wrote them.
KEY = bytes.fromhex("000100027367a0c5ff80db904a2889cf5d92ff07e9c600000001")
VALUE = bytes.fromhex("00000000000000000000000000000000000202000000000000000200000000000000020400050001000400000002")


def test_golden_record_is_as_the_tool_prints_it(golden_share_state: SimpleNamespace) -> None:
    """The JSON form equals DumpLogSegments --share-group-state-decoder, and the bytes come back."""
    record = SHARE_STATE.decode_record(golden_share_state.key, golden_share_state.value)
    assert to_json_form(record) == golden_share_state.printed
    assert SHARE_STATE.encode_record(record) == (golden_share_state.key, golden_share_state.value)
    assert golden_share_state.name.startswith(record.record_type)


def test_every_strict_prefix_is_refused(golden_share_state: SimpleNamespace) -> None:
    """No prefix of a key or of a value decodes, nor one with a byte more."""
    key, value = golden_share_state.key, golden_share_state.value
    damaged = [(key[:length], value) for length in range(len(key))] + [(key + b"\x00", value)]
    if value is not None:
        damaged += [(key, value[:length]) for length in range(len(value))] + [(key, value + b"\x00")]
    for bad_key, bad_value in damaged:
        with pytest.raises(DecodeError) as caught:
            SHARE_STATE.decode_record(bad_key, bad_value)
        assert caught.value.part == ("value" if bad_key == key else "key")


def test_damaged_records_decode_as_the_tool_decodes_them(hostile_share_state: list[SimpleNamespace]) -> None:
    """Damaged records decode as Kafka's tool prints them, or are refused."""
    decoded = 0
    for hostile in hostile_share_state:
        try:
            record = SHARE_STATE.decode_record(hostile.key, hostile.value)
        except STRICTER_THAN_THE_TOOL:
            continue
        except DecodeError:
            assert hostile.printed is None, hostile.name
            continue
        decoded += 1
        assert to_json_form(record) == hostile.printed, hostile.name
    assert decoded > len(hostile_share_state) / 3


def test_every_type_is_golden(golden_share_states: list[SimpleNamespace]) -> None:
    """Both types are among the golden records, with a value and as a tombstone."""
    found = [SHARE_STATE.decode_record(golden.key, golden.value) for golden in golden_share_states]
    expected = {(kind.record_type, version) for kind in SHARE_STATE_TYPES for version in (None, 0)}
    assert {(record.record_type, record.value_version) for record in found} == expected


def test_an_update_of_a_broker() -> None:
    """A record that was rejected by its delivery limit, as the coordinator stored it."""
    key = {"group_id": "sg", "topic_id": "oMX_gNuQSiiJz12S_wfpxg", "partition": 1}
    batch = {"first_offset": 2, "last_offset": 2, "delivery_state": 4, "delivery_count": 5}
    value = {
        "snapshot_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 2,
        "delivery_complete_count": 2,
        "state_batches": [batch],
    }
    assert SHARE_STATE.decode_record(KEY, VALUE) == Record("share_update", key, 0, value)


def test_types_of_the_two_topics_are_apart() -> None:
    """The same number is another type in the other topic."""
    assert decode_record(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", None).record_type == "offset_commit"
    with pytest.raises(errors.UnknownRecordTypeError):
        SHARE_STATE.decode_record(b"\x00\x02\x00\x01g", None)
