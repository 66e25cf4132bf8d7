"""Reads the Delta logs of a warehouse's tables, without Spark.

What a single version added is in no library's interface, so it is read from the log itself (`added_by`), whose form is
Delta's protocol: `_delta_log/<version, 20 digits>.json`, one action a line. A version that only moved rows (its actions
say `dataChange: false`) and one that is a writer's fence (no action but its transaction) add nothing.

The place of a table is a directory or a URI that delta-rs knows (`s3://`, `s3a://`, `abfss://`, `hdfs://`, ...), with
the credentials where its clients look for them (the environment, an instance's role).
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import FileSystemDataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.schemas.tables.table import Table


# In a local path delta-rs takes these for others, or panics.
MISREAD = re.compile(r"[\x00-\x1f\x7f\[\]\\^|]|%[0-9A-Fa-f]{2}")


def table_uri(warehouse: str, table: Table) -> str:
    """Returns the place of a table. Raises InputError for a path that delta-rs would not find again."""
    place = warehouse.rstrip("/").removeprefix("file://").removeprefix("file:")
    misread = None if "://" in place else MISREAD.search(str(Path(place).absolute()))
    if misread is not None:
        raise InputError(
            f"The path of the warehouse {warehouse} has {misread[0]!r} in it, which Delta's library takes for something"
            " else: rename the folder, or choose another."
        )
    return f"{place}/{table.name}"


def open_table(warehouse: str, table: Table) -> DeltaTable:
    """Returns the table as it is now."""
    return DeltaTable(table_uri(warehouse, table))


def dataset(warehouse: str, table: Table, delta: DeltaTable | None = None) -> FileSystemDataset:
    """Returns the files of the table as it is now, or as it was when it was opened.

    A file may not tell a bound: of a name of some thousand bytes, or of an instant that is none to delta-rs. For
    delta-rs this bound is null, with which no row compares, and so a filter would leave out the whole file. Of such a
    file only the partition is taken for known.
    """
    delta = delta or open_table(warehouse, table)
    found = delta.to_pyarrow_dataset(filesystem=local_files(table_uri(warehouse, table)))
    partitions = _without_bounds(pa.table(delta.get_add_actions(flatten=True)), table, found.schema)
    if not partitions:
        return found
    fragments = [
        found.format.make_fragment(each.path, found.filesystem, partitions.get(each.path, each.partition_expression))
        for each in found.get_fragments()
    ]
    return FileSystemDataset(fragments, found.schema, found.format, found.filesystem)


def _without_bounds(added: pa.Table, table: Table, schema: pa.Schema) -> dict[str, pc.Expression]:
    """Returns the partition of each file, by its path, that lacks a bound of a column which is not null throughout."""
    lacks = pa.repeat(pa.scalar(value=False), added.num_rows)
    for name in table.statistics_columns:
        if f"null_count.{name}" in added.column_names:
            is_null = pc.fill_null(pc.equal(added[f"null_count.{name}"], added["num_records"]), fill_value=False)
            is_told = pc.and_(pc.is_valid(added[f"min.{name}"]), pc.is_valid(added[f"max.{name}"]))
            lacks = pc.or_(lacks, pc.invert(pc.or_(is_null, is_told)))
    found: dict[str, pc.Expression] = {}
    for row in added.filter(lacks).to_pylist():
        values = {
            name: pa.scalar(row[f"partition.{name}"], schema.field(name).type) for name in table.partition_columns
        }
        known = [
            pc.field(name) == value if value.is_valid else pc.field(name).is_null() for name, value in values.items()
        ]
        found[unquote(row["path"])] = reduce(operator.and_, known, pc.scalar(value=True))
    return found


def local_files(uri: str) -> SubTreeFileSystem | None:
    """Returns the files of a table on a local disk, None for a table elsewhere.

    There pyarrow reads and writes by itself: its threads must not call into Python while the process ends, and delta-rs
    writes a file under a name with a `#` first, which no VACUUM removes if the process is killed.
    """
    return None if "://" in uri else SubTreeFileSystem(str(Path(uri).resolve()), LocalFileSystem())


def last_transaction(warehouse: str, table: Table, application_id: str) -> int | None:
    """Returns the last version that an application has written to a table under its transaction id, None before the
    first."""
    if not DeltaTable.is_deltatable(table_uri(warehouse, table)):
        return None
    return open_table(warehouse, table).transaction_version(application_id)


@dataclass(frozen=True, slots=True)
class Added:
    """The files that one version added, by path within the table, with the number of rows of each. `has_replaced` says
    that they take the place of others, and so may hold their rows again."""

    at: datetime
    files: dict[str, int]
    has_replaced: bool


def added_by(storage: Storage, table: Table, version: int) -> Added | None:
    """Returns what a version added to a table, or None if there is no such version, or no longer."""
    text = storage.read(f"{table.name}/_delta_log/{version:020}.json")
    if text is None:
        return None
    files: dict[str, int] = {}
    at_ms, has_replaced = 0, False
    for action in map(json.loads, text.splitlines()):
        add = action.get("add")
        if add is not None and add["dataChange"]:
            files[unquote(add["path"])] = json.loads(add.get("stats") or "{}").get("numRecords", 0)
        has_replaced |= "remove" in action
        at_ms = action.get("commitInfo", {}).get("timestamp", at_ms)
    return Added(datetime.fromtimestamp(at_ms / 1_000, timezone.utc), files, has_replaced)
