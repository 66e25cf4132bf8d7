"""`groupledger history`: from `coordinator_records` to who was in which group, who owned what, and every rebalance.

The first run folds all that the table holds; later ones follow it as a stream, a micro-batch of new rows at a time.
Each batch writes the derived tables first and `open_groups` last, so that a batch that was killed in between is folded
again from the old state and gives the same rows. A rebuild folds everything into the same tables, each replaced in one
Delta commit: readers see a table as it was, or as it is, and `open_groups` comes last here too.

Rows of one cluster only; several share the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from jobs.checkpoint import read_checkpoint
from jobs.errors import InputError
from jobs.ledger import set_checkpoint_aside
from jobs.rebalance_stats import COUNTED, update_rebalance_stats
from jobs.source import read_source
from jobs.stream import must_stop, wait
from jobs.upsert import replace_cluster, upsert
from jobs.warehouse import create_table, latest_version, read_table, table_exists, table_path
from schemas.tables.coordinator_records import COORDINATOR_RECORDS
from schemas.tables.open_groups import OPEN_GROUPS
from schemas.tables.rebalance_stats import REBALANCE_STATS
from schemas.tables.table import IS_OPEN
from transforms.coverage import stretches
from transforms.group_history import DERIVED_TABLES, fold_groups, group_events
from transforms.history import Coverage

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from jobs.ledger import Ledger
    from jobs.source import Source
    from schemas.tables.table import Table
    from transforms.group_history import Marks

TABLES = (*DERIVED_TABLES, REBALANCE_STATS, OPEN_GROUPS)
CHECKPOINT_NAME = "history"
RECORD_COLUMNS = (
    *("group_id", "kafka_partition", "kafka_offset", "kafka_timestamp", "record_type", "is_tombstone", "decode_error"),
    *("offset_commit.topic", "offset_commit.partition", "offset_commit.offset as committed_offset", "record_json"),
)
# All of a Delta commit must come in one batch: its files have no order among each other. So no batch is bounded.
FILES_PER_BATCH = 2**31 - 1


@dataclass
class HistoryTotals:
    """Rows written in this run, by table."""

    rows: dict[str, int]

    def add(self, written: Mapping[str, int]) -> None:
        for name, count in written.items():
            self.rows[name] = self.rows.get(name, 0) + count


def update_history(ledger: Ledger, stop: threading.Event) -> HistoryTotals:
    """All that `coordinator_records` holds and the history has not.

    Raises InputError if there is nothing to read, or if a table of the history is gone.
    """
    records = read_table(ledger.spark, ledger.warehouse, COORDINATOR_RECORDS)
    # A checkpoint without a batch does not say where it would begin.
    checkpoint = read_checkpoint(ledger.storage, checkpoint_folder(ledger))
    is_first = checkpoint is None or checkpoint.planned_batch is None
    missing = [table.name for table in TABLES if not table_exists(ledger.spark, ledger.warehouse, table)]
    if missing and not is_first:
        raise InputError(
            f"The history has been written before, and its tables {', '.join(missing)} are gone: run `groupledger"
            " history --rebuild` to make all of them again."
        )
    return fold_all(ledger, records, stop) if is_first else follow(ledger, HistoryTotals({}), stop)


def rebuild_history(ledger: Ledger, stop: threading.Event) -> HistoryTotals:
    """Everything again, from all rows of `coordinator_records` that are left."""
    records = read_table(ledger.spark, ledger.warehouse, COORDINATOR_RECORDS)
    set_checkpoint_aside(ledger.storage, checkpoint_folder(ledger))
    return fold_all(ledger, records, stop, is_rebuild=True)


def checkpoint_folder(ledger: Ledger) -> str:
    return f"_checkpoints/{ledger.cluster}/{CHECKPOINT_NAME}"


def fold_all(ledger: Ledger, records: DataFrame, stop: threading.Event, *, is_rebuild: bool = False) -> HistoryTotals:
    """The table as a whole, since a stream's first read of it has no order; then what is added to it."""
    version = latest_version(ledger.spark, ledger.warehouse, COORDINATOR_RECORDS)
    for table in TABLES:
        create_table(ledger.spark, ledger.warehouse, table)
    totals = HistoryTotals({})
    totals.add(apply_batch(ledger, records, is_rebuild=is_rebuild))
    return follow(ledger, totals, stop, from_version=version)


def follow(
    ledger: Ledger, totals: HistoryTotals, stop: threading.Event, *, from_version: int | None = None
) -> HistoryTotals:
    """What was added to the table since the checkpoint, or since a version that is folded already."""
    stream = ledger.spark.readStream.format("delta").option("skipChangeCommits", "true")
    stream = stream.option("maxFilesPerTrigger", str(FILES_PER_BATCH))
    if from_version is not None:
        stream = stream.option("startingVersion", str(from_version))

    def on_batch(batch: DataFrame, _number: int) -> None:
        totals.add(apply_batch(ledger, batch))

    query = (
        stream.load(table_path(ledger.warehouse, COORDINATOR_RECORDS))
        .writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", f"{ledger.warehouse.rstrip('/')}/{checkpoint_folder(ledger)}")
        .trigger(availableNow=True)
        .start()
    )
    while not wait(query):
        if must_stop(ledger, query, stop):
            break
    return totals


def apply_batch(ledger: Ledger, records: DataFrame, *, is_rebuild: bool = False) -> dict[str, int]:
    """Fold rows of `coordinator_records` and write what comes of it; gives the rows written by table."""
    records = records_of(ledger, records).persist()
    folded = fold_groups(*new_events(ledger, records, from_begin=is_rebuild)).persist()
    try:
        names = [*(table.name for table in DERIVED_TABLES), OPEN_GROUPS.name]
        counts = folded.select(*[F.count(name).alias(name) for name in names]).collect()[0].asDict()

        def write(table: Table) -> DataFrame:
            rows = table_rows(folded, table, ledger.cluster)
            if is_rebuild:
                replace_cluster(ledger.warehouse, table, ledger.cluster, rows)
            elif counts[table.name]:
                upsert(ledger.warehouse, table, rows)
            return rows

        written = {table: write(table) for table in DERIVED_TABLES}
        if is_rebuild or any(counts[table.name] for table in COUNTED):
            update_rebalance_stats(ledger, written, is_rebuild=is_rebuild)
        write(OPEN_GROUPS)
    finally:
        folded.unpersist()
        records.unpersist()
    if any(counts.values()):
        told = ", ".join(f"{counts[table.name]:,} {table.name}" for table in DERIVED_TABLES if counts[table.name])
        ledger.say(f"history: rows written: {told}")
    return counts


def records_of(ledger: Ledger, records: DataFrame) -> DataFrame:
    return records.where(F.col("cluster") == F.lit(ledger.cluster)).selectExpr(*RECORD_COLUMNS)


def new_events(ledger: Ledger, records: DataFrame, *, from_begin: bool) -> tuple[DataFrame, Marks]:
    """Of each group, what it has not folded yet, or everything; and the stretches of coverage."""
    source = read_source(ledger.storage, ledger.cluster)
    if source is None:
        raise InputError(
            f"The file that says what the ledger of cluster {ledger.cluster} was fed from is gone, and with it how"
            " completely the log is known: run `groupledger ingest --recover` first."
        )
    reached = records.groupBy("kafka_partition").agg(F.max("kafka_offset")).collect()
    marks = marks_of(source, dict(map(tuple, reached)))
    spark = records.sparkSession  # a micro-batch has a session of its own
    if from_begin:
        open_groups = spark.createDataFrame([], OPEN_GROUPS.schema)
    else:
        open_groups = spark.read.format("delta").load(table_path(ledger.warehouse, OPEN_GROUPS))
        open_groups = open_groups.where(F.col("cluster") == F.lit(ledger.cluster))
    return group_events(records, open_groups, marks), marks


def table_rows(folded: DataFrame, table: Table, cluster: str) -> DataFrame:
    rows = folded.where(F.col(table.name).isNotNull()).select(f"{table.name}.*").withColumn("cluster", F.lit(cluster))
    if table.end_column is None:
        return rows
    return rows.withColumn(IS_OPEN.name, F.col(table.end_column).isNull().cast("int"))


def marks_of(source: Source, reached: Mapping[int, int]) -> Marks:
    """The starts of the stretches of coverage, as far as each partition is read."""
    return {
        partition: [
            Coverage(stretch.from_offset, stretch.completeness)
            for stretch in stretches(source.readings.get(partition, []), offset + 1, None)
        ]
        for partition, offset in reached.items()
    }
