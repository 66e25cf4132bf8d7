"""Finds the rows of a table that are other ones than in an earlier version.

The table's own log says which files its versions added and removed. Rows that were only moved to another file, as a
merge does with all others of a file, are in both, and do not count. A version that changed no rows (OPTIMIZE) is passed
over. So the cost depends on what was written since, and not on what lies in the table. Where the log or the files don't
show it any more, there is no such answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from pyarrow.dataset import ParquetFileFormat

from groupledger.jobs.warehouse.added_files import VERSIONS_LOOKED_AT_MAX
from groupledger.jobs.warehouse.delta_log import actions_of, files_of, row_count_of, table_uri
from groupledger.schemas.arrow import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

Changed: TypeAlias = tuple[pa.Table, pa.Table]
"""Rows that are new, and rows that are gone."""
ROWS_MAX = 5_000_000
"""So many rows take a second to compare; whoever has more to look at begins anew."""


@dataclass(frozen=True)
class ChangedFiles:
    """Files of a cluster by path within the table, with the values of their partition."""

    removed: dict[str, Mapping[str, str | None]] = field(default_factory=dict)
    added: dict[str, Mapping[str, str | None]] = field(default_factory=dict)


def changed_files(ledger: Ledger, table: Table, since: int, until: int) -> ChangedFiles | None:
    """Returns the files that differ between two versions; None if the log does not show it, or if it is too much."""
    found, rows = ChangedFiles(), 0
    if until - since > VERSIONS_LOOKED_AT_MAX:
        return None
    for version in range(since + 1, until + 1):
        actions = actions_of(ledger.storage, table, version)
        if actions is None:
            return None
        removed = {unquote(each["remove"]["path"]): each["remove"] for each in actions if "remove" in each}
        added = {unquote(each["add"]["path"]): each["add"] for each in actions if "add" in each}
        is_moved = not any(each["dataChange"] for each in (*removed.values(), *added.values()))
        if is_moved and not removed.keys() & found.added.keys():
            continue
        for path, action in removed.items():
            if found.added.pop(path, None) is None and _is_ours(ledger, table, action):
                if action.get("partitionValues") is None:
                    return None
                found.removed[path] = action["partitionValues"]
        for path, action in added.items():
            if found.removed.pop(path, None) is None and _is_ours(ledger, table, action):
                found.added[path] = action["partitionValues"]
                rows += row_count_of(action)
    return None if rows > ROWS_MAX else found


def changed_since(
    ledger: Ledger, table: Table, before: Sequence[Any] | None, now: Sequence[Any] | None
) -> ChangedFiles | None:
    """Returns the files that differ between two places of a table, each its id and version, or None where there was no
    table; None if that is not known, or if it is another table."""
    if now is None:
        return ChangedFiles() if before is None else None
    if before is not None and (before[0] != now[0] or before[1] > now[1]):
        return None
    return changed_files(ledger, table, -1 if before is None else before[1], now[1])


def _is_ours(ledger: Ledger, table: Table, action: Mapping[str, Any]) -> bool:
    """Returns whether the file may have rows of the ledger's cluster."""
    values = action.get("partitionValues") or {}
    return "cluster" not in table.partition_columns or values.get("cluster", ledger.cluster) == ledger.cluster


def rows_of(
    ledger: Ledger, table: Table, paths: Iterable[str], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Returns the cluster's rows in some files, without the columns of the partition; None if a file is gone."""
    every = arrow_schema(table.schema)
    schema = pa.schema([each for each in every if each.name not in table.partition_columns])
    names = [each for each in (schema.names if columns is None else columns) if each in schema.names]
    is_shared = "cluster" not in table.partition_columns
    read = [*names, *(["cluster"] if is_shared and "cluster" not in names else [])]
    files, format_, found = files_of(table_uri(ledger.warehouse, table)), ParquetFileFormat(), []
    paths = list(paths)
    if any(each.type != pyarrow.fs.FileType.File for each in files.get_file_info(paths)):
        return None
    for path in paths:
        rows = format_.make_fragment(path, files).to_table(schema=schema, columns=read)
        found.append(rows.filter(pc.field("cluster") == ledger.cluster) if is_shared else rows)
    empty = pa.schema([schema.field(name) for name in read]).empty_table()
    return pa.concat_tables([empty, *found]).select(names)


def changed_rows(
    ledger: Ledger,
    table: Table,
    files: ChangedFiles,
    columns: Sequence[str] | None = None,
    kept: Sequence[str] = ("group_id",),
) -> Changed | None:
    """Returns the rows that are new, and those that are gone, by some columns or by all, each with the columns `kept`;
    None if that can't be known any more."""
    added = rows_of(ledger, table, files.added, columns if files.removed else kept)
    removed = rows_of(ledger, table, files.removed, columns)
    if added is None or removed is None:
        return None
    if files.removed:
        after, before = _texts(added), _texts(removed)
        added = added.filter(pc.invert(pc.is_in(after, before)))
        removed = removed.filter(pc.invert(pc.is_in(before, after)))
    return added.select(kept), removed.select(kept)


def groups_in(rows: pa.Table) -> set[str]:
    """Returns the names of the groups that rows are about."""
    return {each for each in pc.unique(rows["group_id"]).to_pylist() if each is not None}


def are_same(some: pa.Table, others: pa.Table) -> bool:
    """Returns whether two tables have the same rows, in any order."""
    return Counter(_texts(some).to_pylist()) == Counter(_texts(others).to_pylist())


def _texts(rows: pa.Table) -> pa.ChunkedArray:
    """Returns each row as a text: equal rows have equal ones."""
    if not rows.num_rows:
        return pa.chunked_array([], pa.string())
    texts = [pc.fill_null(_text(column), "\x00") for column in rows.columns]
    return pc.binary_join_element_wise(*texts, "\x1f")


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return pa.chunked_array([[None if each is None else repr(each) for each in column.to_pylist()]], pa.string())
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return whole.cast(pa.string())
