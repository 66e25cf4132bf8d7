"""Rows into Delta tables by key.

A table whose rows end (`Table.end_column`) is written without a look at what ended long ago: an upsert only ever meets
a row that is open, or one that the same batch had ended before it was cut short, which ended no earlier than any row
of the batch. Delta's statistics on the ending leave out the files of all others, so that the cost does not grow with
the history. `is_open` keeps the open rows in files of their own, which are as small as the groups are now. Of a table
with a `fixed_time_column`, what lies before the earliest of the rows is left out in the same way.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from jobs.warehouse import snapshot, table_path
from schemas.tables.table import IS_CARRIED_OVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from schemas.tables.table import Table


def upsert(warehouse: str, table: Table, rows: DataFrame) -> None:
    """`rows` have each key once, and a time in `fixed_time_column`."""
    from delta.tables import DeltaTable

    if snapshot(rows.sparkSession, warehouse, table).numOfFilesIfKnown().contains(0):
        rows.select(*table.schema.names).write.format("delta").mode("append").save(table_path(warehouse, table))
        return
    reach = within_reach(table, rows)
    if reach is None:
        return
    condition = reduce(and_, [F.col(f"old.{name}") == F.col(f"new.{name}") for name in table.key])
    old = DeltaTable.forPath(rows.sparkSession, table_path(warehouse, table)).alias("old")
    merge = old.merge(rows.alias("new"), condition & reach)
    # A row that was carried over stays so, whatever ends it.
    changes: dict[str, str | Column] = {
        name: F.col(f"new.{name}") for name in table.schema.names if name != IS_CARRIED_OVER.name
    }
    merge.whenMatchedUpdate(set=changes).whenNotMatchedInsertAll().execute()


def within_reach(table: Table, rows: DataFrame) -> Column | None:
    """Which rows of the table, as `old`, an upsert of these can meet; None if there are none to upsert."""
    if table.end_column is not None:
        ended = F.col(f"old.{table.end_column}")
        earliest = earliest_time(rows, table.end_column)
        return ended.isNull() if earliest is None else ended.isNull() | (ended >= earliest)
    if table.fixed_time_column is not None:
        earliest = earliest_time(rows, table.fixed_time_column)
        return None if earliest is None else F.col(f"old.{table.fixed_time_column}") >= earliest
    return F.lit(True)


def earliest_time(rows: DataFrame, column: str) -> Column | None:
    """As a literal. Through an integer, since a Python datetime of the host's zone is ambiguous once a year."""
    (earliest_us,) = rows.agg(F.unix_micros(F.min(column))).collect()[0]
    return None if earliest_us is None else F.timestamp_micros(F.lit(earliest_us))


def replace_cluster(warehouse: str, table: Table, cluster: str, rows: DataFrame) -> None:
    """The rows of one cluster take the place of those it has, in one commit. A cluster's name holds no quote."""
    writer = rows.select(*table.schema.names).write.format("delta").mode("overwrite")
    writer.option("replaceWhere", f"cluster = '{cluster}'").save(table_path(warehouse, table))
