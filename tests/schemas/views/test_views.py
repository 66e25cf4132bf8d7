"""Goal: a view's SQL gives other engines the rows that its transform gives in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import groupledger.schemas
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.offsets.offset_commits import COLUMNS, offset_commits
from tests.transforms.history.history_frames import (
    compacted_group,
    cooperative_group,
    emptied_group,
    frames,
    modern_groups,
    simple_group,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

INPUTS = (COORDINATOR_RECORDS, GENERATIONS, ASSIGNMENTS, MEMBERS, MEMBER_EPOCHS, GROUPS, COVERAGE)
OFFSET_COMMITS_SQL = (Path(groupledger.schemas.__file__).parent / "views" / "offset_commits.sql").read_text(
    encoding="utf-8"
)

Tables = dict["Table", "DataFrame"]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Of its own, since it gives names to tables."""
    return spark.newSession()


@pytest.fixture(scope="module")
def tables(session: SparkSession) -> Tables:
    return frames(session, cooperative_group(), compacted_group(), simple_group(), emptied_group(), *modern_groups())


@pytest.fixture(scope="module")
def expected(tables: Tables) -> list[str]:
    return texts(offset_commits(*(tables[table] for table in INPUTS)))


def texts(rows: DataFrame) -> list[str]:
    """With the instant in microseconds, so that no client's time zone is asked."""
    with_micros = rows.selectExpr(*(f"unix_micros({name})" if name == "kafka_timestamp" else name for name in COLUMNS))
    return sorted(str(tuple(row)) for row in with_micros.collect())


def test_offset_commits_in_spark(session: SparkSession, tables: Tables, expected: list[str]) -> None:
    """Goal: the text is one query, and Spark SQL gives the transform's rows and columns for it."""
    for table in INPUTS:
        tables[table].createOrReplaceTempView(table.name)
    found = session.sql(OFFSET_COMMITS_SQL)
    assert tuple(found.columns) == COLUMNS
    assert texts(found) == expected
    assert len(expected) > 200


def test_offset_commits_in_duckdb(tables: Tables, expected: list[str], tmp_path: Path) -> None:
    """Goal: DuckDB gives the view's rows, too, over the tables' Parquet files."""
    with duckdb.connect() as connection:
        for table in INPUTS:
            files = tmp_path / table.name
            tables[table].write.parquet(str(files))
            connection.read_parquet(f"{files}/*.parquet").create_view(table.name)
        connection.execute(f"CREATE VIEW offset_commits AS {OFFSET_COMMITS_SQL}")
        columns = ["epoch_us(kafka_timestamp)" if name == "kafka_timestamp" else name for name in COLUMNS]
        found = connection.sql("SELECT * FROM offset_commits")
        assert tuple(found.columns) == COLUMNS
        assert sorted(str(row) for row in found.project(", ".join(columns)).fetchall()) == expected
