"""Opens the Delta tables of a warehouse by delta-rs, each once, so that a question sees one version of each.

Only the tables that a question names are opened: opening costs some milliseconds, and more for each file of the table.
Rows are read on request, from the files that can contain them.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from groupledger.jobs.ask.opened_tables import OpenedTable, open_table
from groupledger.jobs.ask.table_rows import rows_of_files, with_columns
from groupledger.jobs.process.errors import NotWrittenError, OutsideError
from groupledger.jobs.process.outside import not_understood, of_the_table
from groupledger.jobs.process.places import warehouse_uri
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.definitions import table_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KNOWN = table_names()


class Snapshots:
    """The tables of a warehouse (a directory or a URI), with the rows of all clusters, each in the version at which it
    was first opened."""

    def __init__(self, warehouse: str) -> None:
        self.warehouse = warehouse_uri(warehouse) or "/"
        self._opened: dict[str, OpenedTable] = {}
        self._missing: set[str] = set()

    @cached_property
    def existing(self) -> frozenset[str]:
        """The names of the tables that the warehouse has. Raises NotWrittenError if it has none."""
        try:
            found = frozenset(name for name in KNOWN if DeltaTable.is_deltatable(self.path(name)))
        except (DeltaError, OSError, ValueError) as error:
            raise self._failure(self.warehouse, error) from error
        if not found:
            raise NotWrittenError(
                f"The warehouse {self.warehouse} has no tables: check the path, or run `groupledger ingest` first."
            )
        return found

    def refuse_nothing(self) -> None:
        """Raises NotWrittenError if the warehouse has no tables."""
        _ = self.existing

    def exists(self, table: str) -> bool:
        if table in self._opened or table in self._missing:
            return table in self._opened
        if not DeltaTable.is_deltatable(self.path(table)):
            self._missing.add(table)
            return False
        return True

    def versions(self) -> dict[str, int | None]:
        """Returns the version of each table that was asked for, and None for those that do not exist."""
        opened = {table: found.delta.version() for table, found in self._opened.items()}
        return {**dict.fromkeys(self._missing), **opened}

    def open(self, table: str) -> DeltaTable:
        """Returns an existing table, in the version at which it was first opened."""
        return self.opened(table).delta

    def opened(self, table: str) -> OpenedTable:
        """Returns the same table as `open` does, with its schema and the list of its files."""
        if table not in self._opened:
            with of_the_table(self.path(table)):
                self._opened[table] = open_table(self.path(table))
        return self._opened[table]

    def schema(self, table: str) -> pa.Schema:
        """Returns the columns of an existing table."""
        with self._with_table_named(table):
            return self.opened(table).schema

    def rows(self, table: str, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns a reader, which can be read once, of the rows of an existing table, with the given columns or with
        all."""
        schema = self.schema(table)
        wanted = pa.schema([schema.field(name) for name in columns or schema.names])
        with self._with_table_named(table):
            pieces = rows_of_files(self.opened(table), self.path(table), (), wanted.names)
        return pa.RecordBatchReader.from_batches(wanted, with_columns(pieces, wanted))

    def path(self, table: str) -> str:
        return f"{self.warehouse}/{table}"

    @contextmanager
    def _with_table_named(self, table: str) -> Iterator[None]:
        """Raises OutsideError where delta-rs can't read a table."""
        try:
            yield
        except (DeltaError, OSError, ValueError) as error:
            raise self._failure(self.path(table), error) from error

    def _failure(self, place: str, error: Exception) -> OutsideError:
        return not_understood(error, place) or OutsideError(
            f"delta-rs can't read {printable(place)} ({printable(' '.join(str(error).split()))}): check the path and"
            " the access, or take --engine spark, which reads what Hadoop reads."
        )
