"""The Delta tables of a warehouse: where they lie, how they are made, whether they are there.

A table is made once, from its file in `schemas/tables`, with its comments, partitioning and properties. One that is
there already must have all the columns of its file; more are no harm, since schemas only grow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.errors import InputError
from groupledger.schemas.tables.all_tables import all_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    return spark.read.format("delta").load(table_path(warehouse, table))


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
    """Make the table if it is not there. Raises InputError if it is there with other columns."""
    from delta.tables import DeltaTable

    if table_exists(spark, warehouse, table):
        check_schema(read_table(spark, warehouse, table), table)
        return
    builder = DeltaTable.createIfNotExists(spark).location(table_path(warehouse, table)).comment(table.comment)
    for field in table.schema:
        builder = builder.addColumn(field.name, field.dataType, comment=field.metadata.get("comment"))
    for key, value in table.properties.items():
        builder = builder.property(key, value)
    builder.partitionedBy(*table.partition_columns).execute()


def check_schema(found: DataFrame, table: Table) -> None:
    types = dict(found.dtypes)
    wrong = [field.name for field in table.schema if types.get(field.name) != field.dataType.simpleString()]
    if wrong:
        raise InputError(
            f"The table {table.name} was written by another version of groupledger: its columns {', '.join(wrong)} are"
            " missing or of another type. Use that version, or another warehouse."
        )
