"""Reads the commits of a cluster, with the columns of `transforms.offsets.offset_commits.commit_log`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.arrow_values import column_of, scalar_of
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.transforms.coverage.rules.coverage_at import hidden_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter

OF_RECORD = ("kafka_partition", "kafka_offset", "kafka_timestamp", "group_id", "is_tombstone")
OF_COMMIT = (
    *("topic", "partition", "offset", "leader_epoch", "metadata", "topic_id", "commit_timestamp_ms"),
    "expire_timestamp_ms",
)


def commit_log(tables: ClusterRows, *filters: Filter) -> pa.RecordBatchReader:
    """Returns a reader, which can be read once, with a row for each offset commit and each removal of one
    (`is_tombstone`). The filters apply to `coordinator_records`. Raises InputError if that table does not exist."""
    is_commit = ("record_type", "in", OFFSET_COMMIT_TYPES)
    columns = (*OF_RECORD, "decode_error", "offset_commit")
    records = tables.scan("coordinator_records", is_commit, *filters, columns=columns)
    schema = commits_of(pa.Table.from_batches([], records.schema)).schema
    found = (batch for records in records for batch in commits_of(pa.Table.from_batches([records])).to_batches())
    return pa.RecordBatchReader.from_batches(schema, found)


def commits_now(tables: ClusterRows, *filters: Filter) -> pa.RecordBatchReader:
    """Returns the rows of `commit_log` that may decide which offset is committed now. In each partition of the log they
    begin at the last offset at which groups may have ended without a record."""
    log = commit_log(tables, *filters)
    hidden = {partition: max(offsets) for partition, offsets in hidden_ends(tables.rows_if_any("coverage")).items()}
    return pa.RecordBatchReader.from_batches(log.schema, (_without_hidden(batch, hidden) for batch in log))


def commits_of(records: pa.Table) -> pa.Table:
    decoded = records.filter(pc.is_null(records["decode_error"]))
    commit = {name: pc.struct_field(decoded["offset_commit"], name) for name in OF_COMMIT}
    # Numbers below 0 and the id of zeros mean that there is no value.
    commit["committed_offset"], commit["leader_epoch"] = (
        _null_unless(pc.greater_equal, commit[name], 0) for name in ("offset", "leader_epoch")
    )
    commit["topic_id"] = _null_unless(pc.not_equal, commit["topic_id"], ZERO_UUID)
    return pa.table({name: decoded[name] for name in OF_RECORD} | commit)


def _null_unless(holds: Callable[..., pa.ChunkedArray], column: pa.ChunkedArray, value: object) -> pa.ChunkedArray:
    none, compared = column_of([None, value], column.type)
    return pc.if_else(holds(column, compared), column, none)


def _without_hidden(batch: pa.RecordBatch, hidden: Mapping[int, int]) -> pa.RecordBatch:
    """Drops the rows below an offset in each partition of the log."""
    partitions, offsets = batch["kafka_partition"], batch["kafka_offset"]
    is_shown = [
        pc.or_(
            pc.not_equal(partitions, scalar_of(partition, partitions.type)),
            pc.greater_equal(offsets, scalar_of(offset, offsets.type)),
        )
        for partition, offset in hidden.items()
    ]
    return batch.filter(reduce(pc.and_, is_shown)) if is_shown else batch
