"""Reads the Delta logs of a warehouse's tables, without Spark.

What a single version added is in no library's interface, so it is read from the log itself (`added_by`), whose form is
Delta's protocol: `_delta_log/<version, 20 digits>.json`, one action a line. A version that only moved rows (its actions
say `dataChange: false`) and one that is a writer's fence (no action but its transaction) add nothing.

The place of a table is a directory or a URI that delta-rs knows (`s3://`, `s3a://`, `abfss://`, `hdfs://`, ...), with
the credentials where its clients look for them (the environment, an instance's role).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

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


def dataset(warehouse: str, table: Table, delta: DeltaTable | None = None) -> pa.dataset.Dataset:
    """Returns the files of the table as it is now, or as it was when it was opened."""
    delta = delta or open_table(warehouse, table)
    return delta.to_pyarrow_dataset(filesystem=local_files(table_uri(warehouse, table)))


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
