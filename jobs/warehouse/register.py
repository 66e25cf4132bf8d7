"""`groupledger register` enters the tables of a warehouse by name into a Hive metastore.

An entry has only the table's location and format. Schema, comments and properties stay in Delta's log, and groupledger
never reads the metastore, so dropping the database there loses nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIVE = {"spark.sql.catalogImplementation": "hive"}


def register_tables(spark: SparkSession, warehouse: str, database: str) -> list[str]:
    """Registers the tables; returns their names. Raises InputError if the metastore has another table of one's name."""
    if not database.isidentifier():
        raise InputError(f"{database!r} can't be a database: use letters, digits and underscores.")
    tables = Tables(spark, warehouse)
    found = tables.existing()
    # The name was checked to be an identifier, so the SQL can't mean anything else.
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    for table in found:
        add(spark, f"{database}.{table.name}", location(tables.path(table)))
    return [table.name for table in found]


def add(spark: SparkSession, name: str, path: str) -> None:
    if not spark.catalog.tableExists(name):
        try:
            spark.catalog.createTable(name, path=path, source="delta")
        except AnalysisException as error:
            raise InputError(f"{name} can't be registered: {printable(str(error).splitlines()[0])}") from error
        return
    from delta.tables import DeltaTable

    (there,) = DeltaTable.forName(spark, name).detail().select("location").collect()
    if there.location != path:
        raise InputError(f"{name} is another table already, at {printable(there.location)}: give another --database.")


def location(path: str) -> str:
    """Returns the path as Delta writes it."""
    on_disk = local_path(path)
    return path if on_disk is None else f"file:{Path(on_disk).resolve()}"
