"""Reads the Delta logs of a warehouse's tables, without Spark.

No library lists the files that a single version added, so they are read from the log itself (`added_by`), whose form is
Delta's protocol: `_delta_log/<version, 20 digits>.json`, one action a line. A version that only moved rows (its actions
say `dataChange: false`) and one that is only a writer's fence (no action but its transaction) add nothing.

A table is in a directory, or at a URI that delta-rs knows (`s3://`, `s3a://`, `abfss://`, `hdfs://`, ...). Credentials
are where the clients of delta-rs look for them (the environment, an instance's role).
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, ParquetFragmentScanOptions
from pyarrow.fs import FileSelector, PyFileSystem

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.outside import made_again, of_the_table
from groupledger.jobs.process.places import warehouse_uri
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.jobs.warehouse.readable import refuse_unreadable
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow.fs import FileInfo, FileSystem

    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.schemas.tables.table import Table


# The limits of `few_rows`. So many bytes take some hundred MiB of memory, as rows of Arrow and again as Spark's.
FEW_ROWS, FEW_FILES, FEW_BYTES = 200_000, 200, 16 << 20
# Parsing the log's entries of this many files takes as long as a job of Spark.
FILES_LOOKED_AT_MAX = 2_000
COMMIT_FILE = re.compile(r"[0-9]{20}\.json")


def table_uri(warehouse: str, table: Table) -> str:
    """Returns the directory or URI of a table. Raises InputError for a path that delta-rs would misread."""
    return f"{warehouse_uri(warehouse)}/{table.name}"


def open_table(warehouse: str, table: Table, version: int | None = None) -> DeltaTable:
    """Returns the table as it is now, or as it was in `version`. Raises OutsideError if the table uses features of
    Delta that are not supported here."""
    place = table_uri(warehouse, table)
    with of_the_table(place):
        delta = DeltaTable(place, version)
    refuse_unreadable(delta, place)
    return delta


def dataset(
    warehouse: str, table: Table, delta: DeltaTable | None = None, condition: pc.Expression | None = None
) -> FileSystemDataset:
    """Returns the files of the table as it is now, or as it was when `delta` was opened, each with the statistics that
    the log has of it. If a condition is given, files that can't have a matching row may be left out.

    delta-rs makes such a dataset too, but with two faults. If a bound of a file is missing (for a name of some thousand
    bytes, or an instant that is invalid to delta-rs), it is null there and compares with no row, so that a filter
    leaves out the whole file. And some texts are returned as views, which pyarrow does not compare with texts.
    """
    delta = delta or open_table(warehouse, table)
    return _dataset(warehouse, table, delta, _added(delta, condition))


def _added(delta: DeltaTable, condition: pc.Expression | None) -> pa.Table:
    """Returns the log's entry of each file, without those whose partition excludes a condition. There are far fewer
    partitions than files, and entries are parsed one by one."""
    added = pa.table(delta.get_add_actions(flatten=True))
    names = delta.metadata().partition_columns
    if condition is None or not names:
        return added
    schema, columns = pa.schema(delta.schema().to_arrow()), [f"partition.{name}" for name in names]
    known = added.group_by(columns, use_threads=False).aggregate([])
    nowhere = pa.fs.LocalFileSystem()
    fragments = [
        ParquetFileFormat().make_fragment(str(number), nowhere, reduce(operator.and_, facts))
        for number, facts in enumerate(_partitions(known, schema, names))
    ]
    every = FileSystemDataset(fragments, schema, ParquetFileFormat(), nowhere)
    numbers = sorted(int(each.path) for each in every.get_fragments(condition))
    needed = known.take(pa.array(numbers, pa.int64()))
    # A join would take nulls for different, and an instant without a date is in a partition of its own.
    keys = {tuple(row.values()) for row in needed.to_pylist()}
    rows = zip(*(added[name].to_pylist() for name in columns), strict=True)
    return added.filter(pa.array([row in keys for row in rows], pa.bool_()))


def _dataset(warehouse: str, table: Table, delta: DeltaTable, added: pa.Table) -> FileSystemDataset:
    files = files_of(table_uri(warehouse, table))
    schema = pa.schema(delta.schema().to_arrow())
    of_partition = _partitions(added, schema, delta.metadata().partition_columns)
    of_bounds = _bounds(added, schema, table.statistics_columns)
    format_ = ParquetFileFormat(default_fragment_scan_options=ParquetFragmentScanOptions(pre_buffer=True))
    fragments = [
        format_.make_fragment(unquote(path), files, reduce(operator.and_, [*known, *bounds], pc.scalar(value=True)))
        for path, known, bounds in zip(added.column("path").to_pylist(), of_partition, of_bounds, strict=True)
    ]
    return FileSystemDataset(fragments, schema, format_, files)


def files_of(uri: str) -> FileSystem:
    """Returns the file system of a table, in which paths are relative to the table's folder."""
    return local_files(uri) or PyFileSystem(DeltaStorageHandler(uri))


def rows_where(files: FileSystemDataset, condition: pc.Expression, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns the rows that match a condition. `columns` are the columns to return, and must include those of the
    condition; None stands for all.

    The files to open are chosen here, not by pyarrow, and rows are compared only after their columns have got the
    table's types: a merge of delta-rs writes texts as views, whose bounds pyarrow does not compare with texts.
    """
    needed = FileSystemDataset(list(files.get_fragments(condition)), files.schema, files.format, files.filesystem)
    read = None if columns is None else [*columns]
    found = [pa.Table.from_batches([batch]).filter(condition) for batch in needed.to_batches(columns=read)]
    empty = files.schema.empty_table()
    return pa.concat_tables([empty if read is None else empty.select(read), *found])


def has_row(files: FileSystemDataset, name: str, value: str) -> bool:
    """Returns whether any row has `value` in the column `name`. Only that column is read."""
    is_wanted = pc.field(name) == value
    return any(
        pa.Table.from_batches([batch]).filter(is_wanted).num_rows
        for fragment in files.get_fragments(is_wanted)
        for batch in fragment.to_batches(schema=files.schema, columns=[name])
    )


def few_rows(warehouse: str, table: Table, condition: pc.Expression, version: int | None = None) -> pa.Table | None:
    """Returns the rows that match a condition, of the table as it is now or as it was in `version`. Returns None if
    there may be many rows, or if the partitions that may have some of them have many files."""
    delta = open_table(warehouse, table, version)
    added = _added(delta, condition)
    if added.num_rows > FILES_LOOKED_AT_MAX:
        return None
    files = _dataset(warehouse, table, delta, added)
    needed = {fragment.path for fragment in files.get_fragments(condition)}
    every = added.select(["path", "num_records", "size_bytes"]).to_pylist()
    matching = [each for each in every if unquote(each["path"]) in needed]
    counts = [FEW_ROWS + 1 if each["num_records"] is None else each["num_records"] for each in matching]
    is_few = len(matching) <= FEW_FILES and sum(counts) <= FEW_ROWS
    if not is_few or sum(each["size_bytes"] for each in matching) > FEW_BYTES:
        return None
    with of_the_table(table_uri(warehouse, table)):
        return rows_where(files, condition)


def _partitions(added: pa.Table, schema: pa.Schema, names: Sequence[str]) -> list[list[pc.Expression]]:
    """Returns, for each file, the conditions that its partition values imply for its rows."""
    found: list[list[pc.Expression]] = [[] for _ in range(added.num_rows)]
    for name in names:
        for facts, value in zip(found, added[f"partition.{name}"].cast(schema.field(name).type), strict=True):
            facts.append(pc.field(name) == value if value.is_valid else pc.field(name).is_null())
    return found


def _bounds(added: pa.Table, schema: pa.Schema, names: Sequence[str]) -> list[list[pc.Expression]]:
    """Returns the bounds of each file's rows; a missing statistic is null."""
    found: list[list[pc.Expression]] = [[] for _ in range(added.num_rows)]
    for name in names:
        if f"min.{name}" not in added.column_names:
            continue
        column, kind = pc.field(name), schema.field(name).type
        least, greatest = (added[f"{bound}.{name}"].cast(kind) for bound in ("min", "max"))
        if pa.types.is_timestamp(kind):
            # Delta's writers cut an instant to milliseconds.
            greatest = pc.add(greatest, pa.scalar(timedelta(milliseconds=1), pa.duration("us")))
        is_null = pc.equal(added[f"null_count.{name}"], added["num_records"]).to_pylist()
        for facts, low, high, has_none in zip(found, least, greatest, is_null, strict=True):
            if low.is_valid:
                facts.append((column >= low) | column.is_null())
            if high.is_valid:
                facts.append((column <= high) | column.is_null())
            if has_none:
                facts.append(column.is_null())
    return found


def last_transaction(warehouse: str, table: Table, application_id: str) -> int | None:
    """Returns the last number that an application has committed to a table under its transaction id; None if it has not
    committed any, or if the table does not exist."""
    if not DeltaTable.is_deltatable(table_uri(warehouse, table)):
        return None
    return open_table(warehouse, table).transaction_version(application_id)


def properties_of(warehouse: str, table: Table) -> dict[str, str]:
    """Returns the properties of a table; an empty dict if the table does not exist."""
    if not DeltaTable.is_deltatable(table_uri(warehouse, table)):
        return {}
    return dict(open_table(warehouse, table).metadata().configuration)


def refuse_emptied(warehouse: str, table: Table) -> None:
    """Raises OutsideError if the file of one of the table's commits is empty, as a failing machine may leave it. If the
    table has a checkpoint, readers start from it, so only later commits are checked."""
    with of_the_table(table_uri(warehouse, table)):
        files = files_of(table_uri(warehouse, table))
        since = _checkpointed(files)
        found = files.get_file_info(FileSelector("_delta_log")) if since is None else _commits_after(files, since)
        for info in found:
            if info.is_file and info.size == 0 and COMMIT_FILE.fullmatch(info.base_name):
                raise _emptied(table, int(info.base_name.removesuffix(".json")))


def _checkpointed(files: FileSystem) -> int | None:
    """Returns the version of the last checkpoint; None if there is none, or if its note is damaged."""
    try:
        with files.open_input_file("_delta_log/_last_checkpoint") as file:
            return int(json.loads(file.read())["version"])
    except (FileNotFoundError, LookupError, TypeError, ValueError):
        return None


def _commits_after(files: FileSystem, version: int) -> Iterator[FileInfo]:
    """Yields the files of the commits after a version, which have no gaps, without a listing of the log."""
    for number in count(version + 1):
        info = files.get_file_info(f"_delta_log/{number:020}.json")
        if not info.is_file:
            return
        yield info


def check_commits(storage: Storage, table: Table, since_version: int = 0) -> int:
    """Reads the commits that the log still has, from `since_version` on, and returns the number of rows in the files
    that they added. Raises OutsideError if the file of a commit is empty."""
    found: Iterable[Added | None]
    if since_version:
        # A listing would cost more with each commit, and from there on there are no gaps.
        found = takewhile(bool, (added_by(storage, table, number) for number in count(since_version)))
    else:
        names = [name for name in storage.names(f"{table.name}/_delta_log") if COMMIT_FILE.fullmatch(name)]
        found = (added_by(storage, table, int(name.removesuffix(".json"))) for name in names)
    return sum(sum(added.files.values()) for added in found if added is not None)


@dataclass(frozen=True, slots=True)
class Added:
    """The files that one version of a table added. `files` has the number of rows of each file, by path within the
    table; `at` is when the version was committed. If `has_replaced`, the files replace older ones and may repeat their
    rows."""

    at: datetime
    files: dict[str, int]
    has_replaced: bool


def added_by(storage: Storage, table: Table, version: int) -> Added | None:
    """Returns the files that a version added to a table; None if the log does not have that version, yet or any more.
    Raises OutsideError as `actions_of` does."""
    actions = actions_of(storage, table, version)
    if actions is None:
        return None
    files: dict[str, int] = {}
    at_ms, has_replaced = 0, False
    for action in actions:
        add = action.get("add")
        if add is not None and add["dataChange"]:
            files[unquote(add["path"])] = row_count_of(add)
        has_replaced |= "remove" in action
        at_ms = action.get("commitInfo", {}).get("timestamp", at_ms)
    return Added(instant_of_ms(at_ms), files, has_replaced)


def actions_of(storage: Storage, table: Table, version: int) -> list[dict[str, Any]] | None:
    """Returns the actions of a version; None if the log does not have that version, yet or any more.

    Raises OutsideError if the file of the commit is empty: Delta's readers take it for a commit that did nothing, and
    its rows would be missing silently.
    """
    text = storage.read(f"{table.name}/_delta_log/{version:020}.json")
    if text is None:
        return None
    if not text.strip():
        raise _emptied(table, version)
    return [json.loads(line) for line in text.splitlines()]


def row_count_of(add: dict[str, Any]) -> int:
    """Returns how many rows are in a file, by the action that added it; 0 if it does not say so."""
    return int(json.loads(add.get("stats") or "{}").get("numRecords", 0))


def _emptied(table: Table, version: int) -> OutsideError:
    return OutsideError(
        f"The file of commit {version} of the table {table.name} is empty, and what that commit did is missing: restore"
        f" {table.name}/_delta_log/{version:020}.json from a copy, or"
        f" {made_again(table.name, table.name)}."
    )
