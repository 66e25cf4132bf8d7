"""Reads commits from files of `coordinator_records`, and the progress of `ingest`."""

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
    """Returns the offset commits in some files of `coordinator_records`, of the ledger's cluster, with the columns of
    `commit_log`."""
    return commit_log(rows_in(ledger, COORDINATOR_RECORDS, files))


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
