"""Reads the rows of one cluster for a question, without Spark: by delta-rs, from the files that can hold them.

    tables.rows("members", ("group_id", "=", name))                    dicts, for the rules of `transforms`
    tables.scan("lag", ("sampled_at", "<=", at), columns=("topic",))   batches, read as DuckDB asks for them
    tables.query("SELECT ... WHERE topic = $topic", {"topic": topic}, lag=tables.scan("lag"))

A filter is (column, operator, value), and all filters must hold. They choose the files, by their partition and by what
Delta's log says of their values, and then the rows. A value stays a value: none becomes SQL text. Each table is opened
once, so that a question sees one version of it. Rows have today's columns; those that an older table lacks are null.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from groupledger.jobs.ask.query_client import MEMORY_MAX_BYTES
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.ask.table_rows import rows_of_files, with_columns
from groupledger.jobs.ask.time_limit import interrupted_after
from groupledger.jobs.process.arrow_values import plain, rows_of, table_of
from groupledger.jobs.process.errors import InputError, NotWrittenError
from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.schemas.definitions import schema_of, written_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import duckdb

    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer


class SmallFiles:
    """Reads the small files beside the tables (`jobs.warehouse.storage.Readable`)."""

    def __init__(self, warehouse: str) -> None:
        self._files = local_files(warehouse) or PyFileSystem(DeltaStorageHandler(warehouse))

    def read(self, name: str) -> str | None:
        if self._files.get_file_info(name).type == FileType.NotFound:
            return None
        with self._files.open_input_file(name) as file:
            return bytes(file.read()).decode()

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder; an empty list if the folder does not exist."""
        found = self._files.get_file_info(FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found)


class ClusterRows:
    """The rows of one cluster in the tables of a warehouse (a directory or a URI). With `timeout_s`, reading and
    querying fail with an InputError when this much time has passed since the object was created."""

    def __init__(self, warehouse: str, cluster: str, timeout_s: float | None = None) -> None:
        self.cluster = cluster
        self._snapshots = Snapshots(warehouse)
        self._timeout_s = timeout_s
        self._begun_s = time.monotonic()
        self.last_rounds: dict[str, datetime | None] = {}
        """By table, the instant of the newest round, once it was asked for (`jobs.ask.rounds`)."""

    @cached_property
    def small_files(self) -> SmallFiles:
        return SmallFiles(self._snapshots.warehouse)

    def exists(self, table: str) -> bool:
        return self._snapshots.exists(table)

    def version(self, table: str) -> int | None:
        """Returns the version of a table that this question reads; None if the table does not exist."""
        return self._snapshots.open(table).version() if self.exists(table) else None

    def versions(self) -> dict[str, int | None]:
        """Returns the version of each table that this question has asked for; None for those that do not exist."""
        return self._snapshots.versions()

    def properties(self, table: str) -> dict[str, str]:
        """Returns the properties of a table; they are empty if the table does not exist."""
        return dict(self._snapshots.open(table).metadata().configuration) if self.exists(table) else {}

    def rows(self, table: str, *filters: Filter, columns: Sequence[str] | None = None) -> list[Answer]:
        """Returns the rows of a table that pass all filters, as dicts, in no order. Raises NotWrittenError if there
        is no such table."""
        return rows_of(self.scan(table, *filters, columns=columns).read_all())

    def rows_if_any(self, table: str, *filters: Filter, columns: Sequence[str] | None = None) -> list[Answer]:
        """Returns the same as `rows`, but no rows if the table does not exist."""
        return rows_of(self.scan_if_any(table, *filters, columns=columns).read_all())

    def scan(self, table: str, *filters: Filter, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns a reader, which can be read once, of the rows of a table that pass all filters, with the given
        columns or with all but the cluster. Raises NotWrittenError if the table does not exist."""
        self._check(table)
        return self._scan(table, filters, columns)

    def scan_if_any(self, table: str, *filters: Filter, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns the same as `scan`, but no rows if the table does not exist."""
        if self.exists(table):
            return self._scan(table, filters, columns)
        return pa.RecordBatchReader.from_batches(wanted_schema(table, columns), [])

    def files(self, table: str) -> pa.Table:
        """Returns a row for each file of a table, of all clusters, with `partition.COLUMN`, and with `min.COLUMN` and
        `max.COLUMN` of the columns for which Delta's log has them. Raises NotWrittenError if the table is not there."""
        self._check(table)
        return self._snapshots.opened(table).files

    def query(
        self, text: str, parameters: Mapping[str, Any] | None = None, **scans: pa.RecordBatchReader
    ) -> list[Answer]:
        """Returns the rows that DuckDB answers to one of our own queries. Each scan is a table of the query, under the
        name of its argument, and the query may read it once. Raises InputError if the query takes too much memory or
        time."""
        return rows_of(self.arrow(text, parameters, **scans))

    def arrow(self, text: str, parameters: Mapping[str, Any] | None = None, **scans: pa.RecordBatchReader) -> pa.Table:
        """Returns the same as `query`, as an Arrow table."""
        import duckdb  # which takes a while, and some questions do without

        from groupledger.jobs.ask.engine import shared_database

        failed: list[Exception] = []
        with shared_database() as connection, self._limit(connection):
            for name, scan in scans.items():
                connection.register(name, pa.RecordBatchReader.from_batches(scan.schema, noted(scan, failed)))
            try:
                return plain(connection.sql(text, params=parameters).to_arrow_table())
            except duckdb.OutOfMemoryException as error:
                raise InputError(f"The answer takes more than {MEMORY_MAX_BYTES >> 30} GiB: ask for less.") from error
            except duckdb.InterruptException as error:
                raise failed[0] if failed else self._too_long() from error
            except duckdb.Error as error:
                if not failed:
                    raise
                raise failed[0] from error

    def refuse_nothing(self) -> None:
        """Raises NotWrittenError if the warehouse has no tables."""
        self._snapshots.refuse_nothing()

    def _check(self, table: str) -> None:
        if not self.exists(table):
            self._snapshots.refuse_nothing()
            raise NotWrittenError(
                f"The warehouse {self._snapshots.warehouse} has no table {table} yet: run `groupledger"
                f" {written_by(table)}` first."
            )

    def _scan(self, table: str, filters: Sequence[Filter], columns: Sequence[str] | None) -> pa.RecordBatchReader:
        wanted = wanted_schema(table, columns)
        filters = (("cluster", "=", self.cluster), *filters)
        opened = self._snapshots.opened(table)
        there = opened.schema
        if not {name for name, _, _ in filters} <= {*there.names}:
            return pa.RecordBatchReader.from_batches(wanted, [])  # a missing column is null, and equals no value
        place, columns = self._snapshots.path(table), [name for name in wanted.names if name in there.names]
        read = self._in_time(table, rows_of_files(opened, place, filters, columns))
        return pa.RecordBatchReader.from_batches(wanted, with_columns(read, wanted))

    def _in_time(self, table: str, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        with of_the_table(self._snapshots.path(table)):
            for rows in pieces:
                if self._timeout_s is not None and self._left_s() < 0:
                    raise self._too_long()
                yield rows

    def _limit(self, connection: duckdb.DuckDBPyConnection) -> AbstractContextManager[object]:
        """Interrupts the database when the time is over."""
        return nullcontext() if self._timeout_s is None else interrupted_after(self._left_s(), connection.interrupt)

    def _left_s(self) -> float:
        return self._begun_s + (self._timeout_s or 0.0) - time.monotonic()

    def _too_long(self) -> InputError:
        return InputError(f"The answer takes longer than {self._timeout_s:g} s: ask for less, or for one group.")


def as_scan(rows: list[Answer], schema: pa.Schema) -> pa.RecordBatchReader:
    """Returns rows in memory as a scan for a query."""
    return table_of(rows, schema).to_reader()


def wanted_schema(table: str, columns: Sequence[str] | None) -> pa.Schema:
    schema = schema_of(table)
    return pa.schema([schema.field(name) for name in columns or schema.names if columns or name != "cluster"])


def noted(batches: Iterable[pa.RecordBatch], failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """Yields the batches. If reading one fails, adds the error to `failed` before raising it, since DuckDB raises an
    error of its own in its place."""
    try:
        yield from batches
    except (pa.ArrowException, OSError, InputError) as error:
        failed.append(error)
        raise
