"""Creates the Delta tables of a warehouse, and brings older ones to today's definition.

A table is created from its file in `schemas/tables`, with its comments, partitioning and properties. A job that writes
first brings all older tables of the warehouse to today's definition (`migrate`). A job that only reads changes nothing,
and sees nulls in the columns that an older table lacks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.migrate import plan
from groupledger.jobs.warehouse.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.migrate import Plan
    from groupledger.schemas.tables.table import Table


def create_table(spark: SparkSession, warehouse: str, table: Table) -> None:
    """Makes the table if it is not there, or brings it to today's columns and properties if it is older.

    Raises InputError if a table can't be brought there.
    """
    from delta.tables import DeltaTable

    tables = Tables(spark, warehouse)
    if tables.exists(table):
        if plan_for(tables, table).is_needed:
            migrate(tables)
        return
    builder = DeltaTable.createIfNotExists(spark).location(tables.path(table)).comment(table.comment)
    for field in table.schema:
        builder = builder.addColumn(field.name, field.dataType, comment=field.metadata.get("comment"))
    for key, value in table.properties.items():
        builder = builder.property(key, value)
    builder.partitionedBy(*table.partition_columns).execute()


def migrate(tables: Tables) -> None:
    """Brings all tables that are there to today's columns and properties. Raises InputError before the first is changed
    if one of them can't be brought there."""
    plans = {table: plan_for(tables, table) for table in tables.existing()}
    for table, needed in plans.items():
        if needed.refused:
            raise InputError(
                f"The table {table.name} was written by another version of groupledger, and can't be brought to this"
                f" one: {'; '.join(needed.refused)}. Use that version, or another warehouse."
            )
    for needed in plans.values():
        for statement in needed.statements:
            tables.spark.sql(statement)


def plan_for(tables: Tables, table: Table) -> Plan:
    """Returns what brings a table that is there to today's definition."""
    metadata = json.loads(tables.snapshot(table).metadata().json())["metaData"]
    return plan(metadata, table, tables.path(table))
