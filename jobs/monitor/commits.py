"""The commits that `ingest` has added to `coordinator_records` since the last look, and how far it has come.

The table's own log says which files a version added, so that a look costs as much as there is new, however long the
table is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.warehouse.checkpoint import kafka_positions, read_checkpoint, source_offset
from groupledger.jobs.warehouse.delta_log import added_by
from groupledger.jobs.warehouse.tables import not_a_pattern
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger


@dataclass(frozen=True, slots=True)
class NewFiles:
    """The files that versions added, with rows of any cluster. `version` is the last one that was looked at; `paths`
    are relative to the table."""

    version: int
    paths: tuple[str, ...] = ()
    row_count: int = 0


def new_files(ledger: Ledger, version: int) -> NewFiles:
    """Returns what was added to the table after a version."""
    files: dict[str, int] = {}
    while (added := added_by(ledger.storage, COORDINATOR_RECORDS, version + 1)) is not None:
        version += 1
        files |= added.files
    return NewFiles(version, tuple(files), sum(files.values()))


def commits_in(ledger: Ledger, files: NewFiles) -> DataFrame:
    """Returns a `commit_log` of our cluster."""
    folder = not_a_pattern(ledger.path(COORDINATOR_RECORDS))
    reader = ledger.spark.read.schema(COORDINATOR_RECORDS.schema).option("basePath", folder)
    rows = reader.parquet(*[f"{folder}/{path}" for path in files.paths])
    return commit_log(rows.where(F.col("cluster") == F.lit(ledger.cluster)))


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
