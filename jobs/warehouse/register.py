"""`groupledger register` enters the tables of a warehouse by name into a Hive metastore, or into a catalog of Spark's.

An entry has only the table's location and format. Schema, comments and properties stay in Delta's log, and groupledger
never reads the metastore, so dropping the database there loses nothing.

If no metastore is configured, Hive's client creates a metastore itself, a Derby database in the working directory,
where nobody would find the tables. `check_metastore` refuses this.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIVE = {"spark.sql.catalogImplementation": "hive"}
# Each of these settings names a metastore: its service, its database, or the client of another kind of metastore, such
# as AWS Glue. They come from --metastore, from hive-site.xml, or from how the job was submitted.
OF_A_METASTORE = ("hive.metastore.uris", "javax.jdo.option.ConnectionURL", "hive.metastore.client.factory.class")
SESSION_CATALOG = "spark_catalog"


def check_database(database: str) -> str:
    """Returns the catalog of a database, which may be written as `schema` or `catalog.schema`. Raises InputError for an
    invalid name."""
    catalog, dot, schema = database.rpartition(".")
    if not schema.isidentifier() or (dot and not catalog.isidentifier()):
        raise InputError(
            f"{database!r} can't be a database: write it as schema or catalog.schema, with letters, digits and"
            " underscores."
        )
    return catalog or SESSION_CATALOG


def check_metastore(spark: SparkSession, database: str) -> None:
    """Raises InputError if Spark has no catalog of the name that `database` begins with or, for a database without a
    catalog, if no metastore is configured."""
    catalog = check_database(database)
    if catalog != SESSION_CATALOG:
        if spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise InputError(
                f"Spark knows no catalog {catalog}: set spark.sql.catalog.{catalog}, or give a --database without one."
            )
        return
    context: Any = spark.sparkContext._jsc  # noqa: SLF001 - pyspark has no public way to Hadoop's configuration
    known = context.hadoopConfiguration()
    if not any(known.get(key) for key in OF_A_METASTORE):
        raise InputError(
            "Nothing says where the metastore is: give --metastore thrift://HOST:PORT, or put a hive-site.xml into the"
            " folder that SPARK_CONF_DIR names."
        )


def register_tables(spark: SparkSession, warehouse: str, database: str) -> list[str]:
    """Enters the existing tables of the warehouse into `database`, which it creates if necessary; returns their names.
    Raises InputError if the database has another table with one of these names."""
    check_database(database)
    tables = Tables(spark, warehouse)
    found = tables.existing()
    # The name was checked to be of identifiers, so the SQL can't mean anything else.
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
    """Returns the location of a table as Delta reports it: a local path becomes absolute, with `file:` before it."""
    on_disk = local_path(path)
    return path if on_disk is None else f"file:{Path(on_disk).resolve()}"
