"""Reads the commits of a cluster, with the columns of `transforms.offsets.offset_commits.commit_log`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.transforms.coverage.rules.coverage_at import hidden_ends

if TYPE_CHECKING:
    from groupledger.jobs.ask.cluster_rows import ClusterRows, Filter

OF_RECORD = ("kafka_partition", "kafka_offset", "kafka_timestamp", "group_id", "is_tombstone")
OF_COMMIT = (
    *("topic", "partition", "offset", "leader_epoch", "metadata", "topic_id", "commit_timestamp_ms"),
    "expire_timestamp_ms",
)


def commit_log(tables: ClusterRows, *filters: Filter) -> pa.RecordBatchReader:
    """Returns a row for each commit and each removal (`is_tombstone`), to be read once; the filters are of
    `coordinator_records`. Raises InputError if the table is not there."""
    is_commit = ("record_type", "in", OFFSET_COMMIT_TYPES)
    columns = (*OF_RECORD, "decode_error", "offset_commit")
    records = tables.scan("coordinator_records", is_commit, *filters, columns=columns)
    schema = commits_of(records.schema.empty_table()).schema
    found = (batch for records in records for batch in commits_of(pa.Table.from_batches([records])).to_batches())
    return pa.RecordBatchReader.from_batches(schema, found)


def commits_now(tables: ClusterRows) -> pa.RecordBatchReader:
    """Returns the rows of `commit_log` that may tell where an offset stands now: those behind the last place at which
    the log hides what became of earlier ones."""
    log = commit_log(tables)
    is_hidden = pc.scalar(False)
    for partition, offsets in hidden_ends(tables.scan_if_any("coverage").read_all().to_pylist()).items():
        is_hidden |= (pc.field("kafka_partition") == partition) & (pc.field("kafka_offset") < max(offsets))
    found = (each for batch in log for each in pa.Table.from_batches([batch]).filter(~is_hidden).to_batches())
    return pa.RecordBatchReader.from_batches(log.schema, found)


def commits_of(records: pa.Table) -> pa.Table:
    decoded = records.filter(pc.field("decode_error").is_null())
    commit = {name: pc.struct_field(decoded["offset_commit"], name) for name in OF_COMMIT}
    # Numbers below 0 and the id of zeros say that there is none.
    commit["committed_offset"], commit["leader_epoch"] = (
        pc.if_else(pc.greater_equal(commit[name], 0), commit[name], None) for name in ("offset", "leader_epoch")
    )
    commit["topic_id"] = pc.if_else(pc.not_equal(commit["topic_id"], ZERO_UUID), commit["topic_id"], None)
    return pa.table({name: decoded[name] for name in OF_RECORD} | commit)
