"""Writes rows into Parquet files of a table from Spark's tasks; the driver commits the list of files (`commits`).

Sending Arrow rows back into the JVM, for its Parquet writer, costs more than all the rest of an ingest. So the task
that has the rows writes them into the folder of the table, and returns only the file's entry for the commit: path,
size, partition values and statistics. All storages but the local disk are written through delta-rs.

A file's name is new each time. A task that is tried again, or is run twice, leaves a file that no commit names; readers
never see it, and VACUUM removes it.

Statistics are those of `Table.statistics_columns`, from the footer of the file. A text longer than `PREFIX_CHARACTERS`
is truncated, as Delta's own writer does; the greatest text gets a character after its start that makes it greater than
the whole text.

Only texts get a dictionary. Offsets and instants nearly all differ, and a dictionary of them is thrown away once it is
full; but each is near the one before, and their differences take a few bits (`encodings`).
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from groupledger.jobs.warehouse.delta_log import table_uri
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.schemas.arrow import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from groupledger.schemas.tables.table import Table

    Batches = Iterable[pa.RecordBatch]

PART = "part"
PREFIX_CHARACTERS = 32
LAST_CHARACTER = "\U0010ffff"
ROW_GROUP_BYTES = 48 << 20
# A file is closed after this many bytes in memory; in Parquet it is a fraction of them.
FILE_BYTES = 1 << 30

RESULT = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("partition_values", StringType()),
        StructField("modified_at_ms", LongType()),
        StructField("statistics", StringType()),
        StructField("rows", LongType()),
        StructField("counts", ArrayType(LongType())),
    ]
)
RESULT_SCHEMA = arrow_schema(RESULT)


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A Parquet file in a table's folder. `path` is relative to that folder. `counts` are the numbers of non-null
    values in the columns that the caller of `write_files` named in `counted`."""

    path: str
    size: int
    partition_values: dict[str, str | None]
    modified_at_ms: int
    statistics: str
    rows: int
    counts: tuple[int, ...]


def write_files(
    rows: DataFrame,
    table: Table,
    warehouse: str,
    *,
    prepare: Callable[[Batches], Batches] | None = None,
    counted: Sequence[str] = (),
) -> list[WrittenFile]:
    """Writes the rows in Spark's tasks, and returns the files. `prepare` turns rows of the frame into rows of the
    table, inside the task; if it is None, `rows` must already be rows of the table."""
    if prepare is None and table.partition_columns:
        rows = rows.sortWithinPartitions(*table.partition_columns)
    write = _Writer(table, table_uri(warehouse, table), prepare, tuple(counted))
    return _written(rows.mapInArrow(write, RESULT).toArrow())


def write_here(rows: pa.Table, table: Table, warehouse: str, name: str = PART) -> list[WrittenFile]:
    """Writes rows that are in this process's memory into new Parquet files in the table's folder, and returns the
    files. The caller commits them. The files' names begin with `name`."""
    return write_batches_here(rows.to_batches(), table, warehouse, name)


def write_batches_here(batches: Batches, table: Table, warehouse: str, name: str = PART) -> list[WrittenFile]:
    """Writes rows batch by batch, so that this process never holds all of them, and returns the files."""
    written = _Writer(table, table_uri(warehouse, table), None, (), name)(batches)
    return [each for batch in written for each in _written(batch)]


def read_columns(files: Sequence[WrittenFile], table: Table, warehouse: str, names: Sequence[str]) -> pa.Table:
    """Returns some columns of files that were just written. Partition columns can't be read."""
    uri = table_uri(warehouse, table)
    place = local_files(uri) or PyFileSystem(DeltaStorageHandler(uri))
    found = [pq.read_table(each.path, columns=list(names), filesystem=place) for each in files]
    kinds = arrow_schema(table.schema)
    return pa.concat_tables([pa.schema([kinds.field(name) for name in names]).empty_table(), *found])


def _written(found: pa.Table | pa.RecordBatch) -> list[WrittenFile]:
    return [
        WrittenFile(
            path=row["path"],
            size=row["size"],
            partition_values=json.loads(row["partition_values"]),
            modified_at_ms=row["modified_at_ms"],
            statistics=row["statistics"],
            rows=row["rows"],
            counts=tuple(row["counts"]),
        )
        for row in found.to_pylist()
    ]


@dataclass(frozen=True)
class _Writer:
    """Writes the batches of one task."""

    table: Table
    uri: str
    prepare: Callable[[Batches], Batches] | None
    counted: tuple[str, ...]
    name: str = PART

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.table.schema)
        prepared = batches if self.prepare is None else self.prepare(batches)
        written: list[dict[str, Any]] = []
        file: _File | None = None
        for batch in prepared:
            for values, part in _by_partition(pa.Table.from_batches([batch]).cast(schema), self.table):
                if file is not None and (file.values != values or file.is_full()):
                    written.append(file.close())
                    file = None
                if file is None:
                    file = _File(self, schema, values)
                file.write(part)
        if file is not None:
            written.append(file.close())
        yield pa.RecordBatch.from_pylist(written, schema=RESULT_SCHEMA)


def _by_partition(rows: pa.Table, table: Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yields the rows of each partition of the table, without the partition columns."""
    if not table.partition_columns:
        yield {}, rows
        return
    names = list(table.partition_columns)
    keys = rows.select(names).group_by(names, use_threads=False).aggregate([])
    for key in keys.to_pylist():
        part = rows
        if keys.num_rows > 1:
            for name, value in key.items():
                column = part.column(name)
                is_same = pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
                part = part.filter(is_same)
        yield {name: None if value is None else str(value) for name, value in key.items()}, part.drop_columns(names)


class _File:
    """One Parquet file that a task writes."""

    def __init__(self, writer: _Writer, schema: pa.Schema, values: dict[str, str | None]) -> None:
        self.values = values
        self._writer = writer
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._bytes = 0
        # Partition values need no quoting: dates, small integers and the names of clusters.
        folders = [f"{name}={value or '__HIVE_DEFAULT_PARTITION__'}" for name, value in values.items()]
        self._path = "/".join([*folders, f"{writer.name}-{uuid.uuid4().hex}.parquet"])
        files = local_files(writer.uri) or PyFileSystem(DeltaStorageHandler(writer.uri))
        files.create_dir("/".join(folders))
        self._stream = files.open_output_stream(self._path)
        fields = pa.schema([field for field in schema if field.name not in values])
        self._parquet = pq.ParquetWriter(
            self._stream, fields, compression="zstd", store_schema=False, **encodings(fields)
        )

    def write(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        # `nbytes` looks into the offsets of lists, which Spark leaves out of a batch where all of them are empty.
        self._waiting_bytes += rows.get_total_buffer_size()
        if self._waiting_bytes > ROW_GROUP_BYTES:
            self._flush()

    def is_full(self) -> bool:
        return self._bytes > FILE_BYTES

    def close(self) -> dict[str, Any]:
        """Returns the row of `RESULT` about the finished file."""
        self._flush()
        self._parquet.close()
        size = self._stream.tell()
        self._stream.close()
        footer = self._parquet.writer.metadata
        table = self._writer.table
        of_columns = statistics(footer, [name for name in table.statistics_columns if name not in self.values])
        return {
            "path": self._path,
            "size": size,
            "partition_values": json.dumps(self.values),
            "modified_at_ms": time.time_ns() // 1_000_000,
            # delta-rs reads the two halves of an escaped character beyond U+1FFFF as another character.
            "statistics": json.dumps(of_columns, ensure_ascii=False),
            "rows": footer.num_rows,
            "counts": [footer.num_rows - _Column(footer, name).null_count() for name in self._writer.counted],
        }

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._parquet.write_table(rows, row_group_size=rows.num_rows)
            self._bytes += self._waiting_bytes
            self._waiting, self._waiting_bytes = [], 0


def encodings(fields: pa.Schema) -> dict[str, Any]:
    """Returns the options by which a Parquet writer encodes each column: texts by a dictionary, 64-bit integers and
    instants by their differences."""
    leaves = [leaf for field in fields for leaf in _leaves(field.name, field.type)]
    wide = [path for path, kind in leaves if pa.types.is_int64(kind) or pa.types.is_timestamp(kind)]
    return {
        "use_dictionary": [path for path, kind in leaves if pa.types.is_string(kind)],
        "column_encoding": dict.fromkeys(wide, "DELTA_BINARY_PACKED"),
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yields the leaf columns that Parquet has for one column of Arrow: those inside structs, lists and maps."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


class _Column:
    """The footer's statistics of a column that is not a struct, list or map."""

    def __init__(self, footer: pq.FileMetaData, name: str) -> None:
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        # All groups have the columns in one order.
        found = (index for index in range(footer.num_columns) if groups[0].column(index).path_in_schema == name)
        index = next(found) if groups else 0
        self._statistics = [group.column(index).statistics for group in groups]

    def null_count(self) -> int:
        return sum(each.null_count for each in self._statistics)

    def least_and_greatest(self) -> tuple[Any, Any] | None:
        """Returns the bounds; None if all values are null, or if a row group has no statistics."""
        bounded = [each for each in self._statistics if each.has_min_max]
        unbounded = [each for each in self._statistics if not each.has_min_max and each.num_values]
        try:
            return (
                None
                if unbounded or not bounded
                else (min(each.min for each in bounded), max(each.max for each in bounded))
            )
        except OverflowError:  # an instant or a day outside of the years 1 to 9999, which are all that Python has
            return None


def statistics(footer: pq.FileMetaData, names: Sequence[str]) -> dict[str, Any]:
    """Returns a file's statistics of some columns, in the form of Delta's log."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in names:
        column = _Column(footer, name)
        nulls[name] = column.null_count()
        bounds = column.least_and_greatest()
        if bounds is not None:
            least[name] = _in_log(bounds[0])
            greatest[name] = _in_log(bounds[1], is_greatest=True)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _in_log(value: Any, *, is_greatest: bool = False) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > PREFIX_CHARACTERS:
        end = PREFIX_CHARACTERS
        while is_greatest and value[end : end + 1] == LAST_CHARACTER:
            end += 1
        return value[:end] + (LAST_CHARACTER if is_greatest and end < len(value) else "")
    return value
