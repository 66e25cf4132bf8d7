"""Reads the commits in files of `coordinator_records`, and how far `ingest` has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.added_files import rows_in
from groupledger.jobs.warehouse.checkpoint import kafka_positions, read_checkpoint, source_offset
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.added_files import AddedFiles
    from groupledger.jobs.warehouse.ledger import Ledger


def commits_in(ledger: Ledger, files: AddedFiles) -> DataFrame:
    """Returns a `commit_log` of our cluster."""
    return commit_log(rows_in(ledger, COORDINATOR_RECORDS, files))


def ingest_positions(ledger: Ledger) -> dict[int, int]:
    """Returns per partition of `__consumer_offsets` the offset up to which the table holds everything; it is empty
    before the first batch of the stream."""
    checkpoint = read_checkpoint(ledger.storage, ledger.checkpoint_folder)
    batch = None if checkpoint is None else checkpoint.committed_batch
    return kafka_positions(source_offset(ledger.storage, ledger.checkpoint_folder, batch), OFFSETS_TOPIC)


def behind(positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Returns by how many offsets the ingest has not passed the ends, for the partitions where it has not."""
    missing = {partition: end - positions.get(partition, 0) for partition, end in ends.items()}
    return {partition: offsets for partition, offsets in missing.items() if offsets > 0}
