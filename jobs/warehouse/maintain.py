"""`groupledger maintain` merges small files, removes old dates, and deletes files that nothing refers to.

It takes one table after the other, while no writer of any cluster can run, and works without Spark's tasks:
- Retention removes what is older than the settings say. Of a table that is partitioned by date these are whole dates,
  in one Delta commit that rewrites no file; it waits while a streaming reader of the table has rows to read, which that
  would never see. Of other tables these are rows that ended, or happened, before midnight (UTC) of the first date that
  is kept. For `coordinator_records` and the history it raises the floor first.
- OPTIMIZE merges files that no longer change: dates before today, rows that have ended, and all files of tables that
  have neither. Dates of `coordinator_records` are sorted at that (`sorted_dates`). Its commit has no new data, so
  streaming readers pass over it. (They begin at a version of the table, not at a snapshot, whose files have no order.)
- VACUUM deletes files that are older than the table's `delta.deletedFileRetentionDuration` (45 days). It waits if a
  reader has not read new rows for longer than `reader_downtime_days_max`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.lease import all_leases
from groupledger.jobs.warehouse.readers import readers, unread_since
from groupledger.jobs.warehouse.retention import Floor, with_floors, with_history_floor
from groupledger.jobs.warehouse.sorted_dates import sort_date, unsorted_dates
from groupledger.jobs.warehouse.storage import STATE_FOLDER, open_storage
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.tables.all_tables import all_tables, date_column, retained_by, table_named
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.table import IS_OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import Column, SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.commits import PartitionFilter
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.readers import Reader
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.schemas.tables.table import Table

READ_FIRST = "a streaming reader has not read the table to its end (run `groupledger history` or `pipeline`)"


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one step, as a sentence. `is_finding` says that the step could not be done."""

    table: str
    action: str
    outcome: str
    is_finding: bool = False


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A run of `maintain`. With `is_dry_run` it changes nothing."""

    tables: Tables
    commits: Commits
    storage: Storage
    settings: Settings
    now: datetime
    is_dry_run: bool
    readers: Sequence[Reader]

    def steps(self, table: Table) -> list[Step]:
        """Returns the steps that were done, or would be, in their order."""
        since = unread_since(self.tables, self.storage, table, self.readers)
        downtime_max = timedelta(days=self.settings.maintain.reader_downtime_days_max)
        found = []
        days = self.settings.maintain.retention_days.get(table.name)
        if days is not None:
            by_date = date_column(table) is not None
            found.append(
                self._remove(table, days, is_read=since is None) if by_date else self._remove_rows(table, days)
            )
        found.append(self._optimize(table))
        if since is not None and self.now - since > downtime_max:
            text = f"not done: {READ_FIRST}, rows wait since {since:%Y-%m-%d}"
            found.append(Step(table.name, "vacuum", text, is_finding=True))
        else:
            found.append(self._vacuum(table))
        return found

    def _remove(self, table: Table, days: int, *, is_read: bool) -> Step:
        name = date_column(table)
        assert name is not None  # noqa: S101 - check_names holds it
        first_kept = self.now.date() - timedelta(days=days)
        is_old = F.col(name) < F.lit(first_kept)
        dates = self._dates(table, name, is_old)
        if not dates:
            return Step(table.name, "retention", f"nothing is older than {first_kept}")
        span = f"{len(dates)} dates, {dates[0]} to {dates[-1]}"
        if not is_read:
            return Step(table.name, "retention", f"not done for {span}: {READ_FIRST}", is_finding=True)
        if self.is_dry_run:
            return Step(table.name, "retention", f"would remove {span}")
        if table is COORDINATOR_RECORDS:
            self._raise_floors(is_old)
        self.commits.delete(table, f"{name} < DATE '{first_kept.isoformat()}'")
        return Step(table.name, "retention", f"removed {span}")

    def _remove_rows(self, table: Table, days: int) -> Step:
        first_kept = datetime.combine(self.now.date() - timedelta(days=days), time.min, timezone.utc)
        first_kept_us = round(first_kept.timestamp()) * 1_000_000
        is_old = F.col(table.retention_column or "") < F.timestamp_micros(F.lit(first_kept_us))
        by_cluster = self.tables.rows(table).where(is_old).groupBy("cluster").count().collect()
        count = sum(row["count"] for row in by_cluster)
        what = f"{count:,} rows from before {first_kept:%Y-%m-%d}"
        if not count:
            return Step(table.name, "retention", f"nothing is older than {first_kept:%Y-%m-%d}")
        if self.is_dry_run:
            return Step(table.name, "retention", f"would remove {what}")
        if table.end_column is not None:
            clusters, floor_ms = [row["cluster"] for row in by_cluster], first_kept_us // 1_000
            self.commits.set_properties(table, lambda before: with_history_floor(before, clusters, floor_ms))
        # Delta's engine compares instants only with instants that have a zone.
        instant = f"arrow_cast({first_kept_us:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        self.commits.delete(table, f"{table.retention_column} < {instant}")
        return Step(table.name, "retention", f"removed {what}")

    def _dates(self, table: Table, name: str, is_old: Column) -> list[date]:
        rows = self.tables.rows(table).where(is_old).select(name).distinct().collect()
        return sorted(row[0] for row in rows)

    def _raise_floors(self, is_old: Column) -> None:
        rows = self.tables.rows(COORDINATOR_RECORDS).where(is_old)
        by_partition = rows.groupBy("cluster", "kafka_partition").agg(
            F.max("kafka_offset").alias("last_offset"), F.unix_millis(F.max("kafka_timestamp")).alias("time_ms")
        )
        floors: dict[str, dict[int, Floor]] = {}
        for row in by_partition.collect():
            floors.setdefault(row.cluster, {})[row.kafka_partition] = Floor(row.last_offset + 1, row.time_ms)
        self.commits.set_properties(COORDINATOR_RECORDS, lambda before: with_floors(before, self.storage, floors))

    def _optimize(self, table: Table) -> Step:
        what, condition = self._closed(table)
        if table is COORDINATOR_RECORDS:
            return self._sort()
        if self.is_dry_run:
            return Step(table.name, "optimize", f"would compact {what}")
        removed, added = self.commits.compact(table, condition, self.settings.maintain.optimize_file_mb * 1024 * 1024)
        if not removed:
            return Step(table.name, "optimize", f"{what}: nothing to compact")
        return Step(table.name, "optimize", f"{what}: {removed} files became {added}")

    def _sort(self) -> Step:
        """Brings the closed dates of the records into the order in which a question finds a group."""
        name, what = COORDINATOR_RECORDS.name, f"dates before {self.now.date()}"
        file_bytes = self.settings.maintain.optimize_file_mb * 1024 * 1024
        found = unsorted_dates(self.commits, self.now.date(), file_bytes)
        if not found:
            return Step(name, "optimize", f"{what}: nothing to sort")
        if self.is_dry_run:
            return Step(name, "optimize", f"would sort {len(found):,} {what}")
        added = sum(sort_date(self.commits, each) for each in found)
        removed = sum(len(each.paths) for each in found)
        return Step(name, "optimize", f"{len(found):,} {what}: {removed} files became {added}, sorted")

    def _closed(self, table: Table) -> tuple[str, list[PartitionFilter]]:
        """Returns which rows no longer change, in words and as a condition on the partitions (none for all rows)."""
        name = date_column(table)
        if name is not None:
            today = self.now.date().isoformat()
            return f"dates before {today}", [(name, "<", today)]
        if IS_OPEN.name in table.partition_columns:
            return "rows that have ended", [(IS_OPEN.name, "=", "0")]
        return "the whole table", []

    def _vacuum(self, table: Table) -> Step:
        kept = table.properties["delta.deletedFileRetentionDuration"].removeprefix("interval ")
        if self.is_dry_run:
            return Step(table.name, "vacuum", f"would delete files that nothing refers to for {kept}")
        self.commits.vacuum(table)
        return Step(table.name, "vacuum", f"files that nothing refers to for {kept} are deleted")


def maintain(
    spark: SparkSession,
    warehouse: str,
    settings: Settings,
    now: datetime,
    *,
    is_dry_run: bool,
    say: Callable[[str], None],
    held: Sequence[Lease] = (),
) -> list[Step]:
    """Maintains every table that is there, with the rows of all clusters; returns the steps. `held` are leases that a
    writer has who maintains the tables in its pauses. Raises InputError if there is no table, OutsideError if somebody
    else writes."""
    check_names(settings)
    storage = open_storage(spark, warehouse)
    tables = Tables(spark, warehouse)
    found = tables.existing()
    with ExitStack() as stack:
        clusters = [] if is_dry_run else storage.names(STATE_FOLDER)
        leases = all_leases(storage, clusters, "groupledger maintain", settings.lease.duration_s)
        names = {lease.held for lease in held}
        taken = [stack.enter_context(lease) for lease in leases if lease.held not in names]
        commits = Commits(warehouse, (*held, *taken))
        run = Maintenance(tables, commits, storage, settings, now, is_dry_run, readers(storage))
        steps: list[Step] = []
        for table in found:
            say(f"{table.name} ...")
            if not is_dry_run:
                commits.fence(table)
            steps += run.steps(table)
    return steps


def check_names(settings: Settings) -> None:
    """Raises InputError for a table that does not exist, or whose rows have no age, before anything is done."""
    with_dates = [table.name for table in all_tables() if retained_by(table)]
    for name in settings.maintain.retention_days:
        if name not in with_dates:
            problem = "there is no such table" if table_named(name) is None else "its rows have no age"
            raise InputError(
                f"The settings are wrong: maintain.retention_days.{name}: {problem}. What can be named is"
                f" {', '.join(with_dates)}."
            )
