"""Writes rows into Delta tables by key.

A table whose rows end (`Table.end_column`) is written without reading rows that ended long ago. An upsert only ever
matches two kinds of row: open ones, and ones that an interrupted run of the same batch had ended. The latter ended no
earlier than any row of the batch. Delta's statistics on the end column exclude the files of all other rows, so the cost
does not grow with the history. Open rows lie in files of their own (`is_open`), whose size depends on the present
groups only. In a table with a `fixed_time_column`, files from before the earliest new row are excluded in the same way.

Few rows are merged from the driver. If there are more rows than the driver can hold, Spark's tasks write them if the
cluster has no rows in the table yet; otherwise they are merged slice by slice.

Rows that do not conform to their table fail before anything is written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.warehouse.commits import ROWS_PER_MERGE, ChangedMeanwhileError, as_new
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.task_files import write_files, write_here
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.table import IS_CARRIED_OVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.warehouse.commits import NumberedBatch
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table


ATTEMPTS = 3


def upsert(ledger: Ledger, table: Table, rows: DataFrame, count: int | None = None) -> None:
    """Upserts rows. Each key must be unique, and no `fixed_time_column` may be null. `count` is the number of rows; it
    must be given if the driver may not be able to hold them all."""
    rows = conform(rows, table)
    slices = -(-(count or 0) // ROWS_PER_MERGE)
    if slices <= 1:
        upsert_arrow(ledger, table, rows.toArrow())
    elif is_empty(ledger, table):
        ledger.commits.add_files(table, write_files(rows, table, ledger.warehouse))
    else:
        for number in range(slices):
            of_slice = F.pmod(F.xxhash64(*table.key), F.lit(slices)) == number
            upsert_arrow(ledger, table, rows.where(of_slice).toArrow())


def upsert_arrow(ledger: Ledger, table: Table, rows: pa.Table) -> None:
    """Upserts rows that are in memory."""
    rows = of_table(rows, table)
    if not rows.num_rows:
        return
    if is_empty(ledger, table):
        ledger.commits.append(table, rows)
        return
    condition = f"old.cluster = '{ledger.cluster}' AND {within_reach(table, earliest_us(rows, table))}"
    # A row that was carried over stays so, whatever ends it.
    updates = as_new(name for name in table.schema.names if name not in (*table.key, IS_CARRIED_OVER.name))
    ledger.commits.merge(table, rows, condition, updates=updates)


def of_table(rows: pa.Table, table: Table) -> pa.Table:
    """Returns the rows with the columns and types of their table. Raises pyarrow's error for rows that do not fit."""
    schema = arrow_schema(table.schema)
    return rows.select(schema.names).cast(schema)


def of_rows(rows: Sequence[tuple[Any, ...]], table: Table) -> pa.Table:
    """Returns rows, each a tuple in the order of the table's columns, as an Arrow table."""
    schema = arrow_schema(table.schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def is_empty(ledger: Ledger, table: Table) -> bool:
    """Returns whether the cluster has no rows in the table."""
    return not ledger.commits.open(table).partitions(file_pruning_predicate=[("cluster", "=", ledger.cluster)])


def within_reach(table: Table, since_us: int | None) -> str:
    """Returns the SQL condition for those rows of the table (as `old`) that an upsert can match if its earliest row is
    at `since_us`, in microseconds since the epoch; see `earliest_us`."""
    column = bounding_column(table)
    if column is None:
        return "true"
    is_late = "false" if since_us is None else f"old.{column} >= to_timestamp_micros({since_us:d})"
    return is_late if table.end_column is None else f"(old.is_open = 1 OR {is_late})"


def bounding_column(table: Table) -> str | None:
    return table.end_column or table.fixed_time_column


def earliest_us(rows: pa.Table, table: Table) -> int | None:
    """Returns the earliest time of the rows in `bounding_column`, in microseconds since the epoch. Returns None if the
    table has no such column, or if all times are null."""
    column = bounding_column(table)
    if column is None:
        return None
    found: int | None = pc.min(rows.column(column).cast(pa.int64())).as_py()
    return found


def replace_cluster(ledger: Ledger, table: Table, rows: DataFrame, batch: NumberedBatch | None = None) -> bool:
    """Replaces the cluster's rows of a table in one commit. Returns False, and changes nothing, if the table has this
    batch already."""
    files = write_files(conform(rows, table), table, ledger.warehouse)
    return ledger.commits.replace_with_files(table, ledger.cluster, files, batch)


def replace_cluster_arrow(ledger: Ledger, table: Table, rows: pa.Table) -> None:
    """Replaces the cluster's rows of a table by rows that are in memory, in one commit."""
    ledger.commits.replace_with_files(table, ledger.cluster, write_here(rows.combine_chunks(), table, ledger.warehouse))


def replace_changed(ledger: Ledger, table: Table, rows: pa.Table, scope: pc.Expression | None = None) -> int:
    """Replaces the cluster's rows, or those in a scope, by rows that are in memory, in one commit that writes only the
    differences; returns how many rows differ. If none differ, it makes no commit.

    Files with rows that have changed or are gone are replaced by two: one with their unchanged rows, which later calls
    will rarely replace, and one with the new rows, which will probably change the next time, too. If a maintenance has
    merged the files meanwhile, the comparison is repeated.
    """
    for _ in range(ATTEMPTS):
        with suppress(ChangedMeanwhileError):
            return _replace_changed(ledger, table, of_table(rows, table), scope)
    return _replace_changed(ledger, table, of_table(rows, table), scope)


def _replace_changed(ledger: Ledger, table: Table, rows: pa.Table, scope: pc.Expression | None) -> int:
    is_ours = pc.field("cluster") == ledger.cluster
    is_meant = is_ours if scope is None else is_ours & scope
    files = dataset(ledger.warehouse, table, condition=is_meant)
    fragments = list(files.get_fragments(is_meant))
    every = [
        of_table(pa.Table.from_batches(each.to_batches(schema=files.schema), files.schema), table) for each in fragments
    ]
    found = every if scope is None else [each.filter(is_meant) for each in every]
    before = pa.concat_tables([rows.schema.empty_table(), *found])
    is_same = _is_same(rows, before, table)
    same = _keys(rows.filter(is_same), table)
    keys = (_keys(each, table) for each in found)
    outdated = [each.filter(pc.invert(pc.is_in(each, same))) for each in keys]
    if pc.all(is_same).as_py() is not False and not any(map(len, outdated)):
        return 0
    old, kept = [], [rows.schema.empty_table()]
    for fragment, of_file, gone in zip(fragments, every, outdated, strict=True):
        if len(gone):
            old.append(fragment.path)
            kept.append(of_file.filter(pc.invert(pc.is_in(_keys(of_file, table), gone))))
    changed = rows.filter(pc.invert(is_same))
    new = [
        file
        for each in (pa.concat_tables(kept), changed)
        if each.num_rows
        for file in write_here(each.combine_chunks(), table, ledger.warehouse)
    ]
    ledger.commits.replace_files(table, old, new)
    is_gone = pc.invert(pc.is_in(_keys(before, table), _keys(rows, table)))
    return int(changed.num_rows + before.filter(is_gone).num_rows)


def _is_same(rows: pa.Table, before: pa.Table, table: Table) -> pa.ChunkedArray:
    """Returns for each row whether `before` has an equal row with the same key."""
    place = pc.index_in(_keys(rows, table), _keys(before, table))
    is_same = pc.is_valid(place)
    of_before = before.take(place)
    for name in rows.column_names:
        one, other = rows[name], of_before[name]
        if pa.types.is_nested(one.type):
            is_equal = pa.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], pa.bool_())
        else:
            both_null = pc.and_(pc.is_null(one), pc.is_null(other))
            is_equal = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
        is_same = pc.and_(is_same, is_equal)
    return is_same


def _keys(rows: pa.Table, table: Table) -> pa.ChunkedArray:
    """Returns the key of each row of a cluster: the one column of the key that is not `cluster`."""
    _, name = table.key
    return rows[name]


def insert(ledger: Ledger, table: Table, rows: DataFrame, is_near: Column) -> None:
    """Adds the rows whose key is not in the table yet. `is_near` must hold for every row of the table that may have
    such a key."""
    known = ledger.rows(table).where(is_near).select(*table.key)
    new = conform(rows, table).join(known, list(table.key), "left_anti")
    files = write_files(conform(new, table), table, ledger.warehouse)
    if files:
        ledger.commits.add_files(table, files)


def append(ledger: Ledger, table: Table, rows: DataFrame, batch: NumberedBatch) -> None:
    """Appends the rows of a batch, unless the table has this batch already."""
    ledger.commits.add_files(table, write_files(conform(rows, table), table, ledger.warehouse), batch)
