"""`groupledger forget` takes a group, a client or a host out of every table of a cluster, and out of their past.

While no writer of any cluster can run, it goes through the files of each table:
1. Each file that has the name is replaced by one without it (`transforms.forgetting`), in one Delta commit for each
   table.
2. A rebuild of the history is requested for each cluster whose history has begun to read `coordinator_records`: a
   rebuild starts a new reader, and an old reader would look for the log that is deleted next. Small files with names of
   groups (`jobs.derive.judged_groups`) are deleted.
3. Old versions have the name too: in their files, and in the least and greatest values that Delta's log has of each
   file. So the files of all versions but the newest are deleted (`deletions`), a checkpoint is made, and the log's
   files before it are deleted, as Delta's own cleaning does later. No table can be read as of an earlier time after
   that, and a query that is reading meanwhile fails. A file that a killed writer left without a commit is deleted here
   if it is older than an hour, and by `maintain` if it is younger.

A note `forget` of the cluster (`jobs.warehouse.notes`) exists while the command runs: if it was killed, the next
`forget` of the cluster finishes the work, whatever name it is given. Nothing that the command writes holds the name.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.deletions import newcomers
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.lease import all_leases
from groupledger.jobs.warehouse.notes import read_note, take_back, write_note
from groupledger.jobs.warehouse.progress import note_path
from groupledger.jobs.warehouse.readers import CHECKPOINTS, readers, unread_since
from groupledger.jobs.warehouse.rebuild_units import drop_aside
from groupledger.jobs.warehouse.rebuilds import is_requested, is_unfinished, request_rebuild
from groupledger.jobs.warehouse.storage import STATE_FOLDER, open_storage
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.task_files import write_here
from groupledger.jobs.warehouse.warehouse import create_table
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.forgetting import NAMES_OF

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.jobs.warehouse.task_files import WrittenFile
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.forgetting import Forgotten

NEAREST = 5
ROWS_AT_ONCE = 50_000
UNDER_WAY = "forget"
NOTES_WITH_GROUPS = ("coordinator_faults", "judged_groups", "lag_stretches", "rebalance_stretches")
REMEDY = "move it out of the warehouse and run `groupledger forget` for the cluster again"


@dataclass
class TableChange:
    """The changes to one table. `removed` rows are deleted, and `changed` rows lose the name (both are counts).
    `old_files` are the files that have such rows, and `new_files` replace them."""

    table: Table
    removed: int = 0
    changed: int = 0
    old_files: list[str] = field(default_factory=list)
    new_files: list[WrittenFile] = field(default_factory=list)

    @property
    def is_any(self) -> bool:
        return bool(self.removed or self.changed)


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """One run of `forget` over the tables of a cluster."""

    tables: Tables
    storage: Storage
    commits: Commits
    cluster: str
    forgotten: Forgotten
    is_dry_run: bool

    def change(self, table: Table) -> TableChange:
        """Deletes the cluster's rows about the forgotten group from a table, replaces the name in its other rows, and
        commits the new files. Returns the changes. A dry run only counts them."""
        change = TableChange(table)
        schema = arrow_schema(table.schema)
        for fragment in dataset(self.tables.warehouse, table).get_fragments():
            self._change_file(change, fragment, schema)
        if change.old_files:
            self.commits.replace_files(table, change.old_files, change.new_files)
        return change

    def _change_file(self, change: TableChange, fragment: Any, schema: pa.Schema) -> None:
        rows = fragment.to_table(schema=schema)
        holds = mask(rows, self.forgotten.patterns) & equals(rows.column("cluster"), self.cluster)
        found = rows.filter(pa.array(holds))
        kept: list[pa.Table] = []
        removed = changed = 0
        for start in range(0, found.num_rows, ROWS_AT_ONCE):
            before = found.slice(start, ROWS_AT_ONCE).to_pylist()
            of_others = [row for row in before if not self.forgotten.is_of_group(row)]
            after = [self.forgotten.out_of(row) for row in of_others]
            removed += len(before) - len(of_others)
            changed += sum(one != other for one, other in zip(of_others, after, strict=True))
            kept.append(pa.Table.from_pylist(after, schema))
        change.removed += removed
        change.changed += changed
        if self.is_dry_run or not (removed or changed):
            return
        left = pa.concat_tables([rows.filter(pa.array(~holds)), *kept])
        change.old_files.append(fragment.path)
        if left.num_rows:
            change.new_files += write_here(left, change.table, self.tables.warehouse)

    def forget_past(self, table: Table) -> None:
        """Deletes all earlier versions of the table."""
        self.commits.forget_past(table, self.refuse_newcomers)

    def refuse_newcomers(self) -> None:
        """Raises OutsideError if a cluster has begun since the leases were taken: it may have files that are not
        committed yet."""
        found = newcomers(self.storage, [lease.held for lease in self.commits.leases])
        if found:
            raise OutsideError(f"Meanwhile {found[0]} began to be written in this warehouse: run the command again.")

    def lease_of(self, cluster: str) -> Lease:
        return next(lease for lease in self.commits.leases if lease.held == cluster)

    def nearest_names(self, tables: list[Table]) -> list[str]:
        """Returns the names in the tables that are most similar to the name that was not found."""
        known: set[str] = set()
        for table in tables:
            for name in NAMES_OF[self.forgotten.kind] & set(table.schema.names):
                if pa.types.is_string(arrow_schema(table.schema).field(name).type):
                    found = dataset(self.tables.warehouse, table).to_table(
                        columns=[name], filter=pc.field("cluster") == self.cluster
                    )
                    known |= {each for each in pc.unique(found.column(name)).to_pylist() if each}
        return get_close_matches(self.forgotten.names[0], sorted(known), NEAREST)


@dataclass(frozen=True)
class ForgetOutcome:
    """The changes of a run, for each table that has any. If the name was not found, `nearest` has similar names."""

    changes: list[TableChange]
    nearest: list[str]


def forget(
    spark: SparkSession,
    warehouse: str,
    settings: Settings,
    forgotten: Forgotten,
    *,
    is_dry_run: bool,
    say: Callable[[str], None],
) -> ForgetOutcome:
    """Removes a name from every table of the settings' cluster.

    Raises InputError if there is no table or the history has not read all records, OutsideError if another process
    writes.
    """
    storage, tables = open_storage(spark, warehouse), Tables(spark, warehouse)
    found = tables.existing()
    with ExitStack() as stack:
        # A file that a task has written and nobody has committed must not be there when the tables are vacuumed.
        clusters = [] if is_dry_run else every_cluster(storage, settings.cluster)
        leases = all_leases(storage, clusters, "groupledger forget", settings.lease.duration_s)
        run = Forgetting(
            tables=tables,
            storage=storage,
            commits=Commits(warehouse, tuple(stack.enter_context(lease) for lease in leases)),
            cluster=settings.cluster,
            forgotten=forgotten,
            is_dry_run=is_dry_run,
        )
        if not is_dry_run:
            refuse_if_unread(run)
            for table in found:
                # Files are written with today's columns and partitions.
                create_table(tables, run.commits, table)
                run.commits.fence(table)
        was_cut_short = read_note(storage, settings.cluster, UNDER_WAY, str, REMEDY) is not None
        if not is_dry_run:
            # If the command is killed during the changes, the next one must still delete the past.
            write_note(storage, run.lease_of(settings.cluster), UNDER_WAY, "{}")
        changes = []
        for table in found:
            say(f"{table.name} ...")
            changes.append(run.change(table))
        is_found = any(change.is_any for change in changes)
        if not is_dry_run:
            if is_found or was_cut_short:
                drop_notes(run)
                ask_for_rebuilds(run, say)
                for table in found:
                    say(f"{table.name}: earlier versions ...")
                    run.forget_past(table)
            take_back(storage, run.lease_of(settings.cluster), UNDER_WAY)
        return ForgetOutcome(
            [change for change in changes if change.is_any], [] if is_found else run.nearest_names(found)
        )


def every_cluster(storage: Storage, own: str) -> list[str]:
    """Returns the clusters that may have a writer or a reader, including `own`."""
    return sorted({*storage.names(STATE_FOLDER), *storage.names(CHECKPOINTS), own})


def refuse_if_unread(run: Forgetting) -> None:
    """Raises InputError if the history of a cluster still needs an earlier version of a table: it has not read all
    records, or its rebuild is unfinished."""
    # A rebuild reads everything, and sets the reader aside.
    all_readers = [each for each in readers(run.storage) if not is_requested(run.storage, each.cluster)]
    is_unread = run.tables.exists(COORDINATOR_RECORDS) and unread_since(
        run.tables, run.storage, COORDINATOR_RECORDS, all_readers
    )
    unfinished = [cluster for cluster in run.storage.names(STATE_FOLDER) if is_unfinished(run.storage, cluster)]
    if is_unread or unfinished:
        clusters = sorted({*unfinished, *(reader.cluster for reader in all_readers if is_unread)})
        raise InputError(
            "The history has not read all records, and what it would need is deleted here: run `groupledger history"
            f" --cluster NAME` first, for {', '.join(clusters)}."
        )


def ask_for_rebuilds(run: Forgetting, say: Callable[[str], None]) -> None:
    if not run.tables.exists(COORDINATOR_RECORDS):
        return
    version = run.tables.version(COORDINATOR_RECORDS)
    clusters = sorted({*(reader.cluster for reader in readers(run.storage))})
    for cluster in clusters:
        request_rebuild(run.storage, run.lease_of(cluster), "a name was forgotten", version)
    if clusters:
        say(f"the next `groupledger history` or `pipeline` of {', '.join(clusters)} rebuilds the history")


def drop_notes(run: Forgetting) -> None:
    """Deletes the small files with names of groups, which the next pass makes again, and tables that a rebuild has left
    aside."""
    for name in NOTES_WITH_GROUPS:
        run.storage.delete(note_path(run.cluster, name))
    drop_aside(run.storage, run.lease_of(run.cluster))


def equals(column: pa.ChunkedArray, value: str) -> np.ndarray[Any, Any]:
    return _booleans(pc.equal(column, value))


def mask(rows: pa.Table, patterns: tuple[bytes, ...]) -> np.ndarray[Any, Any]:
    """Returns, for each row, whether any text or bytes in it contain one of the patterns, at any depth."""
    found = np.zeros(rows.num_rows, bool)
    for column in rows.columns:
        found |= np.concatenate([_holds(chunk, patterns) for chunk in column.chunks] or [np.zeros(0, bool)])
    return found


def _holds(values: pa.Array, patterns: tuple[bytes, ...]) -> np.ndarray[Any, Any]:
    kind = values.type
    found = np.zeros(len(values), bool)
    if pa.types.is_map(kind):
        texts = [
            None if pairs is None else [str(each) for pair in pairs for each in pair] for pairs in values.to_pylist()
        ]
        return _holds(pa.array(texts, pa.list_(pa.string())), patterns)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = values.cast(pa.binary())
        for pattern in patterns:
            found |= _booleans(pc.match_substring(data, pattern))
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            found |= _holds(pc.struct_field(values, [number]), patterns)
    elif pa.types.is_list(kind):
        inner = _holds(values.flatten(), patterns)
        found[pc.list_parent_indices(values).to_numpy(zero_copy_only=False)[inner]] = True
    return found


def _booleans(found: Any) -> np.ndarray[Any, Any]:
    return np.asarray(pc.fill_null(found, False), bool)
