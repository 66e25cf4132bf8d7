"""Reads the rows of a Delta table that match filters, from the files that can contain them, as batches.

A filter is (column, operator, value), and all filters must hold. Delta's log has the partition of each file and the
bounds of its columns; the files that can match are read by pyarrow, and their rows are filtered. A file has the types
that its writer gave it (a merge of delta-rs writes texts as views), and may lack columns and fields that the table has.
The rows that are returned have the types of the table, with null for missing values.

delta-rs can also make a pyarrow dataset of a table. This module does not use it, since that takes a millisecond for
each file, and imports pandas (`process.arrow_values`).
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem
from pyarrow.parquet import ParquetFile

from groupledger.jobs.process.arrow_values import column_of, scalar_of
from groupledger.jobs.warehouse.local_files import local_files, refuse_pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from pyarrow import NativeFile

    from groupledger.jobs.ask.opened_tables import OpenedTable

    Filter = tuple[str, str, Any]
    Wanted = tuple[str, str, pa.Array]

COMPARE: dict[str, Callable[[Any, Any], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
FROM_BELOW, FROM_ABOVE = ("<", "<="), (">", ">=")
PARTITION = "partition."
# A small file is read whole, some of them at the same time; a larger one batch by batch, so that memory is bounded.
SMALL_BYTES = 4 << 20
AT_ONCE = 4
# Delta's writers cut an instant to milliseconds.
CUT_US = 1_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file: its path within the table, its size, and the values of the columns that the table is partitioned
    by."""

    path: str
    size_bytes: int
    partition: dict[str, pa.Scalar]


def rows_of_files(
    table: OpenedTable, place: str, filters: Sequence[Filter], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yields the rows of the opened version of a table that pass all filters, with the given columns, in pieces, some
    of which may be empty. `place` is the table's directory or URI. The table must have all named columns."""
    schema = table.schema
    wanted = [(name, operation, _wanted(schema, name, operation, value)) for name, operation, value in filters]
    in_order = pa.schema([schema.field(name) for name in columns])
    needed = [schema.field(name) for name in dict.fromkeys([*columns, *(name for name, _, _ in filters)])]
    stored, texts = [field.name for field in needed], _texts(needed, filters)
    files = files_of(table.files, schema, wanted)
    storage = local_files(place) or PyFileSystem(DeltaStorageHandler(place))

    def pieces(file: DataFile) -> Iterator[pa.Table]:
        names = [field.name for field in needed if field.name not in file.partition]
        refuse_pipes(place, [file.path])
        try:
            with _opened(storage.open_input_file(file.path), texts) as parquet:
                # Small files are read some at a time, and more threads for each would only cost.
                for batch in parquet.iter_batches(columns=names, use_threads=file.size_bytes > SMALL_BYTES):
                    passing = [_passing(batch, schema.field(each[0]), *each[1:]) for each in wanted if each[0] in names]
                    rows = pa.RecordBatch.from_arrays([_stored(batch, file, each) for each in needed], names=stored)
                    passed = rows.filter(reduce(pc.and_, passing)) if passing else rows
                    yield pa.table([_cast(passed, field) for field in in_order], schema=in_order)
        except pa.ArrowException as error:
            raise type(error)(f"{file.path}: {error}") from error  # pyarrow does not name the file

    return _some_at_once(files, pieces)


def files_of(added: pa.Table, schema: pa.Schema, wanted: Iterable[Wanted]) -> list[DataFile]:
    """Returns the files in `added` (`OpenedTable.files`) that can hold rows that pass all filters in `wanted`."""
    can_pass = [each for each in (_can_pass(added, *each) for each in wanted) if each is not None]
    named = [name for name in added.column_names if name.startswith(PARTITION)]
    chosen = added.select(["path", "size_bytes", *named])  # what the log says of the other columns has done its work
    chosen = chosen.filter(reduce(pc.and_, can_pass)) if can_pass else chosen
    partitions = {
        name.removeprefix(PARTITION): chosen[name].cast(schema.field(name.removeprefix(PARTITION)).type)
        for name in named
    }
    paths, sizes = chosen["path"].to_pylist(), chosen["size_bytes"].to_pylist()
    return [
        DataFile(unquote(path), size_bytes, {name: column[index] for name, column in partitions.items()})
        for index, (path, size_bytes) in enumerate(zip(paths, sizes, strict=True))
    ]


def with_columns(pieces: Iterable[pa.Table], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields rows with the columns of a schema; missing columns are null."""
    for rows in pieces:
        if rows.num_rows:
            yield from pa.table([_cast(rows, field) for field in wanted], schema=wanted).to_batches()


def _texts(needed: Iterable[pa.Field], filters: Iterable[Filter]) -> set[str]:
    """Returns the columns of texts that are read as the numbers of a dictionary, as they are stored: those of filters,
    and all where a filter leaves out most rows, as one by a group does, so that few texts have to be made."""
    texts, asked = {field.name for field in needed if pa.types.is_string(field.type)}, {name for name, _, _ in filters}
    return texts if (texts & asked) - {"cluster"} else texts & asked


def _opened(source: NativeFile, texts: set[str]) -> ParquetFile:
    metadata = ParquetFile(source).metadata
    there = texts.intersection(metadata.schema.to_arrow_schema().names)
    return ParquetFile(source, metadata=metadata, read_dictionary=[*there], pre_buffer=True)


def _wanted(schema: pa.Schema, name: str, operation: str, value: Any) -> pa.Array:
    """Returns the value of a filter, in the type of its column."""
    return column_of([*value] if operation == "in" else [value], schema.field(name).type)


def _passing(batch: pa.RecordBatch, field: pa.Field, operation: str, wanted: pa.Array) -> pa.Array:
    """Returns which rows pass a filter. Of texts each is compared once, and not once for each row."""
    column = batch.column(field.name) if field.name in batch.schema.names else None
    if column is not None and pa.types.is_dictionary(column.type):
        return _passes(column.dictionary.cast(field.type), operation, wanted).take(column.indices)
    return _passes(_cast(batch, field), operation, wanted)


def _passes(column: pa.ChunkedArray | pa.Array, operation: str, wanted: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=wanted) if operation == "in" else COMPARE[operation](column, wanted[0])


def _can_pass(added: pa.Table, name: str, operation: str, wanted: pa.Array) -> pa.ChunkedArray | None:
    """Returns which files can hold rows that pass a filter; None if the log says nothing about the column."""
    kind = wanted.type
    if PARTITION + name in added.column_names:
        return _passes(added[PARTITION + name].cast(kind), operation, wanted)
    if f"min.{name}" not in added.column_names:
        return None
    least, greatest = added[f"min.{name}"].cast(kind), added[f"max.{name}"].cast(kind)
    if pa.types.is_timestamp(kind):
        greatest = pc.add(greatest, scalar_of(CUT_US, pa.duration("us")))
    if operation in FROM_BELOW:
        could = COMPARE[operation](least, wanted[0])
    elif operation in FROM_ABOVE:
        could = COMPARE[operation](greatest, wanted[0])
    else:
        could = pc.and_kleene(pc.less_equal(least, pc.max(wanted)), pc.greater_equal(greatest, pc.min(wanted)))
    return pc.fill_null(could, scalar_of(True, pa.bool_()))  # a bound that the log does not have


def _stored(batch: pa.RecordBatch, file: DataFile, field: pa.Field) -> pa.Array:
    """Returns a column of some rows of a file, in the type that it has in the table, but for the numbers of a
    dictionary. Arrow leaves out no rows of texts that are views."""
    if field.name in file.partition:
        return pa.repeat(file.partition[field.name], batch.num_rows)
    if field.name in batch.schema.names and pa.types.is_dictionary(batch.column(field.name).type):
        return batch.column(field.name)
    return _cast(batch, field)


def _cast(rows: pa.Table | pa.RecordBatch, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(field.name)
    return column if column.type == field.type else column.cast(field.type)


def _some_at_once(files: Sequence[DataFile], pieces: Callable[[DataFile], Iterator[pa.Table]]) -> Iterator[pa.Table]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reading: deque[Future[list[pa.Table]]] = deque()
        for file in files:
            is_read_ahead = file.size_bytes <= SMALL_BYTES and len(files) > 1
            if is_read_ahead:
                reading.append(pool.submit(_all, pieces, file))
            while reading and (not is_read_ahead or len(reading) > AT_ONCE):
                yield from reading.popleft().result()
            if not is_read_ahead:
                yield from pieces(file)
        for each in reading:
            yield from each.result()


def _all(pieces: Callable[[DataFile], Iterator[pa.Table]], file: DataFile) -> list[pa.Table]:
    return [*pieces(file)]
