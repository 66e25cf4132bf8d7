"""Rows into Delta tables by key.

A table whose rows end (`Table.end_column`) is written without a look at what ended long ago: an upsert only ever meets
a row that is open, or one that the same batch had ended before it was cut short, which ended no earlier than any row
of the batch. Delta's statistics on the ending leave out the files of all others, so that the cost does not grow with
the history. `is_open` keeps the open rows in files of their own, which are as small as the groups are now. Of a table
with a `fixed_time_column`, what lies before the earliest of the rows is left out in the same way.

What is written conforms: rows that are not those of their table fail before anything is written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.tables.table import IS_CARRIED_OVER
from groupledger.transforms.conform import conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.warehouse.tables import ClusterTables, Tables
    from groupledger.schemas.tables.table import Table


def upsert(tables: Tables, table: Table, rows: DataFrame, earliest_us: int | None = None) -> None:
    """Writes rows that have each key once, and a time in `fixed_time_column`. `earliest_us` is what `earliest` finds in
    them, or before that; a table without a `bounding_column` needs none."""
    rows = conform(rows, table)
    tables = replace(tables, spark=rows.sparkSession)  # a micro-batch has a session of its own
    if tables.snapshot(table).numOfFilesIfKnown().contains(0):
        rows.write.format("delta").mode("append").save(tables.path(table))
        return
    condition = reduce(and_, [F.col(f"old.{name}") == F.col(f"new.{name}") for name in table.key])
    old = tables.delta(table).alias("old")
    merge = old.merge(rows.alias("new"), condition & within_reach(table, earliest_us))
    # A row that was carried over stays so, whatever ends it.
    changes: dict[str, str | Column] = {
        name: F.col(f"new.{name}") for name in table.schema.names if name != IS_CARRIED_OVER.name
    }
    merge.whenMatchedUpdate(set=changes).whenNotMatchedInsertAll().execute()


def within_reach(table: Table, earliest_us: int | None) -> Column:
    """Returns the condition for rows of the table, as `old`, that an upsert of rows from that time on can meet."""
    if bounding_column(table) is None:
        return F.lit(True)
    name = f"old.{bounding_column(table)}"
    is_late = F.lit(False) if earliest_us is None else is_since(name, earliest_us)
    return is_late if table.end_column is None else F.col(name).isNull() | is_late


def is_since(name: str, time_us: int) -> Column:
    """Compares through an integer, since a Python datetime of the host's zone is ambiguous once a year."""
    return F.col(name) >= F.timestamp_micros(F.lit(time_us))


def bounding_column(table: Table) -> str | None:
    return table.end_column or table.fixed_time_column


def earliest(table: Table, prefix: str = "") -> Column:
    """Returns what to aggregate rows by: microseconds, null where there are none. `prefix` is the struct that the rows
    lie in."""
    column = bounding_column(table)
    return F.lit(None) if column is None else F.unix_micros(F.min(f"{prefix}{column}"))


def replace_cluster(tables: ClusterTables, table: Table, rows: DataFrame) -> None:
    """Replaces the cluster's rows of a table in one commit. A cluster's name holds no quote."""
    writer = conform(rows, table).write.format("delta").mode("overwrite")
    writer.option("replaceWhere", f"cluster = '{tables.cluster}'").save(tables.path(table))
