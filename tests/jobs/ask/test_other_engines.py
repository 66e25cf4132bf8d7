"""Goal: delta-rs reads every table, DuckDB the files that delta-rs lists, and an instant is the same in all engines."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from importlib import resources
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.transforms.offsets.offset_commits import offset_commits
from lab.warehouses.ledgers import make_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

FAR_FROM_UTC = "Asia/Kolkata"
READ_BY_THE_VIEW = (
    *("coordinator_records", "generations", "assignments", "members", "member_epochs", "groups", "coverage"),
)


@pytest.fixture
def far_from_utc(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of this host, to Python and to Spark's JVM."""
    jvm: Any = spark.sparkContext._jvm
    before = jvm.java.util.TimeZone.getDefault()
    with monkeypatch.context() as patched:
        patched.setenv("TZ", FAR_FROM_UTC)
        time.tzset()
        jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone(FAR_FROM_UTC))
        yield
        jvm.java.util.TimeZone.setDefault(before)
    time.tzset()


@pytest.fixture(scope="module")
def warehouse(filled_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with all tables there are, those too that no job has filled yet."""
    copy = tmp_path_factory.mktemp("engines") / "warehouse"
    shutil.copytree(filled_warehouse, copy)
    for table in all_tables():
        make_tables(copy, table)
    return copy


def opened(warehouse: Path, table: Table) -> DeltaTable:
    return DeltaTable(str(warehouse / table.name))


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_delta_rs_reads_every_table(spark: SparkSession, warehouse: Path, table: Table) -> None:
    """Goal: the oldest protocol, all rows and columns, and the comments of the table and of each column in Delta."""
    there = opened(warehouse, table)
    assert (there.protocol().min_reader_version, there.protocol().min_writer_version) == (1, 2)
    assert there.metadata().description == table.comment
    comments = {field.name: field.metadata.get("comment") for field in there.schema().fields}
    assert comments == {field.name: field.metadata["comment"] for field in table.schema}
    assert there.to_pyarrow_table().num_rows == Tables(spark, str(warehouse)).rows(table).count()


@pytest.mark.usefixtures("far_from_utc")
def test_one_instant(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """Goal: written and read on a host that is not in UTC, each engine sees the same instants."""
    rows = Tables(spark, str(warehouse)).rows(ASSIGNMENTS)
    rows.write.format("delta").partitionBy(*ASSIGNMENTS.partition_columns).save(str(tmp_path / ASSIGNMENTS.name))
    there = opened(tmp_path, ASSIGNMENTS)
    by_spark = Tables(spark, str(tmp_path)).rows(ASSIGNMENTS).selectExpr("unix_micros(valid_from)").toArrow()
    by_delta_rs = there.to_pyarrow_table(columns=["valid_from"])["valid_from"].cast("int64")
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{FAR_FROM_UTC}'")
    files = connection.read_parquet(there.file_uris())
    by_duckdb = files.project("epoch_us(valid_from)").fetchall()
    expected = Counter(by_spark.column(0).to_pylist())
    assert Counter(by_delta_rs.to_pylist()) == expected
    assert Counter(row[0] for row in by_duckdb) == expected
    assert len(expected) > 10


def test_the_view_of_commits(spark: SparkSession, warehouse: Path) -> None:
    """Goal: `offset_commits` in plain SQL gives in Spark and in DuckDB the rows of the transform."""
    text = (resources.files("groupledger.schemas") / "views" / "offset_commits.sql").read_text()
    tables = {table.name: table for table in all_tables()}
    frames = [Tables(spark, str(warehouse)).rows(tables[name]) for name in READ_BY_THE_VIEW]
    view = offset_commits(*frames)
    expected = Counter(map(repr, view.selectExpr(*compared("unix_micros(kafka_timestamp)")).toArrow().to_pylist()))
    for name, frame in zip(READ_BY_THE_VIEW, frames, strict=True):
        frame.createOrReplaceTempView(name)
    by_spark = spark.sql(text)
    assert by_spark.columns == view.columns
    found = by_spark.selectExpr(*compared("unix_micros(kafka_timestamp)")).toArrow().to_pylist()
    assert Counter(map(repr, found)) == expected
    connection = duckdb.connect()
    for name in READ_BY_THE_VIEW:
        if files := opened(warehouse, tables[name]).file_uris():
            connection.read_parquet(files, hive_partitioning=True).create_view(name)
        else:
            connection.register(name, schema_of(name).empty_table())
    by_duckdb = connection.sql(text).project(", ".join(compared("epoch_us(kafka_timestamp)")))
    assert Counter(map(repr, by_duckdb.to_arrow_table().to_pylist())) == expected
    assert sum(expected.values()) > 1_000


def compared(instant: str) -> list[str]:
    """Columns in a form that all engines print alike."""
    return [
        *("cluster", "kafka_partition", "kafka_offset", f"{instant} AS kafka_micros", "group_id", "topic", "partition"),
        *("committed_offset", "leader_epoch", "metadata", "topic_id", "commit_timestamp_ms", "incarnation"),
        *("committer_generation", "owner", "owner_attribution", "regression"),
    ]
