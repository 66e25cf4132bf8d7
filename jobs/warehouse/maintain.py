"""`groupledger maintain` merges small files, removes old dates, and deletes files that nothing refers to.

It maintains one cluster after the other, under the leases of that cluster. A cluster is skipped while another writer
holds its lease, and a monitor maintains its own cluster. In each table only rows and files of that cluster are changed.
An error in one table is reported as a finding and does not stop the others. The command works without Spark:
- It sets how long each table keeps its log and its deleted files (`maintain.log_hours` and the settings beside it).
- Retention removes old rows. From a table that is partitioned by date it removes whole dates, and rewrites only files
  that several clusters share; it waits while a streaming reader of the table has unread rows, which that reader would
  never see. From other tables it removes rows that ended, or happened, before midnight (UTC) of the first date that is
  kept. Before it removes rows of `coordinator_records` or the history, it raises their floor (`retention`).
- OPTIMIZE merges files that no longer change (`merged_files`), and sorts the rows of dates of `coordinator_records`
  that no longer change (`sorted_dates`). Its commits have no new data, so streaming readers pass over them. (These
  readers begin at a version of the table, not at a snapshot, whose files have no order.)
- VACUUM deletes files that were removed more than `maintain.deleted_file_hours` ago. It waits if a reader has left rows
  unread for longer than these hours, or for longer than `reader_downtime_days_max`. It also waits for an unfinished
  rebuild of the history, which needs the versions of the tables from its beginning.
- It deletes tables that a killed rebuild has left aside (`rebuild_units`).

Some tables that are partitioned by date are not partitioned by `cluster`. To change that, Delta would have to write all
rows of the table again, in one commit that ends every stream over it. It is not needed either: a file, also a merged
one, has rows of one cluster only, and by the bounds of the column `cluster` in the log a read leaves out the files of
other clusters.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.process.outside import explain, of_the_table
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import dataset, table_uri
from groupledger.jobs.warehouse.lease import Lease, all_held, held_for
from groupledger.jobs.warehouse.merged_files import (
    Settled,
    files_to_merge,
    is_of_cluster,
    may_be_of_cluster,
    merge_files,
)
from groupledger.jobs.warehouse.readers import readers, unread_since
from groupledger.jobs.warehouse.rebuild_units import drop_aside
from groupledger.jobs.warehouse.rebuilds import is_unfinished
from groupledger.jobs.warehouse.retention import Floor, with_floors, with_history_floor
from groupledger.jobs.warehouse.sorted_dates import sort_date, unsorted_dates
from groupledger.jobs.warehouse.storage import STATE_FOLDER, open_storage
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.instants import EPOCH, ms_of
from groupledger.schemas.tables.all_tables import all_tables, date_column, retained_by, table_named
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.readers import Reader
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.schemas.tables.table import Table, TableRetention

COMMAND = "groupledger maintain"
READ_FIRST = "a streaming reader has not read the table to its end (run `groupledger history` or `pipeline`)"
REBUILD_FIRST = "a rebuild of the history was begun and not finished (run `groupledger history` or `pipeline`)"
# Errors of one table that say nothing about the next one.
OF_A_TABLE = (JobError, DeltaError, OSError, pa.ArrowException)
DAY_H = 24


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step of a maintenance, with its outcome as a sentence. If `is_finding`, the step could not be done."""

    cluster: str
    table: str
    action: str
    outcome: str
    is_finding: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """A run of `maintain` over the tables of a cluster. With `is_dry_run` it changes nothing. `vacuumed` has the names
    of the tables whose removed files the same run has already deleted, for all clusters."""

    tables: Tables
    commits: Commits
    storage: Storage
    settings: Settings
    now: datetime
    is_dry_run: bool
    cluster: str
    readers: Sequence[Reader]
    vacuumed: set[str]

    def _step(self, table: Table, action: str, outcome: str, *, is_finding: bool = False) -> StepOutcome:
        return StepOutcome(self.cluster, table.name, action, outcome, is_finding)

    def steps(self, table: Table) -> Iterator[StepOutcome]:
        """Maintains a table, and yields the steps in their order: those that were done or, in a dry run, would be
        done."""
        yield from self._keep(table)
        own = [each for each in self.readers if each.cluster == self.cluster]
        since = unread_since(self.tables, self.storage, table, own)
        days = self.settings.maintain.retention_days.get(table.name)
        if days is not None:
            by_date = date_column(table) is not None
            yield self._remove(table, days, is_read=since is None) if by_date else self._remove_rows(table, days)
        if table.name not in self.vacuumed:  # before more files are removed, so that they never lie there together
            self.vacuumed.add(table.name)
            yield self._vacuum(table, unread_since(self.tables, self.storage, table, self.readers))
        yield self._sort() if table is COORDINATOR_RECORDS else self._merge(table)

    def _keep(self, table: Table) -> Iterator[StepOutcome]:
        """Sets how long the table keeps its past, if its properties differ from the settings."""
        wanted = retention_of(self.settings, table)
        before = self.commits.open(table).metadata().configuration
        new = {name: value for name, value in wanted.properties.items() if before.get(name) != value}
        if new and any(name == table.name for _, name in named_in(self.settings)):
            text = f"its log for {wanted.log_hours} hours, deleted files for {wanted.deleted_file_hours}"
            if not self.is_dry_run:
                self.commits.set_properties(table, lambda _: new)
            yield self._step(table, "keep", f"{'would keep' if self.is_dry_run else 'keeps'} {text}")

    def _remove(self, table: Table, days: int, *, is_read: bool) -> StepOutcome:
        name = date_column(table)
        assert name is not None  # noqa: S101 - check_names holds it
        first_kept = self.now.date() - timedelta(days=days)
        files = pa.table(self.commits.open(table).get_add_actions(flatten=True)).to_pylist()
        old = [file for file in files if (file[f"partition.{name}"] or first_kept) < first_kept]
        old = [file for file in old if may_be_of_cluster(file, self.cluster)]
        dates = sorted({file[f"partition.{name}"] for file in old})
        if not dates:
            return self._step(table, "retention", f"nothing is older than {first_kept}")
        span = f"{len(dates)} dates, {dates[0]} to {dates[-1]}"
        if not is_read:
            return self._step(table, "retention", f"not done for {span}: {READ_FIRST}", is_finding=True)
        if self.is_dry_run:
            return self._step(table, "retention", f"would remove {span}")
        if table is COORDINATOR_RECORDS:
            self._raise_floors((pc.field("cluster") == self.cluster) & (pc.field(name) < first_kept))
        own = [file["path"] for file in old if is_of_cluster(file, self.cluster)]
        if own:
            self.commits.replace_files(table, own, [])
        if len(own) < len(old):  # a release before may have merged files of several clusters
            condition = f"cluster = '{self.cluster}' AND {name} < DATE '{first_kept.isoformat()}'"
            self.commits.delete(table, condition)
        return self._step(table, "retention", f"removed {span}")

    def _remove_rows(self, table: Table, days: int) -> StepOutcome:
        first_kept = datetime.combine(self.now.date() - timedelta(days=days), time.min, timezone.utc)
        first_kept_us, name = round(first_kept.timestamp()) * 1_000_000, str(table.retention_column)
        is_old = (pc.field("cluster") == self.cluster) & (pc.field(name) < pa.scalar(first_kept))
        count = sum(rows.num_rows for rows in self._rows(table, is_old, ("cluster", name)))
        what = f"{count:,} rows from before {first_kept:%Y-%m-%d}"
        if not count:
            return self._step(table, "retention", f"nothing is older than {first_kept:%Y-%m-%d}")
        if self.is_dry_run:
            return self._step(table, "retention", f"would remove {what}")
        if table.end_column is not None:
            floor_ms = first_kept_us // 1_000
            self.commits.set_properties(table, lambda before: with_history_floor(before, [self.cluster], floor_ms))
        # Delta's engine compares instants only with instants that have a zone.
        instant = f"arrow_cast({first_kept_us:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        self.commits.delete(table, f"cluster = '{self.cluster}' AND {name} < {instant}")
        return self._step(table, "retention", f"removed {what}")

    def _raise_floors(self, is_old: pc.Expression) -> None:
        floors: dict[int, Floor] = {}
        names = ("cluster", "ingest_date", "kafka_partition", "kafka_offset", "kafka_timestamp")
        for rows in self._rows(COORDINATOR_RECORDS, is_old, names):
            last = rows.group_by("kafka_partition").aggregate([("kafka_offset", "max"), ("kafka_timestamp", "max")])
            for row in last.to_pylist():
                before = floors.get(row["kafka_partition"], Floor(0, 0))
                at = row["kafka_timestamp_max"]
                time_ms = before.time_ms if at is None else max(ms_of(at), before.time_ms)
                floors[row["kafka_partition"]] = Floor(max(row["kafka_offset_max"] + 1, before.offset), time_ms)
        new = {self.cluster: floors}
        self.commits.set_properties(COORDINATOR_RECORDS, lambda before: with_floors(before, self.storage, new))

    def _rows(self, table: Table, condition: pc.Expression, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yields some columns of the rows for which a condition on these holds, never all rows at once."""
        files = dataset(self.commits.warehouse, table, self.commits.open(table), condition)
        for fragment in files.get_fragments(condition):
            for batch in fragment.to_batches(schema=files.schema, columns=list(names)):
                yield pa.Table.from_batches([batch]).filter(condition)

    @property
    def _file_bytes(self) -> int:
        return self.settings.maintain.optimize_file_mb * 1024 * 1024

    def _merge(self, table: Table) -> StepOutcome:
        is_settled = Settled(table, self.cluster, self.now)
        found = files_to_merge(self.commits, is_settled, self._file_bytes)
        if not found:
            return self._step(table, "optimize", f"{is_settled.words}: nothing to compact")
        removed = sum(map(len, found))
        if self.is_dry_run:
            return self._step(table, "optimize", f"would compact {is_settled.words}: {removed} files")
        added = sum(merge_files(self.commits, table, paths) for paths in found)
        return self._step(table, "optimize", f"{is_settled.words}: {removed} files became {added}")

    def _sort(self) -> StepOutcome:
        """Brings the closed dates of the records into the order in which a question finds a group."""
        is_settled = Settled(COORDINATOR_RECORDS, self.cluster, self.now)
        what = is_settled.words
        found = unsorted_dates(self.commits, is_settled, self._file_bytes)
        if not found:
            return self._step(COORDINATOR_RECORDS, "optimize", f"{what}: nothing to sort")
        if self.is_dry_run:
            return self._step(COORDINATOR_RECORDS, "optimize", f"would sort {len(found):,} {what}")
        added = sum(sort_date(self.commits, each) for each in found)
        removed = sum(len(each.paths) for each in found)
        return self._step(
            COORDINATOR_RECORDS, "optimize", f"{len(found):,} {what}: {removed} files became {added}, sorted"
        )

    def _vacuum(self, table: Table, unread: datetime | None) -> StepOutcome:
        hours = retention_of(self.settings, table).deleted_file_hours
        waits_max = min(timedelta(hours=hours), timedelta(days=self.settings.maintain.reader_downtime_days_max))
        if unread is not None and self.now - unread > waits_max:
            since = "before its log begins" if unread == EPOCH else f"since {unread:%Y-%m-%d}"
            text = f"not done: {READ_FIRST}, rows may wait {since}"
            return self._step(table, "vacuum", text, is_finding=True)
        if any(is_unfinished(self.storage, each) for each in self.storage.names(STATE_FOLDER)):
            return self._step(table, "vacuum", f"not done: {REBUILD_FIRST}", is_finding=True)
        if self.is_dry_run:
            return self._step(table, "vacuum", f"would delete files that nothing refers to for {hours} hours")
        self.commits.vacuum(table, hours)
        return self._step(table, "vacuum", f"files that nothing refers to for {hours} hours are deleted")


def maintain(
    spark: SparkSession,
    warehouse: str,
    settings: Settings,
    now: datetime,
    *,
    is_dry_run: bool,
    say: Callable[[str], None],
    held: Sequence[Lease] | None = None,
) -> list[StepOutcome]:
    """Maintains the tables of one cluster after the other, and returns the steps. A cluster is skipped while another
    process holds its lease. A writer that maintains its tables in its pauses passes its leases as `held`; then only
    their clusters are maintained. Raises InputError if there is no table, and OutsideError if other processes hold all
    leases."""
    check_names(settings)
    storage = open_storage(spark, warehouse)
    tables = Tables(spark, warehouse)
    found = tables.existing()
    own = {lease.held: lease for lease in held or ()}
    nobody = Commits(warehouse, ())
    clusters = sorted({*storage.names(STATE_FOLDER), *clusters_in(nobody, found)})
    run = MaintenanceRun(tables, nobody, storage, settings, now, is_dry_run, "", readers(storage), set())
    steps: list[StepOutcome] = []
    refused: list[OutsideError] = []
    for cluster in clusters if held is None else [each for each in clusters if each in own]:
        for name in all_held(cluster):
            written = [table for table in found if held_for(cluster, table.written_by) == name]
            try:
                taken = Lease(storage, name, COMMAND, settings.lease.duration_s)
                with nullcontext(own.get(name)) if is_dry_run or name in own else taken as lease:
                    if lease is not None and name == cluster and not is_dry_run:
                        drop_aside(storage, lease)
                    commits = nobody if lease is None else Commits(warehouse, (lease,))
                    steps += _of_tables(replace(run, cluster=cluster, commits=commits), written, say)
            except OutsideError as error:
                if name in own:
                    raise
                refused.append(error)
                steps.append(StepOutcome(cluster, "", "maintenance", f"{name} is left to its writer: {error}"))
    if refused and len(refused) == len(steps):
        raise refused[0]
    return steps


def _of_tables(run: MaintenanceRun, found: Sequence[Table], say: Callable[[str], None]) -> Iterator[StepOutcome]:
    """Yields the steps of some tables. Raises OutsideError if a lease was lost meanwhile."""
    for table in found:
        say(f"{run.cluster}: {table.name} ...")
        try:
            with of_the_table(table_uri(run.tables.warehouse, table)):
                if not run.is_dry_run:
                    run.commits.fence(table)
                yield from run.steps(table)
        except OF_A_TABLE as error:
            run.commits.check_leases()
            explained = explain(error)
            if explained is None:
                raise
            yield StepOutcome(
                run.cluster, table.name, "maintenance", f"not done: {printable(str(explained))}", is_finding=True
            )


def clusters_in(commits: Commits, tables: Sequence[Table]) -> set[str]:
    """Returns the clusters that have files in some of the tables, as far as Delta's log shows: by their partition, or
    by the least cluster name in the file."""
    names = ("partition.cluster", "min.cluster")
    files = [pa.table(commits.open(table).get_add_actions(flatten=True)) for table in tables]
    clusters = {
        name for each in files for column in names if column in each.column_names for name in each[column].to_pylist()
    }
    return {name for name in clusters if name is not None}


def retention_of(settings: Settings, table: Table) -> TableRetention:
    """Returns how long a table keeps its log and its deleted files, and how often it gets a checkpoint: by the
    settings, or else by the table's definition."""
    wanted = settings.maintain
    return replace(
        table.retention,
        log_hours=wanted.log_hours.get(table.name, table.retention.log_hours),
        deleted_file_hours=wanted.deleted_file_hours.get(table.name, table.retention.deleted_file_hours),
        checkpoint_interval=wanted.checkpoint_intervals.get(table.name, table.retention.checkpoint_interval),
    )


def check_names(settings: Settings) -> None:
    """Raises InputError if a setting names a table that does not exist or whose rows have no age, or if
    `coordinator_records` would keep its log no longer than its readers may be down
    (`maintain.reader_downtime_days_max`). Called before anything is changed."""
    with_dates = [table.name for table in all_tables() if retained_by(table)]
    for name in settings.maintain.retention_days:
        if name not in with_dates:
            problem = "there is no such table" if table_named(name) is None else "its rows have no age"
            raise InputError(
                f"The settings are wrong: maintain.retention_days.{name}: {problem}. Name one of"
                f" {', '.join(with_dates)}."
            )
    for section, name in named_in(settings):
        if table_named(name) is None:
            raise InputError(f"The settings are wrong: maintain.{section}.{name}: there is no such table.")
    hours, days = retention_of(settings, COORDINATOR_RECORDS).log_hours, settings.maintain.reader_downtime_days_max
    if hours <= days * DAY_H:
        raise InputError(
            f"The settings are wrong: maintain.log_hours.{COORDINATOR_RECORDS.name} is {hours}, and a reader of that"
            f" log may come after {days} days (maintain.reader_downtime_days_max): make it more than {days * DAY_H}."
        )


def named_in(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields section and table of each setting about how long a table keeps its past."""
    wanted = settings.maintain
    for section in ("log_hours", "deleted_file_hours", "checkpoint_intervals"):
        for name in getattr(wanted, section):
            yield section, name
