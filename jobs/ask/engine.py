"""Answers a query by DuckDB over the tables that delta-rs opens: no JVM, some tenths of a second.

Each query gets a database of its own in memory, which can read only the given tables. Before it sees the query, its
configuration is locked: no files, no network, no extensions, no variables of Python, no spilling to disk, and a limit
on memory and threads. `statement` refuses anything but queries before that. The queries of our own questions share one
such database in a process, each by a connection of its own, since making a database takes ten times as long as a usual
question's query.

Two things are not limited here: DuckDB does not count all memory that its functions take, and can't be interrupted
everywhere. So queries from users run in a process that the operating system limits and ends (`query_process`).
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from groupledger.jobs.ask.query_client import MEMORY_MAX_BYTES
from groupledger.jobs.ask.snapshots import KNOWN, Snapshots
from groupledger.jobs.ask.statement import read_statement
from groupledger.jobs.ask.table_rows import with_columns
from groupledger.jobs.process.arrow_values import plain
from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from groupledger.jobs.ask.statement import Statement

ANSWER_MAX_BYTES = 1 << 30
THREADS_MAX = 8
# Tables that have no rows for a view that reads them, as long as a warehouse of an earlier release lacks them.
LATER = frozenset({"member_epochs"})
BATCH_ROWS = 10_000

CONFIGURATION = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "temp_directory": "",
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # as Spark has it
    "threads": str(min(THREADS_MAX, os.cpu_count() or 1)),
}
# How DuckDB words that a table's rows did not come.
SCAN_FAILED = re.compile(r"reading the stream registered as|arrow_scan: get_next failed")
# DuckDB's texts for errors in a query. If rows were returned before, Arrow raises them as an OSError.
OF_THE_QUERY = re.compile(r"(?!IO )[A-Z][A-Za-z ]* Error: ")
# Spark's name for it, so that both engines run the queries that we ship.
MACROS = ("CREATE MACRO explode(items) AS unnest(items)",)


def ask(snapshots: Snapshots, text: str, parameters: Mapping[str, str], *, rows_max: int | None = None) -> pa.Table:
    """Runs one statement in this process, and returns its result or its first `rows_max` rows. Raises as `result_of`
    does."""
    with result_of(snapshots, text, parameters, rows_max=rows_max) as batches:
        return plain(batches.read_all())


@contextmanager
def result_of(
    snapshots: Snapshots,
    text: str,
    parameters: Mapping[str, str],
    *,
    rows_max: int | None = None,
    memory_max_bytes: int = MEMORY_MAX_BYTES,
) -> Iterator[pa.RecordBatchReader]:
    """Yields a reader, which can be read once, of the result of one statement or of its first `rows_max` rows, in
    DuckDB's types.

    Raises InputError for a statement that does more than read, is wrong, lacks a parameter, or takes too much memory;
    OutsideError if the tables can't be read.
    """
    with locked_database(memory_max_bytes) as connection:
        try:
            statement = read_statement(connection, text)
            refuse_parameters(statement, parameters)
            show_relations(connection, snapshots, statement)
            answer = connection.sql(statement.text, params=dict(parameters) or None).to_arrow_reader(BATCH_ROWS)
            yield pa.RecordBatchReader.from_batches(answer.schema, first_rows(answer, rows_max))
        except UnicodeError as error:
            raise InputError("The query and its parameters have to be UTF-8.") from error
        except (duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
            raise failure(error, memory_max_bytes) from error


@contextmanager
def locked_database(memory_max_bytes: int = MEMORY_MAX_BYTES) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a new, empty database that has no access to anything, and whose settings no query can change."""
    with _locked(memory_max_bytes) as connection:
        yield connection


@contextmanager
def shared_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a connection, for our own queries, to a database like that of `locked_database`, which this process keeps
    open. Tables that are registered with the connection are visible only to it."""
    with _shared_database().cursor() as connection:
        yield connection


@cache
def _shared_database() -> duckdb.DuckDBPyConnection:
    return _locked(MEMORY_MAX_BYTES)


def _locked(memory_max_bytes: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={**CONFIGURATION, "memory_limit": f"{memory_max_bytes}B"})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    for macro in MACROS:
        connection.execute(macro)
    connection.execute("SET lock_configuration = true")
    return connection


def views() -> dict[str, str]:
    """Returns the queries of the views by name."""
    files = resources.files("groupledger.schemas").joinpath("views").iterdir()
    return {file.name.removesuffix(".sql"): file.read_text() for file in files if file.name.endswith(".sql")}


def show_relations(connection: duckdb.DuckDBPyConnection, snapshots: Snapshots, statement: Statement) -> None:
    """Registers the tables and views that a statement names with the database; all of them, for a statement that lists
    tables. Raises InputError for a name that the warehouse does not have."""
    texts = views()
    known = KNOWN | texts.keys()
    inputs = {name: read_statement(connection, text).relations & KNOWN for name, text in texts.items()}
    shown = {name for name, tables in inputs.items() if tables - LATER <= snapshots.existing}
    there = snapshots.existing.union(shown, *(inputs[name] for name in shown))
    strange = sorted(statement.relations - statement.defined - there)
    if strange:
        raise InputError(f"The warehouse has no table {printable(strange[0])}: it has {', '.join(sorted(there))}.")
    wanted = there if statement.lists_tables else statement.relations & there & known
    for table in sorted((wanted & KNOWN).union(*(inputs[name] for name in wanted & texts.keys()))):
        connection.register(table, rows_of_today(snapshots, table))
    for name in sorted(wanted & texts.keys()):
        connection.execute(f"CREATE VIEW {name} AS {texts[name]}")


@dataclass(frozen=True, slots=True)
class RowsOfToday:
    """The rows of a table with today's columns; those that an older table lacks are null. DuckDB opens them several
    times to see the columns, and again each time that the query reads them."""

    snapshots: Snapshots
    table: str
    schema: pa.Schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._read()).__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        yield from with_columns(self.snapshots.rows(self.table), self.schema)


def rows_of_today(snapshots: Snapshots, table: str) -> RowsOfToday | pa.Table:
    """Returns the rows of a table in the form that Spark's engine gives them: if the table lacks columns or fields of
    today's schema, in the order of today's columns. A table that does not exist has no rows."""
    today = schema_of(table)
    if table not in snapshots.existing:
        return pa.Table.from_batches([], today)
    there = snapshots.schema(table)
    return RowsOfToday(snapshots, table, today if lacks(pa.struct(there), pa.struct(today)) else there)


def lacks(there: pa.DataType, today: pa.DataType) -> bool:
    """Returns whether the type `there`, or a type in it, lacks a field that `today` has."""
    if pa.types.is_list(today):
        return lacks(there.value_type, today.value_type)
    if not pa.types.is_struct(today):
        return False
    names = {field.name for field in there}
    return any(field.name not in names or lacks(there.field(field.name).type, field.type) for field in today)


def refuse_parameters(statement: Statement, given: Mapping[str, str]) -> None:
    """Raises InputError unless each parameter of the statement has a value, and each value a parameter."""
    missing, strange = sorted(statement.parameters - given.keys()), sorted(given.keys() - statement.parameters)
    if missing:
        raise InputError(f"The query failed: its parameter :{missing[0]} has no value, give --param {missing[0]}=...")
    if strange:
        raise InputError(f"The query has no parameter :{strange[0]}: leave out --param {strange[0]}=...")


def first_rows(answer: pa.RecordBatchReader, rows_max: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a result, or its first `rows_max` rows. Raises InputError if they take more than
    `ANSWER_MAX_BYTES`."""
    size = 0
    for batch in answer:
        size += batch.get_total_buffer_size()
        if size > ANSWER_MAX_BYTES:
            raise InputError(
                f"The answer is larger than {ANSWER_MAX_BYTES >> 30} GiB: ask for fewer columns, or give --limit."
            )
        yield batch.slice(0, rows_max)
        if rows_max is not None:
            rows_max -= batch.num_rows
            if rows_max <= 0:
                return


def failure(error: Exception, memory_max_bytes: int) -> JobError:
    """Returns the error to report for a failed query: for lack of memory, a sentence with the limit `memory_max_bytes`;
    otherwise one with DuckDB's text in one line, without the query, which DuckDB repeats. It is an OutsideError if the
    tables can't be read, else an InputError."""
    text = str(error)
    if isinstance(error, MemoryError) or "Out of Memory Error" in text or "bad allocation" in text:
        return InputError(
            f"The query needs more than {memory_max_bytes / (1 << 30):g} GiB of memory: ask for fewer rows or columns,"
            " or take --engine spark."
        )
    said = printable(" ".join(re.split(r"\n\n|\nLINE |\nDid you mean|\nCandidate", text)[0].split())).rstrip(".")
    is_outside = isinstance(error, duckdb.IOException | OSError) and not OF_THE_QUERY.match(text)
    if is_outside or SCAN_FAILED.search(text):
        return OutsideError(f"The tables can't be read ({said}): ask again, and repair the file if it stays so.")
    return InputError(f"The query failed: {said}.")
