"""Reads commits from files of `coordinator_records`, and the progress of `ingest`.

A round of a large cluster has as many commits as the cluster has partitions of groups. So commits come as columns of
Arrow: Spark's rows take four times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.jobs.process.arrow_values import values_of
from groupledger.jobs.warehouse.added_files import rows_in
from groupledger.jobs.warehouse.checkpoint import kafka_positions, read_checkpoint, source_offset
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.lag.lag import commit_events
from groupledger.transforms.lag.rules import Commit
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.added_files import AddedFiles
    from groupledger.jobs.warehouse.ledger import Ledger

ROWS_OF_LISTS = 50_000
COMMIT_COLUMNS = (
    *("group_id", "topic", "partition"),
    *("committed_offset", "at_ms", "kafka_partition", "kafka_offset", "topic_id", "leader_epoch"),  # as in `Commit`
)


def commits_in(ledger: Ledger, files: AddedFiles) -> DataFrame:
    """Returns the offset commits in some files of `coordinator_records`, of the ledger's cluster, with the columns of
    `commit_log`."""
    return commit_log(rows_in(ledger, COORDINATOR_RECORDS, files))


def in_log_order(commits: DataFrame) -> Iterator[tuple[str, str, int, Commit]]:
    """Yields group, topic, partition and commit of the rows of `commit_log`, in the order of each partition of the
    log."""
    rows = commit_events(commits).orderBy("kafka_partition", "kafka_offset").select(*COMMIT_COLUMNS).toArrow()
    return commits_of(rows)


def commits_of(rows: pa.Table) -> Iterator[tuple[str, str, int, Commit]]:
    """Yields group, topic, partition and commit of rows with `COMMIT_COLUMNS`. Commits near each other share the names
    in them, since most names come again and again."""
    for batch in rows.to_batches(max_chunksize=ROWS_OF_LISTS):
        group_ids, topics, partitions, *of_commit = map(_values, batch.columns)
        yield from zip(group_ids, topics, partitions, map(Commit, *of_commit), strict=True)


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_string(column.type):
        return values_of(column)
    texts = column.dictionary_encode()
    by_code: list[str] = texts.dictionary.to_pylist()
    return [None if code is None else by_code[code] for code in texts.indices.to_pylist()]


def ingest_positions(ledger: Ledger) -> dict[int, int]:
    """Returns, by partition of `__consumer_offsets`, the offset below which `coordinator_records` has all records;
    empty before the first batch of the stream."""
    checkpoint = read_checkpoint(ledger.storage, ledger.checkpoint_folder)
    batch = None if checkpoint is None else checkpoint.committed_batch
    return kafka_positions(source_offset(ledger.storage, ledger.checkpoint_folder, batch), OFFSETS_TOPIC)


def unread_offsets(positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Returns, by partition of `__consumer_offsets`, how many offsets the ingest still has to read up to `ends`.
    Partitions where it has none to read are left out."""
    missing = {partition: end - positions.get(partition, 0) for partition, end in ends.items()}
    return {partition: offsets for partition, offsets in missing.items() if offsets > 0}
