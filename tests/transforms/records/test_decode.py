"""Goal: one row out for each row in, decoded or kept with its bytes, whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.instants import INT64_MAX, INT64_MIN
from groupledger.transforms.records.decode import BATCH_BYTES_MAX, DECODED, decode_batch, decode_batches
from groupledger.transforms.records.decoded_record import record_of_row
from lab.warehouses.rows import HOSTILE_ROWS, Row, batch_of, group_metadata, offset_commit


def decoded(rows: list[Row]) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(decode_batch(batch_of(rows))), schema=DECODED).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.slow
@given(HOSTILE_ROWS)
@settings(max_examples=300, deadline=None)
def test_every_row_is_decoded_or_kept(rows: list[Row]) -> None:
    """Goal: rows in == decoded + quarantined, at the same positions, and a kept row has its bytes."""
    found = {row["kafka_offset"]: row for row in decoded(rows)}
    assert sorted(found) == list(range(1000, 1000 + len(rows)))
    for offset, (key, value) in zip(sorted(found), rows, strict=True):
        row = found[offset]
        assert row["is_tombstone"] == (value is None)
        if row["decode_error"] is None:
            assert record_of_row(row) == decode_record(key, value)
            assert (row["raw_key"], row["raw_value"]) == (None, None)
        else:
            assert (row["raw_key"], row["raw_value"]) == (key, value)
            assert row["record_type"] is None


@pytest.mark.parametrize("record", [offset_commit(), group_metadata(), (b"?", b"?")])
def test_timestamps_beyond_the_years(record: Row) -> None:
    """Goal: a record of a time that Python has no date for is decoded all the same, at the nearest that it has: from
    the year 10000 on, at the last that 64 bits hold, and before the year 1."""
    year_10000_us = 253_402_300_800_000_000
    times = [year_10000_us - 1, year_10000_us, INT64_MAX, INT64_MIN, None]
    batch = batch_of([record] * len(times))
    of_times = pa.array(times, pa.int64()).cast(batch.schema.field("timestamp").type)
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), batch.schema.field("timestamp"), of_times)
    found = pa.Table.from_batches(list(decode_batch(batch)), schema=DECODED).to_pylist()
    years = [row["kafka_timestamp"] and row["kafka_timestamp"].year for row in found]
    assert years == [9999, 9999, 9999, 1, None]


def test_a_decoder_that_loses_rows_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the count of each batch is checked in the job itself, not only here."""
    monkeypatch.setattr("groupledger.transforms.records.decode.general_batches", lambda *_: iter(()))
    with pytest.raises(AssertionError, match="3 Kafka rows became 1"):
        list(decode_batches([batch_of([offset_commit(), (None, None), (None, None)])]))


def test_group_metadata_and_its_members() -> None:
    """Goal: a group's record becomes JSON with the member's own bytes decoded beside the raw ones."""
    (row,) = decoded([group_metadata()])
    fields = json.loads(row["record_json"])
    assert (row["record_type"], row["group_id"], row["value_version"]) == ("group_metadata", "g1", 3)
    assert fields["generation"] == 5
    (member,) = fields["members"]
    assert member["consumer_subscription"]["topics"] == ["orders"]
    assert member["consumer_assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert "subscription_error" not in member


def test_a_row_of_an_older_release() -> None:
    """Goal: a field that the release of a row did not know has its default, and the record is whole."""
    key, value = group_metadata()
    (row,) = decoded([(key, value)])
    fields = json.loads(row["record_json"])
    del fields["current_state_timestamp_ms"], fields["members"][0]["group_instance_id"]
    record, whole = record_of_row(row | {"record_json": json.dumps(fields)}), decode_record(key, value)
    assert whole.value is not None
    assert record.value == whole.value | {"current_state_timestamp_ms": -1}


@pytest.mark.parametrize("part", ["subscription", "assignment"])
def test_damage_inside_a_member_stays_inside(part: str) -> None:
    """Goal: broken bytes of a client are that member's error; the record, and the member's other part, stay."""
    (row,) = decoded([group_metadata("consumer", **{part: b"\x00\x01\xff\xff\xff\xff"})])
    assert row["decode_error"] is None
    (member,) = json.loads(row["record_json"])["members"]
    assert member[f"{part}_error"].startswith("null_not_allowed")
    assert f"consumer_{part}" not in member
    other = "assignment" if part == "subscription" else "subscription"
    assert f"consumer_{other}" in member


@pytest.mark.parametrize("user_data", ["ffffffff", "00000001 aa"])
def test_what_other_clients_leave_out(user_data: str) -> None:
    """Goal: the topics of a kafka-go member, whose subscription names version 1 and has no owned partitions; and the
    partitions of an assignment of brod's, without user data. One that is cut within a field stays an error."""
    topics = bytes.fromhex("00000001 0006") + b"orders"
    subscription = b"\x00\x01" + topics + bytes.fromhex(user_data)
    assignment = bytes(2) + topics + bytes.fromhex("00000001 00000007")
    (row,) = decoded([group_metadata(subscription=subscription, assignment=assignment)])
    (member,) = json.loads(row["record_json"])["members"]
    assert not {"subscription_error", "assignment_error"} & set(member)
    assert (member["consumer_subscription"]["version"], member["consumer_subscription"]["topics"]) == (1, ["orders"])
    assert member["consumer_subscription"]["owned_partitions"] == []
    assert member["consumer_assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [7]}]
    for version in (1, 3):
        cut = bytes([0, version, *subscription[2 : None if version == 3 else -1]])
        (row,) = decoded([group_metadata(subscription=cut)])
        assert "subscription_error" in json.loads(row["record_json"])["members"][0]


@pytest.mark.parametrize("protocol_type", ["connect", "something else"])
def test_other_protocol_types(protocol_type: str) -> None:
    """Goal: a member's bytes are read in the language of its protocol type, or not at all."""
    (row,) = decoded([group_metadata(protocol_type)])
    (member,) = json.loads(row["record_json"])["members"]
    assert ("subscription_error" in member) == (protocol_type == "connect")
    assert "consumer_subscription" not in member


def test_large_values_travel_in_bounded_batches() -> None:
    """Goal: values of 1 MiB do not pile up in one Arrow batch on their way back to Spark."""
    rows: list[Row] = [(b"\x7f\xff", bytes(1 << 20))] * 40
    batches = list(decode_batch(batch_of(rows)))
    assert sum(batch.num_rows for batch in batches) == len(rows)
    assert max(batch.nbytes for batch in batches) <= BATCH_BYTES_MAX + (2 << 20)
