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
from groupledger.jobs.warehouse.kept_settings import settle
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.retention import read_floors
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
    """Returns at once: the default of `Ledger.give_way`."""


@dataclass(frozen=True, kw_only=True)
class Ledger(ClusterTables):
    """The tables of a cluster, with the lease to write them. A long job calls `give_way` between two writes, which
    returns when the job may go on. `judged_nobody` has the steps that could judge no group the last time."""

    storage: Storage
    lease: Lease
    say: Callable[[str], None]
    settings: Settings
    say_warning: Callable[[str], None] | None = None  # None: as `say`
    give_way: Callable[[], None] = go_on
    judged_nobody: set[str] = field(default_factory=set, compare=False)
    _fenced: set[Table] = field(default_factory=set, compare=False)

    def warn(self, text: str) -> None:
        """Reports what somebody should look at."""
        (self.say_warning or self.say)(text)

    def under(self, lease: Lease) -> Ledger:
        """Returns the ledger for the tables that another lease is for."""
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
        """Makes the tables that are missing, brings older ones to this release, and keeps earlier writers out of them.
        A job calls it for every table that it writes, before it reads what it goes on from.

        Raises InputError if a table can't be brought here, OutsideError if a later writer has it.
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
    """Starts Spark and takes the lease on the cluster's tables, or on part of them (`lease.logs_of`)."""
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
    """Takes the lease as `open_ledger` does, in a session that is there."""
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
    """Returns the rows of `coordinator_records` that were ingested on a day or later (`ingested_since`)."""
    return tables.rows_within(COORDINATOR_RECORDS, ingested_since(ingested_from_ms))


def ingested_since(ingested_from_ms: int | None) -> Condition:
    """Is the condition for rows that were ingested on a day or later. Without a day, or with one that is yet to come,
    it holds for all of them: the clock was ahead then, and later rows have earlier days."""
    if ingested_from_ms is None or ingested_from_ms > now_ms():
        return every_row
    since = day_before(ingested_from_ms)

    def is_new(column: Callable[[str], Any]) -> Any:
        ingested = column("ingest_date")
        return is_null(ingested) | (ingested >= since)

    return is_new


def begin_again_if_lost(ledger: Ledger, rows: Table, progress: Table, **which: str) -> bool:
    """Deletes a table's notes on how far the cluster's sources were read, if the table of what was read was deleted:
    what is still there is read again. Returns whether it did. `which` are columns that its rows must have."""
    if ledger.exists(rows) or not ledger.exists(progress):
        return False
    values = {"cluster": ledger.cluster, **which}
    ledger.commits.delete(progress, " AND ".join(f"{name} = '{value}'" for name, value in values.items()))
    return True


def first_day_ms(*days: int | None) -> int | None:
    """Returns the first of some days since the epoch that is known, in milliseconds, today instead of a later one."""
    day = next((each for each in days if each is not None), None)
    return None if day is None else min(day, now_ms() // DAY_MS) * DAY_MS


def day_before(at_ms: int) -> date:
    """Returns the date before that of an instant: clocks may have been set back."""
    return instant_of_ms(at_ms - DAY_MS).date()


def is_behind(positions: Mapping[int, int]) -> Column:
    """Returns whether a record is at or after the position of its partition."""
    partition, offset = F.col("kafka_partition"), F.col("kafka_offset")
    is_new = [(partition == key) & (offset >= position) for key, position in positions.items()]
    return reduce(or_, is_new, ~partition.isin(*positions)) if positions else F.lit(True)


def of_removed_records(ledger: Ledger, rows: DataFrame) -> DataFrame:
    """Returns those of the rows, each made of a record at its place, whose record retention has removed."""
    key = ["kafka_partition", "kafka_offset"]
    is_below = ~is_behind({partition: floor.offset for partition, floor in floors_of(ledger).items()})
    records = ledger.rows_if_any(COORDINATOR_RECORDS).where(is_below)
    return rows.where(is_below).join(records.select(key), key, "left_anti").select(rows.columns)


def known_ends(tables: ClusterTables) -> dict[int, int]:
    """Returns by partition until when all records are known that were written by then, in milliseconds; -1 where nobody
    knows."""
    if not tables.exists(COVERAGE):
        return {}
    ends: dict[int, int] = {}
    for row in tables.arrow(COVERAGE, columns=["kafka_partition", "to_time"]).to_pylist():
        known_ms = -1 if row["to_time"] is None else ms_of(row["to_time"])
        ends[row["kafka_partition"]] = max(known_ms, ends.get(row["kafka_partition"], -1))
    return ends


def known_positions(ledger: Ledger, records: DataFrame | None = None) -> dict[int, int]:
    """Returns per partition the offset after the last one that the ledger knows of: from its rows and what retention
    has removed (`row_positions`), and from `coverage`, which also knows of offsets that hold no row."""
    positions = row_positions(ledger, records)
    if ledger.exists(COVERAGE):
        covered = ledger.arrow(COVERAGE, columns=["kafka_partition", "to_offset"])
        for row in covered.to_pylist():
            partition = row["kafka_partition"]
            positions[partition] = max(row["to_offset"], positions.get(partition, 0))
    return positions


def floors_of(ledger: Ledger) -> dict[int, Floor]:
    """Returns by partition below what retention has removed rows of `coordinator_records`."""
    return read_floors(properties_of(ledger.warehouse, COORDINATOR_RECORDS), ledger.storage, ledger.cluster)


def row_positions(ledger: Ledger, records: DataFrame | None = None) -> dict[int, int]:
    """Returns per partition the offset after the last row, or the last one that retention has removed. `records` are
    the rows that may lie behind what else is known, if that is known."""
    if records is None and ledger.has_rows(COORDINATOR_RECORDS):
        records = ledger.rows(COORDINATOR_RECORDS)
    floors = floors_of(ledger)
    positions = {partition: floor.offset for partition, floor in floors.items()}
    if records is not None:
        for partition, end in records.groupBy("kafka_partition").agg(F.max("kafka_offset") + 1).collect():
            positions[partition] = max(end, positions.get(partition, 0))
    return positions
