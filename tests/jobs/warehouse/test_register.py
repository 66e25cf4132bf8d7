"""Goal: tables are registered only where somebody finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process import session
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.register import OF_A_METASTORE, check_database, check_metastore, register_tables
from groupledger.schemas.tables.group_states import GROUP_STATES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("database", "catalog"),
    [("ledger", "spark_catalog"), ("main.ledger", "main"), ("spark_catalog.ledger", "spark_catalog")],
)
def test_a_name(database: str, catalog: str) -> None:
    """Goal: a database may be in a catalog."""
    assert check_database(database) == catalog


@pytest.mark.parametrize("database", ["", ".", "a.", ".a", "a.b.c", "a; DROP", "a.b; DROP", "`a`"])
def test_no_name(database: str) -> None:
    """Goal: a text that is no name, or that has more parts than a catalog and a schema, is refused."""
    with pytest.raises(InputError, match=r"catalog\.schema"):
        check_database(database)


@pytest.mark.spark
def test_without_a_metastore(tmp_path: Path) -> None:
    """Goal: the command refuses with the remedy, and makes no database of its own in the working directory."""
    command = [sys.executable, "-m", "groupledger.jobs.cli.main", "register", "--warehouse", str(tmp_path / "none")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAVA_TOOL_OPTIONS": session.SHORT_LIVED}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give --metastore thrift://HOST:PORT" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", OF_A_METASTORE)
def test_a_metastore_is_reported(spark: SparkSession, key: str) -> None:
    """Goal: a metastore in hive-site.xml or in the settings of a submitted job is enough; so is a catalog that Spark
    knows."""
    known = spark.sparkContext._jsc.hadoopConfiguration()
    known.set(key, "given")
    try:
        check_metastore(spark, "ledger")
    finally:
        known.unset(key)
    with pytest.raises(InputError, match="Nothing says where the metastore is"):
        check_metastore(spark, "ledger")
    with pytest.raises(InputError, match=r"set spark\.sql\.catalog\.other"):
        check_metastore(spark, "other.ledger")
    spark.conf.set("spark.sql.catalog.other", "given")
    try:
        check_metastore(spark, "other.ledger")
    finally:
        spark.conf.unset("spark.sql.catalog.other")


def test_a_schema_of_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: the tables are found by catalog, schema and name; a second time changes nothing."""
    spark.createDataFrame([], GROUP_STATES.schema).write.format("delta").save(str(tmp_path / GROUP_STATES.name))
    try:
        for _ in range(2):
            assert register_tables(spark, str(tmp_path), "spark_catalog.registered") == [GROUP_STATES.name]
        assert spark.table(f"spark_catalog.registered.{GROUP_STATES.name}").count() == 0
    finally:
        spark.sql("DROP DATABASE registered CASCADE")
