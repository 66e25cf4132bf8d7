"""Makes every commit of every table: in the driver, by delta-rs, and with the fencing token of the writer's lease.

A lease alone does not stop a writer that slept: it wakes and continues where it was. So each table remembers, under the
transaction id `writer/<lease>`, the highest token that has written it:

- A job names the tables that it writes before it reads any state (`Ledger.create`): each gets an empty commit with the
  job's token (`fence`).
- A commit opens the table again, is refused if the token there is higher, and otherwise commits from that very
  snapshot, with its own token. If anything was committed under the same id since the snapshot was taken, delta-rs
  refuses the commit; then the table is looked at again. So nothing can come in between, not even while the log's file
  is made.

Delta's own writers do not compare the tokens: delta-rs would accept a lower one, and Spark would skip it silently. And
on a local disk Spark checks for a log file and then renames its own, which can replace a commit; delta-rs makes a link,
which can't. On S3 Spark looks and then writes, where delta-rs makes a conditional write. So nothing is committed by
Spark, anywhere.

A store may lose the answer to a commit, give it later than delta-rs waits, and carry the commit out later still. So a
commit has a name, and is tried again only after the log was read and does not have that name. Every attempt that
reaches the log after that check has the same transaction id: only one of two attempts succeeds, in whatever order they
arrive.

A `NumberedBatch` identifies rows that must be in a table exactly once. A table takes each batch once, in the order of
their numbers.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.outside import not_understood
from groupledger.jobs.warehouse.deletions import (
    UNNAMED_HOURS_MIN,
    UNNAMED_HOURS_OF_OTHERS,
    deletable_files,
    delete_files,
    delete_half_written,
    delete_log_before,
    delete_old_checkpoints,
    refuse_linked_log,
    removed_files,
    unnamed_files,
)
from groupledger.jobs.warehouse.delta_log import dataset, open_table, refuse_emptied, table_uri
from groupledger.jobs.warehouse.lease import TAKEN_OVER
from groupledger.jobs.warehouse.local_files import local_files, refuse_pipes
from groupledger.jobs.warehouse.restored import refuse_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.migrate import Plan
    from groupledger.jobs.warehouse.task_files import WrittenFile
    from groupledger.schemas.tables.table import Table

PartitionFilter = tuple[str, str, Any]

# Other clusters' writers, and a maintenance, may commit to the same table.
ATTEMPTS = 20
PAUSE_S_MAX = 0.5
# Each unanswered attempt takes as long as delta-rs waits for an answer, by default 30 s.
UNANSWERED_MAX = 3
# A merge holds its rows in memory, several times over.
ROWS_PER_MERGE = 250_000
HOUR_S = 3_600
COMMIT = "groupledger.commit"  # in the log: the name of a commit, so that its writer knows it again


class ChangedMeanwhileError(OutsideError):
    """A file that a commit would replace is no longer in the table."""


@dataclass(frozen=True)
class NumberedBatch:
    """Identifies rows that a table must take only once: by the application that writes them, and the number that it
    gives them."""

    application_id: str
    number: int


@dataclass(frozen=True)
class Commits:
    """Makes commits to the tables of a warehouse, for the holder of one lease or of several at once."""

    warehouse: str
    leases: tuple[Lease, ...]

    def open(self, table: Table) -> DeltaTable:
        """Returns the table as it is now. Raises OutsideError if a later writer has fenced it, and InputError if its
        log's folder is a link."""
        refuse_linked_log(table_uri(self.warehouse, table))
        found = open_table(self.warehouse, table)
        for lease, _ in self._later_tokens(found):
            lease.lost.set()
            raise OutsideError(TAKEN_OVER)
        return found

    def _later_tokens(self, found: DeltaTable) -> Iterator[tuple[Lease, int]]:
        """Yields the leases below a token that is in a table, and the token."""
        for lease in self.leases:
            token = found.transaction_version(application_id(lease))
            if token is not None and token > lease.token:
                yield lease, token

    def create(self, table: Table) -> None:
        """Creates the table if it does not exist."""
        DeltaTable.create(
            table_uri(self.warehouse, table),
            schema=Schema.from_json(table.schema.json()),
            mode="ignore",
            partition_by=list(table.partition_columns),
            description=table.comment,
            configuration=dict(table.properties),
        )

    def fence(self, table: Table) -> None:
        """Commits this writer's token, so that the table refuses all earlier writers. Raises OutsideError if a later
        writer has fenced it, if the file of a commit is empty (Delta's readers would take it for a commit that did
        nothing), or if one of its files is a pipe. Raises InputError if another engine has removed commits of ours from
        it."""
        refuse_emptied(self.warehouse, table)
        found = open_table(self.warehouse, table)
        refuse_restored(found, table.name, COMMIT)
        # A task of Spark's that waits for a pipe can't be ended.
        paths = pa.table(found.get_add_actions(flatten=True)).column("path").to_pylist()
        refuse_pipes(table_uri(self.warehouse, table), map(unquote, paths))
        for lease, token in self._later_tokens(found):
            lease.go_beyond(token)
        self.add_files(table, [])

    def has(self, table: Table, batch: NumberedBatch) -> bool:
        """Returns whether the table already has this batch, or a later one."""
        return _has(self.open(table), batch)

    def append(self, table: Table, rows: pa.Table, batch: NumberedBatch | None = None) -> bool:
        """Appends rows. Returns False, and changes nothing, if the table has this batch already."""

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            write_deltalake(delta, with_all_offsets(rows), mode="append", commit_properties=properties)

        return self._commit(table, act, batch)

    def add_files(self, table: Table, files: Sequence[WrittenFile], batch: NumberedBatch | None = None) -> bool:
        """Adds files that lie in the table's folder. Returns False, and changes nothing, if the table has this batch
        already."""
        return self._commit(table, lambda delta, properties: _add(delta, properties, files), batch)

    def replace_with_files(
        self, table: Table, cluster: str, files: Sequence[WrittenFile], batch: NumberedBatch | None = None
    ) -> bool:
        """Replaces the rows of a cluster by those of files that lie in the table's folder. Returns False, and changes
        nothing, if the table has this batch already."""

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            _add(delta, properties, files, mode="overwrite", partition_filters=[("cluster", "=", cluster)])

        return self._commit(table, act, batch)

    def paths(self, table: Table, partition: Mapping[str, str]) -> list[str]:
        """Returns the paths of the files whose partition has all values of `partition`, in the form that
        `replace_files` takes."""
        found = pa.table(self.open(table).get_add_actions(flatten=False)).select(["path", "partition"]).to_pylist()
        return [each["path"] for each in found if partition.items() <= _texts(each["partition"]).items()]

    def replace_files(
        self,
        table: Table,
        old: Sequence[str],
        new: Sequence[WrittenFile],
        *,
        batch: NumberedBatch | None = None,
        is_new_data: bool = True,
    ) -> None:
        """Replaces the files `old` of a table by the files `new`, in one commit. If both have the same rows, pass
        `is_new_data=False`, and streaming readers skip the commit. Raises ChangedMeanwhileError if one of the old files
        is not in the table any more."""

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            found = {each["path"]: each for each in pa.table(delta.get_add_actions(flatten=False)).to_pylist()}
            if not found.keys() >= set(old):
                raise ChangedMeanwhileError(f"Another writer changed the table {table.name}: run the command again.")
            now = now_ms()
            removed = [_removal(found[path], now, is_new_data=is_new_data) for path in old]
            _add(delta, properties, new, removed=removed, is_new_data=is_new_data)

        self._commit(table, act, batch)

    def merge(
        self,
        table: Table,
        rows: pa.Table,
        condition: str,
        *,
        updates: Mapping[str, str],
        update_condition: str | None = None,
        inserts: bool = True,
    ) -> None:
        """Merges rows by their key, in pieces; each piece is a commit of its own. `condition` limits the rows of the
        table (`old`) that rows of the source (`new`) can match. In matching rows for which `update_condition` holds,
        the columns of `updates` are set to their SQL expressions. With `inserts`, rows without a match are added.

        Raises ValueError if a column of the key is null, since null never equals null.
        """
        for name in table.key:
            if rows.column(name).null_count:
                raise ValueError(f"rows of {table.name} have no {name}")
        same_key = " AND ".join(f'old."{name}" = new."{name}"' for name in table.key)

        def act(piece: pa.Table, delta: DeltaTable, properties: CommitProperties) -> None:
            merger: Any = delta.merge(piece, f"{condition} AND {same_key}", "new", "old", commit_properties=properties)
            if updates:
                merger = merger.when_matched_update({f'"{name}"': to for name, to in updates.items()}, update_condition)
            if inserts:
                merger = merger.when_not_matched_insert_all()
            merger.execute()

        for start in range(0, rows.num_rows, ROWS_PER_MERGE):
            piece = with_all_offsets(rows.slice(start, ROWS_PER_MERGE))
            self._commit(table, partial(act, piece))

    def write_again(self, table: Table) -> None:
        """Rewrites all rows of an older table with today's columns, comments and partitions, in one commit.

        Any other commit in between is a conflict. Delta would accept rows that another cluster adds meanwhile; but
        these lie in the older partitions, and would be read with nulls in today's partition columns.
        """
        schema = pa.schema(Schema.from_json(table.schema.json()))

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            batches = dataset(self.warehouse, table, delta).scanner(batch_size=ROWS_PER_MERGE).to_reader()
            write_deltalake(
                delta,
                pa.RecordBatchReader.from_batches(schema, (_with_all_columns(batch, schema) for batch in batches)),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=list(table.partition_columns),
                commit_properties=properties,
            )

        self._commit(table, act, is_next=True)

    def alter(self, table: Table, needed: Plan) -> None:
        """Brings a table's schema, properties and comment to today's, as far as `needed` names them. It changes no
        row."""

        def with_schema(delta: DeltaTable, properties: CommitProperties) -> None:
            # Of all that delta-rs does, only an overwrite takes a whole schema. It replaces the rows of no partition.
            nowhere: list[PartitionFilter] = [(table.partition_columns[0], "in", [])]
            _add(delta, properties, [], mode="overwrite", partition_filters=nowhere, schema=table.schema.json())

        def with_comment(delta: DeltaTable, properties: CommitProperties) -> None:
            delta.alter.set_table_description(table.comment, commit_properties=properties)

        if needed.is_new_schema:
            self._commit(table, with_schema, is_next=True)
        if needed.properties:
            self.set_properties(table, lambda _: needed.properties)
        if needed.is_new_comment:
            self._commit(table, with_comment, is_next=True)

    def set_properties(self, table: Table, new: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Sets the properties of a table that `new` computes from its present ones. All other properties stay."""

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            found = dict(new(delta.metadata().configuration))
            delta.alter.set_table_properties(found, raise_if_not_exists=False, commit_properties=properties)

        self._commit(table, act, is_next=True)

    def delete(self, table: Table, condition: str) -> None:
        """Deletes the rows that match a condition."""
        self._commit(table, lambda delta, properties: delta.delete(condition, commit_properties=properties))

    def compact(self, table: Table, partitions: list[PartitionFilter], file_bytes: int) -> tuple[int, int]:
        """Merges small files of some partitions, or of the whole table if `partitions` is empty; returns how many files
        were removed and how many were added. It changes no row."""
        counts: list[dict[str, Any]] = []

        def act(delta: DeltaTable, properties: CommitProperties) -> None:
            counts.append(
                delta.optimize.compact(partitions or None, target_size=file_bytes, commit_properties=properties)
            )

        self._commit(table, act)
        if not counts:  # the answer was lost: the log has them
            entries = self.open(table).history()
            counts.append(next(entry["operationMetrics"] for entry in entries if entry["operation"] == "OPTIMIZE"))
        return counts[-1]["numFilesRemoved"], counts[-1]["numFilesAdded"]

    def vacuum(self, table: Table, removed_hours: float) -> None:
        """Deletes files that a commit removed `removed_hours` ago or earlier; after a week (or `removed_hours`, if that
        is longer), those that no commit ever named; half-written files of killed writers; and most old checkpoints."""
        uri = table_uri(self.warehouse, table)
        with self._unless_taken_over(table):
            before = self.open(table)
            unnamed = unnamed_files(before, max(UNNAMED_HOURS_OF_OTHERS, ceil(removed_hours)))
            removed = removed_files(uri, before, now_ms() - round(removed_hours * HOUR_S * 1_000))
            self._delete_files(table, [*unnamed, *removed], self.check_leases)
            delete_half_written(uri, self.check_leases)
            delete_old_checkpoints(uri, self.check_leases)

    def forget_past(self, table: Table, check: Callable[[], None] = lambda: None) -> None:
        """Deletes the files of all versions but the newest, makes a checkpoint of the newest, and deletes the log
        before it. No other writer and no reader may be active; `check` raises if one has come. A file that no version
        named is deleted if it is older than an hour, or than the lease's duration, if that is longer. Raises InputError
        if a file of the past can only be reached through a link in the table's folder; such a file is not deleted."""

        def may_go_on() -> None:
            self.check_leases()
            check()

        uri = table_uri(self.warehouse, table)
        hours = max([UNNAMED_HOURS_MIN, *(ceil(lease.duration_s / HOUR_S) for lease in self.leases)])
        with self._unless_taken_over(table):
            before = self.open(table)
            removed = removed_files(uri, before)
            left = self._delete_files(table, [*unnamed_files(before, hours), *removed], may_go_on)
            newest = self.open(table)
            may_go_on()
            newest.create_checkpoint()
            left = [*({*left} & {*removed}), *delete_log_before(uri, newest.version(), may_go_on)]
        if left:
            raise InputError(
                f"The file {uri}/{min(left)} is reached through a link in the table's folder, and is not deleted:"
                " put the folder itself in the place of the link, and run the command again."
            )

    def _delete_files(self, table: Table, found: Sequence[str], check: Callable[[], None]) -> list[str]:
        """Carries out steps 2 and 3 of `jobs.warehouse.deletions`; returns the files that are not deleted, because
        their path has a link."""
        self.add_files(table, [])
        return delete_files(table_uri(self.warehouse, table), deletable_files(found, self.open(table)), check)

    def check_leases(self) -> None:
        """Raises OutsideError if a lease is lost."""
        for lease in self.leases:
            lease.check()

    def _commit(
        self,
        table: Table,
        act: Callable[[DeltaTable, CommitProperties], object],
        batch: NumberedBatch | None = None,
        *,
        is_next: bool = False,
    ) -> bool:
        """Makes a commit. It tries again if the commit conflicts, and some times if the store gives no answer. With
        `is_next` every commit in between is a conflict. Returns False if the table has the batch already."""
        name, since, unanswered = uuid.uuid4().hex, sys.maxsize, 0
        retries = 0 if is_next else None
        for delta in self._opened(table):
            since = min(since, delta.version())
            if _has_landed(delta, name, since):
                return True
            if batch is not None and _has(delta, batch):
                return False
            transactions = [Transaction(application_id(lease), lease.token) for lease in self.leases]
            if batch is not None:
                transactions.append(Transaction(batch.application_id, batch.number))
            try:
                with self._unless_taken_over(table):
                    act(delta, CommitProperties({COMMIT: name}, retries, transactions))
            except CommitFailedError as error:
                strange = not_understood(error, table_uri(self.warehouse, table))
                if strange is not None:  # which is no conflict, though delta-rs calls it so
                    raise strange from error
                time.sleep(random.uniform(0, PAUSE_S_MAX))  # noqa: S311 - so that two writers don't meet again
            except OSError:
                unanswered += 1
                # A local disk does answer, and its error is final.
                if unanswered == UNANSWERED_MAX or local_files(table_uri(self.warehouse, table)) is not None:
                    raise
            else:
                return True
        raise OutsideError(
            f"Other writers kept changing the table {table.name}, and nothing was written: run the command again."
        )

    @contextmanager
    def _unless_taken_over(self, table: Table) -> Iterator[None]:
        """Raises OutsideError if the block fails because a later writer has the table, and has perhaps deleted files
        that this writer needs."""
        try:
            yield
        except (DeltaError, OSError):
            self.open(table)
            raise

    def _opened(self, table: Table) -> Iterator[DeltaTable]:
        """Yields the table as it is now, for each attempt."""
        for _ in range(ATTEMPTS):
            self.check_leases()
            yield self.open(table)


def as_new(names: Iterable[str]) -> dict[str, str]:
    """Returns the `updates` of a merge that set the named columns to the values of the new rows."""
    return {name: f'new."{name}"' for name in names}


def application_id(lease: Lease) -> str:
    """Returns the transaction id under which tables keep the tokens of a lease."""
    return f"writer/{lease.held}"


def with_all_offsets(rows: pa.Table) -> pa.Table:
    """Returns the rows in arrays that delta-rs reads correctly. In Arrow an array of no lists must still have one
    offset. Java omits that offset for lists within other lists if all of these are empty, and delta-rs 1.6 then reads
    arbitrary memory."""
    columns = [
        pa.concat_arrays(column.chunks) if pa.types.is_nested(column.type) and column.num_chunks else column
        for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _with_all_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_landed(delta: DeltaTable, name: str, after_version: int) -> bool:
    """Returns whether a commit of this name is among those after a version."""
    newer = delta.version() - after_version
    return newer > 0 and any(entry.get(COMMIT) == name for entry in delta.history(newer))


def _has(delta: DeltaTable, batch: NumberedBatch) -> bool:
    last = delta.transaction_version(batch.application_id)
    return last is not None and last >= batch.number


def _removal(file: Mapping[str, Any], now_at_ms: int, *, is_new_data: bool) -> RemoveAction:
    return RemoveAction(file["path"], is_new_data, now_at_ms, file["size_bytes"], _texts(file.get("partition")))


def _texts(partition: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in (partition or {}).items()}


def _add(  # noqa: PLR0913 - as many as a commit can have
    delta: DeltaTable,
    properties: CommitProperties,
    files: Sequence[WrittenFile],
    mode: str = "append",
    partition_filters: list[PartitionFilter] | None = None,
    removed: Sequence[RemoveAction] = (),
    *,
    schema: str | None = None,
    is_new_data: bool = True,
) -> None:
    actions: list[AddAction | RemoveAction] = [
        *removed,
        *(
            AddAction(each.path, each.size, each.partition_values, each.modified_at_ms, is_new_data, each.statistics)
            for each in files
        ),
    ]
    delta.create_write_transaction(
        actions,
        mode,
        delta.schema() if schema is None else Schema.from_json(schema),
        delta.metadata().partition_columns,
        partition_filters,
        commit_properties=properties,
    )
