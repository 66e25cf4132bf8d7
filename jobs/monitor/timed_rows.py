"""Reads rows of a cluster's tables for the monitor without Spark, with instants as integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from groupledger.jobs.warehouse.tables import ClusterTables
    from groupledger.schemas.tables.table import Table


def rows_with_times(
    tables: ClusterTables, table: Table, condition: pc.Expression, columns: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Returns the rows of a table that meet `condition`, with their times as microseconds since 1970; an empty list if
    the table does not exist."""
    if not tables.exists(table):
        return []
    rows = tables.arrow(table, condition, columns)
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(number, field.name, rows.column(number).cast(pa.int64()))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found
