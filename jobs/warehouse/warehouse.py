"""How the Delta tables of a warehouse are made.

A table is made once, from its file in `schemas/tables`, with its comments, partitioning and properties. One that is
there already must have all the columns of its file; more are no harm, since schemas only grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table


def create_table(spark: SparkSession, warehouse: str, table: Table) -> None:
    """Makes the table if it is not there. Raises InputError if it is there with other columns."""
    from delta.tables import DeltaTable

    tables = Tables(spark, warehouse)
    if tables.exists(table):
        check_schema(tables.rows(table), table)
        return
    builder = DeltaTable.createIfNotExists(spark).location(tables.path(table)).comment(table.comment)
    for field in table.schema:
        builder = builder.addColumn(field.name, field.dataType, comment=field.metadata.get("comment"))
    for key, value in table.properties.items():
        builder = builder.property(key, value)
    builder.partitionedBy(*table.partition_columns).execute()


def check_schema(found: DataFrame, table: Table) -> None:
    """Raises InputError if the table lacks columns of its file, or has them in another type."""
    types = dict(found.dtypes)
    wrong = [field.name for field in table.schema if types.get(field.name) != field.dataType.simpleString()]
    if wrong:
        raise InputError(
            f"The table {table.name} was written by another version of groupledger: its columns {', '.join(wrong)} are"
            " missing or of another type. Use that version, or another warehouse."
        )
