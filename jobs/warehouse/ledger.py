"""Opens one cluster's ledger in a warehouse for writing."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.process.clock import DAY_MS, now_ms
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import properties_of
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.retention import read_floors
from groupledger.jobs.warehouse.settled_settings import settle
from groupledger.jobs.warehouse.storage import open_storage
from groupledger.jobs.warehouse.tables import ClusterTables, every_row, is_null
from groupledger.jobs.warehouse.warehouse import create_table
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.retention import Floor
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.jobs.warehouse.tables import Condition, Tables
    from groupledger.schemas.tables.table import Table


def go_on() -> None:
    """Returns at once. It is the default of `Ledger.give_way`."""


@dataclass(frozen=True, kw_only=True)
class Ledger(ClusterTables):
    """The tables of a cluster, with the lease to write them. A long job calls `give_way` between two writes; the call
    returns when the job may continue. `judged_nobody` has the names of the steps that failed on every group when they
    last ran."""

    storage: Storage
    lease: Lease
    say: Callable[[str], None]
    settings: Settings
    say_warning: Callable[[str], None] | None = None  # None: as `say`
    give_way: Callable[[], None] = go_on
    judged_nobody: set[str] = field(default_factory=set, compare=False)
    _fenced: set[Table] = field(default_factory=set, compare=False)

    def warn(self, text: str) -> None:
        """Prints a warning."""
        (self.say_warning or self.say)(text)

    def under(self, lease: Lease) -> Ledger:
        """Returns a copy of this ledger with another lease, to write the tables that belong to that lease."""
        return replace(self, lease=lease, _fenced=set())

    @property
    def commits(self) -> Commits:
        return Commits(self.warehouse, (self.lease,))

    @property
    def checkpoint_folder(self) -> str:
        return f"_checkpoints/{self.cluster}/{COORDINATOR_RECORDS.name}"

    @property
    def checkpoint_path(self) -> str:
        return f"{self.warehouse.rstrip('/')}/{self.checkpoint_folder}"

    def create(self, *tables: Table) -> None:
        """Creates those of the tables that are missing, migrates older ones to this release, and fences out earlier
        writers. A job calls it for every table that it writes, before it reads the state from which it continues.

        Raises InputError if a table can't be migrated, OutsideError if a later writer has fenced it.
        """
        for table in tables:
            if table not in self._fenced:
                create_table(self, self.commits, table)
                self.commits.fence(table)
                self._fenced.add(table)


@contextmanager
def open_ledger(
    settings: Settings,
    warehouse: str,
    command: str,
    say: Callable[[str], None],
    *,
    warn: Callable[[str], None] | None = None,
    java_options: str = "",
    held: str | None = None,
) -> Iterator[Ledger]:
    """Starts Spark, takes the lease on the cluster's tables, and yields the ledger. `held` is the name of the lease, if
    it is on a part of the tables only (`lease.logs_of`)."""
    say("starting Spark")
    spark = spark_session(f"groupledger {command}", java_options=java_options)
    with ledger_in(spark, settings, warehouse, command, say, warn=warn, held=held) as ledger:
        yield ledger


@contextmanager
def ledger_in(
    spark: SparkSession,
    settings: Settings,
    warehouse: str,
    command: str,
    say: Callable[[str], None],
    *,
    warn: Callable[[str], None] | None = None,
    held: str | None = None,
) -> Iterator[Ledger]:
    """Takes the lease and yields the ledger as `open_ledger` does, in an existing Spark session."""
    storage = open_storage(spark, warehouse)
    with Lease(storage, held or settings.cluster, f"groupledger {command}", settings.lease.duration_s) as lease:
        ledger = Ledger(
            *(spark, warehouse, settings.cluster),
            storage=storage,
            lease=lease,
            say=say,
            say_warning=warn,
            settings=settings,
        )
        yield replace(ledger, settings=settle(ledger, command, is_of_logs=held is not None))


def records_since(tables: Tables, ingested_from_ms: int | None) -> DataFrame:
    """Returns the rows of `coordinator_records` that were ingested on the day of `ingested_from_ms`, the day before it,
    or later (see `ingested_since`)."""
    return tables.rows_within(COORDINATOR_RECORDS, ingested_since(ingested_from_ms))


def ingested_since(ingested_from_ms: int | None) -> Condition:
    """Returns the condition for rows that were ingested on the day of `ingested_from_ms`, the day before it, or later,
    or whose day is null. If `ingested_from_ms` is None or in the future, the condition holds for all rows: the clock
    was ahead then, and later rows may have earlier days."""
    if ingested_from_ms is None or ingested_from_ms > now_ms():
        return every_row
    since = day_before(ingested_from_ms)

    def is_new(column: Callable[[str], Any]) -> Any:
        ingested = column("ingest_date")
        return is_null(ingested) | (ingested >= since)

    return is_new


def begin_again_if_lost(ledger: Ledger, rows: Table, progress: Table, **which: str) -> bool:
    """If the table `rows` was deleted, deletes the cluster's rows of the table `progress`, which note how far the
    sources were read, so that the sources are read again. Returns whether it deleted them. `which` are values, by
    further columns, that the rows of `progress` must have to be deleted."""
    if ledger.exists(rows) or not ledger.exists(progress):
        return False
    values = {"cluster": ledger.cluster, **which}
    ledger.commits.delete(progress, " AND ".join(f"{name} = '{value}'" for name, value in values.items()))
    return True


def first_day_ms(*days: int | None) -> int | None:
    """Returns the first of `days` (in days since the epoch) that is not None, but today at the latest, in milliseconds
    since the epoch. Returns None if all are None."""
    day = next((each for each in days if each is not None), None)
    return None if day is None else min(day, now_ms() // DAY_MS) * DAY_MS


def day_before(at_ms: int) -> date:
    """Returns the date (UTC) before the date of an instant. The extra day allows for clocks that were set back."""
    return instant_of_ms(at_ms - DAY_MS).date()


def at_or_after(positions: Mapping[int, int]) -> Column:
    """Returns the condition that a record lies at or after the position of its partition. It also holds for records of
    partitions without a position."""
    partition, offset = F.col("kafka_partition"), F.col("kafka_offset")
    is_new = [(partition == key) & (offset >= position) for key, position in positions.items()]
    return reduce(or_, is_new, ~partition.isin(*positions)) if positions else F.lit(True)


def of_removed_records(ledger: Ledger, rows: DataFrame) -> DataFrame:
    """Returns those of `rows` whose records retention has removed from `coordinator_records`. Each row names its record
    by `kafka_partition` and `kafka_offset`."""
    key = ["kafka_partition", "kafka_offset"]
    is_below = ~at_or_after({partition: floor.offset for partition, floor in floors_of(ledger).items()})
    records = ledger.rows_if_any(COORDINATOR_RECORDS).where(is_below)
    return rows.where(is_below).join(records.select(key), key, "left_anti").select(rows.columns)


def known_ends(tables: ClusterTables) -> dict[int, int]:
    """Returns, by partition, the instant up to which `coverage` knows all records, in milliseconds since the epoch; -1
    if this instant is unknown."""
    if not tables.exists(COVERAGE):
        return {}
    ends: dict[int, int] = {}
    for row in tables.arrow(COVERAGE, columns=["kafka_partition", "to_time"]).to_pylist():
        known_ms = -1 if row["to_time"] is None else ms_of(row["to_time"])
        ends[row["kafka_partition"]] = max(known_ms, ends.get(row["kafka_partition"], -1))
    return ends


def known_positions(ledger: Ledger, records: DataFrame | None = None) -> dict[int, int]:
    """Returns, by partition, the offset after the last one that the ledger knows: from rows and removed rows of
    `coordinator_records` (see `row_positions` for `records`), and from `coverage`, which also covers offsets without a
    row."""
    positions = row_positions(ledger, records)
    if ledger.exists(COVERAGE):
        covered = ledger.arrow(COVERAGE, columns=["kafka_partition", "to_offset"])
        for row in covered.to_pylist():
            partition = row["kafka_partition"]
            positions[partition] = max(row["to_offset"], positions.get(partition, 0))
    return positions


def floors_of(ledger: Ledger) -> dict[int, Floor]:
    """Returns, by partition, the floor below which retention has removed rows of `coordinator_records`."""
    return read_floors(properties_of(ledger.warehouse, COORDINATOR_RECORDS), ledger.storage, ledger.cluster)


def row_positions(ledger: Ledger, records: DataFrame | None = None) -> dict[int, int]:
    """Returns, by partition, the offset after the last row of `coordinator_records`, whether or not retention has
    removed that row since. If `records` is given, only these rows are looked at, not the whole table."""
    if records is None and ledger.has_rows(COORDINATOR_RECORDS):
        records = ledger.rows(COORDINATOR_RECORDS)
    floors = floors_of(ledger)
    positions = {partition: floor.offset for partition, floor in floors.items()}
    if records is not None:
        for partition, end in records.groupBy("kafka_partition").agg(F.max("kafka_offset") + 1).collect():
            positions[partition] = max(end, positions.get(partition, 0))
    return positions
