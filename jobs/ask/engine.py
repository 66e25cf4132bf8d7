"""Answers a query by DuckDB over the tables that delta-rs opens: no JVM, some tenths of a second.

Each query gets a database of its own in memory, which can read what it was given and nothing else. Before it sees the
query, its configuration is locked: no files, no network, no extensions, no variables of Python, no spilling to disk,
and a bound on memory and threads. `statement` refuses what is no query even before. A timer interrupts what takes too
long.

What is bounded less well: DuckDB does not count all memory that its functions take, so `limited_memory` lets the system
refuse the rest; and one call of a function that works on gigabytes ends before the interrupt is seen.
"""

from __future__ import annotations

import os
import re
import resource
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from groupledger.jobs.ask.snapshots import KNOWN, Snapshots
from groupledger.jobs.ask.statement import read_statement
from groupledger.jobs.ask.table_rows import with_columns
from groupledger.jobs.ask.time_limit import interrupted_after, too_late
from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from groupledger.jobs.ask.statement import Statement

MEMORY_MAX_BYTES = 2 << 30
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
    "memory_limit": f"{MEMORY_MAX_BYTES}B",
    "threads": str(min(THREADS_MAX, os.cpu_count() or 1)),
}
# How DuckDB words that a table's rows did not come.
SCAN_FAILED = re.compile(r"reading the stream registered as|arrow_scan: get_next failed")
# Spark's name for it, so that both engines run the queries that we ship.
MACROS = ("CREATE MACRO explode(items) AS unnest(items)",)


def ask(
    snapshots: Snapshots,
    text: str,
    parameters: Mapping[str, str],
    *,
    rows_max: int | None = None,
    timeout_s: float,
) -> pa.Table:
    """Returns the answer to one statement, or its first rows.

    Raises InputError for a statement that does more than read, is wrong, lacks a parameter, or takes too much memory or
    time.
    """
    with locked_database() as connection, interrupted_after(timeout_s, connection.interrupt) as is_late:
        try:
            statement = read_statement(connection, text)
            refuse_parameters(statement, parameters)
            show_relations(connection, snapshots, statement)
            answer = connection.sql(statement.text, params=dict(parameters) or None)
            return plain(collected(answer.to_arrow_reader(BATCH_ROWS), rows_max, is_late))
        except UnicodeError as error:
            raise InputError("The query and its parameters have to be UTF-8.") from error
        except (duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
            raise too_late(timeout_s) if is_late.is_set() else failure(error) from error


@contextmanager
def locked_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a new, empty database that can reach nothing, and whose settings no query can change."""
    with duckdb.connect(":memory:", config=dict(CONFIGURATION)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for macro in MACROS:
            connection.execute(macro)
        connection.execute("SET lock_configuration = true")
        yield connection


@contextmanager
def limited_memory() -> Iterator[None]:
    """Lets the system refuse this process more than twice the memory of a query beyond what it has, where the system
    can tell what it has (Linux). Children and other threads are under the same limit, so it is for a process that only
    asks."""
    status = Path("/proc/self/status")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    match = re.search(r"VmData:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if match is None:
        yield
        return
    limit = int(match[1]) * 1024 + 2 * MEMORY_MAX_BYTES
    is_lower = before[0] == resource.RLIM_INFINITY or limit < before[0]
    resource.setrlimit(resource.RLIMIT_DATA, (limit if is_lower else before[0], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def views() -> dict[str, str]:
    """Returns the queries of the views by name."""
    files = resources.files("groupledger.schemas").joinpath("views").iterdir()
    return {file.name.removesuffix(".sql"): file.read_text() for file in files if file.name.endswith(".sql")}


def show_relations(connection: duckdb.DuckDBPyConnection, snapshots: Snapshots, statement: Statement) -> None:
    """Makes the tables and views that a statement names known to the database, or all for one that lists them."""
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
    """The rows of a table with today's columns, which are null where an older table lacks them. DuckDB asks for them
    several times to see the columns, and reads them anew as often as the query does."""

    snapshots: Snapshots
    table: str
    schema: pa.Schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._read()).__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        yield from with_columns(self.snapshots.rows(self.table), self.schema)


def rows_of_today(snapshots: Snapshots, table: str) -> RowsOfToday | pa.Table:
    """Returns the rows as Spark's engine has them: in the order of today's columns where the table lacks any."""
    today = schema_of(table)
    if table not in snapshots.existing:
        return pa.Table.from_batches([], today)
    there = snapshots.schema(table)
    return RowsOfToday(snapshots, table, today if lacks(pa.struct(there), pa.struct(today)) else there)


def lacks(there: pa.DataType, today: pa.DataType) -> bool:
    """Returns whether a type, or a type in it, lacks a field."""
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
        raise InputError(f"The query has no parameter :{strange[0]}.")


def collected(answer: pa.RecordBatchReader, rows_max: int | None, is_late: threading.Event) -> pa.Table:
    """Returns the rows of an answer, or the first of them. Raises InputError if they are too large."""
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in answer:
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.get_total_buffer_size()
        if is_late.is_set():
            raise TimeoutError
        if size > ANSWER_MAX_BYTES:
            raise InputError(
                f"The answer is larger than {ANSWER_MAX_BYTES >> 30} GiB: ask for fewer columns, or give --limit."
            )
        if rows_max is not None and rows >= rows_max:
            break
    return pa.Table.from_batches(batches, answer.schema).slice(0, rows_max)


def plain(answer: pa.Table) -> pa.Table:
    """Returns the answer in Spark's types: sums of BIGINT, which DuckDB makes wider, are BIGINT again if they fit, and
    an instant without a zone is in UTC, the zone of the connection."""
    for index, field in enumerate(answer.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            wanted = pa.int64()
        elif pa.types.is_timestamp(field.type) and field.type.tz is None:
            wanted = pa.timestamp("us", "UTC")
        else:
            continue
        try:
            answer = answer.set_column(index, field.name, answer.column(index).cast(wanted))
        except pa.ArrowInvalid:
            continue  # larger than BIGINT: it stays a decimal
    return answer


def failure(error: Exception) -> JobError:
    """Returns DuckDB's own words in one line, without the query, which they repeat."""
    text = str(error)
    if isinstance(error, MemoryError) or "Out of Memory Error" in text or "bad allocation" in text:
        return InputError(
            f"The query needs more than {MEMORY_MAX_BYTES >> 30} GiB of memory: ask for fewer rows or columns, or take"
            " --engine spark."
        )
    said = printable(" ".join(re.split(r"\n\n|\nLINE |\nDid you mean|\nCandidate", text)[0].split())).rstrip(".")
    if isinstance(error, duckdb.IOException | OSError) or SCAN_FAILED.search(text):
        return OutsideError(f"The tables can't be read ({said}): ask again, and repair the file if it stays so.")
    return InputError(f"The query failed: {said}.")
