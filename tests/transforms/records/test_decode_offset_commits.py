"""Goal: the fast path takes every ordinary offset commit, and says of each row what the general codec says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings

from groupledger.transforms.records.decode import DECODED, decode_batch, general_batches
from groupledger.transforms.records.decode_offset_commits import METADATA_BYTES_MAX, decode_offset_commits
from lab.warehouses.rows import HOSTILE_ROWS, Row, batch_of, offset_commit


def by_offset(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    rows = pa.Table.from_batches(batches, schema=DECODED).to_pylist()
    return sorted(rows, key=lambda row: row["kafka_offset"])


def taken(rows: list[Row]) -> list[int]:
    batch = batch_of(rows)
    found: list[int] = decode_offset_commits(batch.column("key"), batch.column("value")).rows.tolist()
    return found


@pytest.mark.slow
@given(HOSTILE_ROWS)
@settings(max_examples=600, deadline=None)
def test_both_paths_say_the_same(rows: list[Row]) -> None:
    """Goal: whatever the rows hold, the batch decoded with the fast path equals that of the codec alone."""
    batch = batch_of(rows)
    assert by_offset(list(decode_batch(batch))) == by_offset(list(general_batches(batch)))


@given(HOSTILE_ROWS)
@settings(max_examples=50, deadline=None)
def test_a_slice_of_a_batch(rows: list[Row]) -> None:
    """Goal: a batch that begins in the middle of its buffers, as Arrow slices do, is read at the right place."""
    batch = batch_of([offset_commit(metadata="before"), *rows, offset_commit(metadata="after")])
    part = batch.slice(1, len(rows))
    assert by_offset(list(decode_batch(part))) == by_offset(list(general_batches(part)))


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "m", "x" * METADATA_BYTES_MAX])
@pytest.mark.parametrize("record_type", ["offset_commit", "legacy_offset_commit"])
def test_ordinary_commits_are_taken(version: int, metadata: str, record_type: str) -> None:
    """Goal: no version falls back to the slow path unnoticed, with or without metadata."""
    assert taken([offset_commit(version, record_type, metadata=metadata)]) == [0]


def test_a_topic_id_and_a_tombstone_are_taken() -> None:
    """Goal: commits of Java's 4.x clients, and tombstones of expiry, are on the fast path too."""
    key, value = offset_commit(4, topic_id="4L6g3nShT-eMCtK--X86sw", metadata="m")
    assert taken([(key, value), (key, None)]) == [0, 1]


@pytest.mark.parametrize(
    "row",
    [
        offset_commit(metadata="x" * (METADATA_BYTES_MAX + 1)),
        offset_commit(metadata="é"),
        (offset_commit()[0], offset_commit()[1] + b"\x00"),
        (offset_commit()[0], offset_commit()[1][:-1]),
        (offset_commit(3)[0], b"\x00\x04" + offset_commit(3)[1][2:]),
        (offset_commit()[0] + b"\x00", offset_commit()[1]),
        (None, offset_commit()[1]),
        (b"", offset_commit()[1]),
        (b"\x00\x02\x00\x02g1", None),
    ],
    ids=["long", "not ASCII", "longer", "shorter", "v3 as v4", "key longer", "null key", "empty key", "group"],
)
def test_the_rest_is_left_to_the_codec(row: Row) -> None:
    """Goal: a row that does not fit a layout to the byte is not taken, and does not disturb its neighbours."""
    assert taken([offset_commit(), row, offset_commit()]) == [0, 2]


@given(HOSTILE_ROWS)
@settings(max_examples=50, deadline=None)
def test_large_types_of_arrow(rows: list[Row]) -> None:
    """Goal: with Spark's `arrow.useLargeVarTypes` the bounds of values are twice as wide, and the rows are the same."""
    batch = batch_of(rows)
    large = batch
    for name in ("key", "value"):
        large = large.set_column(large.schema.get_field_index(name), name, large.column(name).cast(pa.large_binary()))
    assert by_offset(list(decode_batch(large))) == by_offset(list(decode_batch(batch)))
    part = large.slice(1)
    assert by_offset(list(decode_batch(part))) == by_offset(list(general_batches(part)))


def test_other_types_of_arrow() -> None:
    """Goal: values whose bounds lie otherwise are refused with one sentence, and not read at wrong places."""
    batch = batch_of([offset_commit()])
    views = batch.column("value").cast(pa.binary_view())
    with pytest.raises(TypeError, match=r"as binary_view.*remove the settings spark\.sql\.execution\.arrow"):
        decode_offset_commits(batch.column("key"), views)
