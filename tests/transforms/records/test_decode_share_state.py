"""Goal: each record of `__share_group_state` becomes columns: decoded, or kept with its reason."""

from __future__ import annotations

from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.records import SHARE_STATE, Record
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.transforms.privacy import DROP, Privacy
from groupledger.transforms.records.decode_share_state import share_state_row

KEY = {"group_id": "g", "topic_id": "oMX_gNuQSiiJz12S_wfpxg", "partition": 1}
BATCH = {"first_offset": 2, "last_offset": 3, "delivery_state": 0, "delivery_count": 2}
VALUE = {
    "snapshot_epoch": 4,
    "leader_epoch": 5,
    "start_offset": 2,
    "delivery_complete_count": 0,
    "state_batches": [BATCH],
}


def test_decoded() -> None:
    """Goal: the fields of key and value are columns of the table; a tombstone has those of its key."""
    key, value = SHARE_STATE.encode_record(Record("share_update", KEY, 0, VALUE))
    found = share_state_row(key, value, Privacy())
    kind = {"record_type": "share_update", "value_version": 0, "is_tombstone": False, "raw_value": None}
    assert found == {**kind, **KEY, **VALUE}
    assert {*found} <= {*SHARE_STATE_RECORDS.schema.names}
    assert share_state_row(key, None, Privacy()) == {**kind, **KEY, "value_version": None, "is_tombstone": True}


def test_fields_of_a_later_release_are_kept() -> None:
    """Goal: a value with fields that are not known is decoded, and its bytes stay."""
    for more in (
        VALUE | {UNKNOWN_TAGGED_FIELDS: [(7, b"x")]},
        VALUE | {"state_batches": [BATCH | {UNKNOWN_TAGGED_FIELDS: [(7, b"x")]}]},
    ):
        key, value = SHARE_STATE.encode_record(Record("share_update", KEY, 0, more))
        found = share_state_row(key, value, Privacy())
        assert (found["start_offset"], found["state_batches"], found["raw_value"]) == (2, [BATCH], value)
        assert share_state_row(key, value, Privacy(hosts=DROP))["raw_value"] is None


def test_undecodable_records_are_kept() -> None:
    """Goal: the bytes and the reason stay; without the bytes where the settings keep no hosts."""
    found = share_state_row(b"\x00\x09", b"\x01", Privacy())
    assert (found["decode_error"], found["raw_key"], found["raw_value"]) == (
        "unknown_record_type",
        b"\x00\x09",
        b"\x01",
    )
    assert "raw_key" not in share_state_row(b"\x00\x09", b"\x01", Privacy(hosts=DROP))
