"""Turns Kafka rows into rows of `coordinator_records`: exactly one for each, either decoded or with its bytes and the
reason why it can't be decoded.

This is the only module that connects the codec with Spark: rows travel to Python as Arrow batches and come back in the
table's columns (`DECODED`). A task fails if the number of rows that come out of a batch differs from the number that
went in.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.instants import us_of
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.transforms.privacy import Privacy
from groupledger.transforms.records.decode_offset_commits import OffsetCommits, decode_offset_commits
from groupledger.transforms.records.decoded_record import record_fields, record_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

# What a Kafka row must have; a capture has more, which is not needed here.
KAFKA_COLUMNS = ("key", "value", "partition", "offset", "timestamp")

# The job knows the cluster and the date.
DECODED_STRUCT = COORDINATOR_RECORDS.without("cluster", "ingest_date")
DECODED = arrow_schema(DECODED_STRUCT)

# Rows that the general codec takes are sent on in batches of this many bytes, so that 1 MiB values don't pile up.
BATCH_BYTES_MAX = 8 << 20

# A capture may hold any time. Times outside these bounds are invalid, and no reader in Python could show them.
FIRST_US = us_of(datetime.min.replace(tzinfo=timezone.utc))
LAST_US = us_of(datetime.max.replace(tzinfo=timezone.utc))

KEEP_ALL = Privacy()
BYTES_NOT_KEPT = "; the bytes may hold a host, and the settings keep none"


def decode(kafka_rows: DataFrame, privacy: Privacy = KEEP_ALL) -> DataFrame:
    """Returns a row for each Kafka row; its columns are `DECODED`."""
    return kafka_rows.select(*KAFKA_COLUMNS).mapInArrow(partial(decode_batches, privacy=privacy), DECODED_STRUCT)


def decode_again(quarantined: DataFrame, privacy: Privacy) -> DataFrame:
    """Returns one row for each row of `coordinator_records` that could not be decoded when it was read: the result of
    decoding its bytes now."""
    kafka_rows = quarantined.selectExpr(
        *("raw_key AS key", "raw_value AS value", "kafka_partition AS partition", "kafka_offset AS offset"),
        "kafka_timestamp AS timestamp",
    )
    return decode(kafka_rows, privacy)


def decode_batches(batches: Iterable[pa.RecordBatch], privacy: Privacy = KEEP_ALL) -> Iterator[pa.RecordBatch]:
    """Yields batches whose columns are `DECODED`, with a row for each Kafka row."""
    for batch in batches:
        rows_out = 0
        for decoded in decode_batch(batch, privacy):
            rows_out += decoded.num_rows
            yield decoded
        if rows_out != batch.num_rows:
            raise AssertionError(f"{batch.num_rows} Kafka rows became {rows_out}: the decoder lost or repeated some")


def decode_batch(batch: pa.RecordBatch, privacy: Privacy = KEEP_ALL) -> Iterator[pa.RecordBatch]:
    """Yields the decoded rows of a batch: first those of offset commits in a known layout, then all others. So they are
    not in the order of the log; their offsets have it."""
    keys, values = batch.column("key"), batch.column("value")
    commits = decode_offset_commits(keys, values)
    if len(commits.rows):
        yield fast_batch(batch, commits)
    rest = np.delete(np.arange(batch.num_rows), commits.rows)
    if len(rest):
        yield from general_batches(batch.take(pa.array(rest)), privacy)


def fast_batch(batch: pa.RecordBatch, commits: OffsetCommits) -> pa.RecordBatch:
    count = len(commits.rows)
    if count < batch.num_rows:
        batch = batch.take(pa.array(commits.rows))
    columns = {
        "kafka_partition": batch.column("partition"),
        "kafka_offset": batch.column("offset"),
        "kafka_timestamp": held(batch.column("timestamp")),
        "record_type": commits.record_type,
        "value_version": commits.value_version,
        "is_tombstone": commits.is_tombstone,
        "group_id": commits.group_id,
        "offset_commit": commits.offset_commit,
    }
    return pa.RecordBatch.from_arrays(
        [columns[field.name] if field.name in columns else nulls(count, field.type) for field in DECODED],
        schema=DECODED,
    )


@lru_cache(maxsize=64)  # batches are nearly all of one size, and six columns of each are null
def nulls(count: int, data_type: pa.DataType) -> pa.Array:
    return pa.nulls(count, data_type)


def held(timestamps: pa.Array) -> pa.Array:
    """Returns the timestamps; those outside the years 1 to 9999 are replaced by the nearest bound."""
    ticks = timestamps.cast(pa.int64())
    least, most = pc.min_max(ticks).values()
    if not (least.is_valid and (least.as_py() < FIRST_US or most.as_py() > LAST_US)):
        return timestamps
    return pc.min_element_wise(pc.max_element_wise(ticks, FIRST_US, skip_nulls=False), LAST_US, skip_nulls=False).cast(
        timestamps.type
    )


def general_batches(batch: pa.RecordBatch, privacy: Privacy = KEEP_ALL) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch as the general codec decodes them, in pieces of bounded size."""
    start, size = 0, 0
    rows: list[dict[str, Any]] = []
    for key, value in zip(batch.column("key"), batch.column("value"), strict=True):
        rows.append(decoded_or_kept(key.as_py(), value.as_py(), privacy))
        size += len(key.as_py() or b"") + len(value.as_py() or b"")
        if size > BATCH_BYTES_MAX:
            yield general_batch(batch.slice(start, len(rows)), rows)
            start, size, rows = start + len(rows), 0, []
    if rows:
        yield general_batch(batch.slice(start), rows)


def general_batch(batch: pa.RecordBatch, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    positions = {
        "kafka_partition": batch.column("partition"),
        "kafka_offset": batch.column("offset"),
        "kafka_timestamp": held(batch.column("timestamp")),
    }
    return pa.RecordBatch.from_arrays(
        [
            positions[field.name]
            if field.name in positions
            else pa.array([row.get(field.name) for row in rows], field.type)
            for field in DECODED
        ],
        schema=DECODED,
    )


def decoded_or_kept(key: bytes | None, value: bytes | None, privacy: Privacy) -> dict[str, Any]:
    """Returns the columns of a record that the general codec decodes, or those of an undecoded record if it can't.
    Columns that are left out are null."""
    try:
        record = decode_record(key, value)
    except DecodeError as error:
        return undecoded(key, value, error, privacy)
    columns: dict[str, Any] = {
        "record_type": record.record_type,
        "value_version": record.value_version,
        "is_tombstone": record.value is None,
        "group_id": record.key["group_id"],
    }
    fields = record_fields(record)
    if record.record_type in OFFSET_COMMIT_TYPES:
        columns["offset_commit"] = fields
    if record.record_type not in OFFSET_COMMIT_TYPES or UNKNOWN_TAGGED_FIELDS in fields:
        columns["record_json"] = record_json(fields if privacy.keeps_hosts else privacy.hosts_in_record(fields))
    return columns


def undecoded(key: bytes | None, value: bytes | None, error: DecodeError, privacy: Privacy) -> dict[str, Any]:
    """Returns the columns of a record that can't be decoded: the reason and, if the privacy setting allows it, its
    bytes."""
    kept = {"is_tombstone": value is None, "decode_error": error.reason}
    if privacy.keeps_hosts:
        return kept | {"decode_error_detail": str(error), "raw_key": key, "raw_value": value}
    return kept | {"decode_error_detail": f"{error}{BYTES_NOT_KEPT}"}
