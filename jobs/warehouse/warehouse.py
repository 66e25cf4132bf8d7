"""The Delta tables of a warehouse: where they lie, how they are made, whether they are there.

A table is made once, from its file in `schemas/tables`, with its comments, partitioning and properties. Who writes
brings all older tables of the warehouse to today's definition first (`migrate`); who reads changes nothing, and sees
nulls in the columns that an older table lacks.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.migrate import plan, with_all_columns
from groupledger.schemas.tables.all_tables import all_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.migrate import Plan
    from groupledger.schemas.tables.table import Table


def not_a_pattern(path: str) -> str:
    """Spark's file source takes a path for a pattern: the one that fits this path only."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def table_path(warehouse: str, table: Table) -> str:
    return f"{warehouse.rstrip('/')}/{table.name}"


def table_exists(spark: SparkSession, warehouse: str, table: Table) -> bool:
    from delta.tables import DeltaTable

    return bool(DeltaTable.isDeltaTable(spark, table_path(warehouse, table)))


def read_table(spark: SparkSession, warehouse: str, table: Table) -> DataFrame:
    """Raises InputError if it is not there."""
    if not table_exists(spark, warehouse, table):
        tables_of(spark, warehouse)
        raise InputError(
            f"The warehouse {warehouse} has no table {table.name} yet: run `groupledger {table.written_by}` first."
        )
    return with_all_columns(spark.read.format("delta").load(table_path(warehouse, table)), table)


def tables_of(spark: SparkSession, warehouse: str) -> list[Table]:
    """Those that are there. Raises InputError if there is none."""
    found = [table for table in all_tables() if table_exists(spark, warehouse, table)]
    if not found:
        raise InputError(f"The warehouse {warehouse} has no tables: check the path, or run `groupledger ingest` first.")
    return found


def latest_version(spark: SparkSession, warehouse: str, table: Table) -> int:
    """Of Delta's log."""
    from delta.tables import DeltaTable

    (row,) = DeltaTable.forPath(spark, table_path(warehouse, table)).history(1).select("version").collect()
    return int(row.version)


def snapshot(spark: SparkSession, warehouse: str, table: Table) -> Any:
    """Delta's own, of a table as it is now: what Delta's Python API does not show."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to Delta's log
    session: Any = spark._jsparkSession  # noqa: SLF001 - as above
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, table_path(warehouse, table))
    return log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())


def create_table(spark: SparkSession, warehouse: str, table: Table) -> None:
    """Makes the table if it is not there, or brings it to today's columns and properties if it is older.

    Raises InputError if a table can't be brought there.
    """
    from delta.tables import DeltaTable

    if table_exists(spark, warehouse, table):
        if plan_for(spark, warehouse, table).is_needed:
            migrate(spark, warehouse)
        return
    builder = DeltaTable.createIfNotExists(spark).location(table_path(warehouse, table)).comment(table.comment)
    for field in table.schema:
        builder = builder.addColumn(field.name, field.dataType, comment=field.metadata.get("comment"))
    for key, value in table.properties.items():
        builder = builder.property(key, value)
    builder.partitionedBy(*table.partition_columns).execute()


def migrate(spark: SparkSession, warehouse: str) -> None:
    """Brings all tables that are there to today's columns and properties. Raises InputError before the first is changed
    if one of them can't be brought there."""
    plans = {table: plan_for(spark, warehouse, table) for table in tables_of(spark, warehouse)}
    for table, needed in plans.items():
        if needed.refused:
            raise InputError(
                f"The table {table.name} was written by another version of groupledger, and can't be brought to this"
                f" one: {'; '.join(needed.refused)}. Use that version, or another warehouse."
            )
    for needed in plans.values():
        for statement in needed.statements:
            spark.sql(statement)


def plan_for(spark: SparkSession, warehouse: str, table: Table) -> Plan:
    """Returns what brings a table that is there to today's definition."""
    metadata = json.loads(snapshot(spark, warehouse, table).metadata().json())["metaData"]
    return plan(metadata, table, table_path(warehouse, table))
