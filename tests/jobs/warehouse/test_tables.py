"""Goal: reading makes no table; a missing table is an empty frame, or a sentence with the remedy."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as T

from groupledger.jobs.process.clock import DAY_MS, now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse import delta_log
from groupledger.jobs.warehouse.delta_log import few_rows, last_transaction
from groupledger.jobs.warehouse.ledger import first_day_ms, known_positions, records_since
from groupledger.jobs.warehouse.tables import ClusterTables, Tables, every_row, frame_of, is_null
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.tables import Condition

pytestmark = pytest.mark.spark


def test_reading_makes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: questions about an empty warehouse leave it empty; a ledger makes the tables that it is asked to make."""
    warehouse = tmp_path / "warehouse"
    with open_test_ledger(spark, warehouse) as ledger:
        with pytest.raises(InputError, match="has no tables: check the path"):
            ledger.rows(GROUPS)
        nothing = ledger.rows_if_any(GROUPS)
        assert (nothing.schema, nothing.count()) == (GROUPS.schema, 0)
        assert known_positions(ledger) == {}
        assert last_transaction(ledger.warehouse, LAG, "any") is None
        assert [path.name for path in warehouse.iterdir()] == ["_groupledger"]
        ledger.create(COVERAGE)
        assert ledger.existing() == [COVERAGE]
        with pytest.raises(InputError, match="has no table groups yet: run `groupledger history` first"):
            ledger.rows(GROUPS)


def test_a_clock_that_was_ahead(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: rows that were ingested after those of a day to come are found, and no such day is kept."""
    today = now_ms() // DAY_MS
    with open_test_ledger(spark, tmp_path) as ledger:
        ledger.create(COORDINATOR_RECORDS)
        schema = arrow_schema(COORDINATOR_RECORDS.schema)
        for day in (today - 9, today + 365, today):
            row = {"cluster": "test", "ingest_date": day, "kafka_partition": 0, "kafka_offset": day}
            ledger.commits.append(COORDINATOR_RECORDS, pa.Table.from_pylist([row], schema))
        found = {
            since: sorted(row["kafka_offset"] - today for row in records_since(ledger, since).collect())
            for since in (None, (today - 1) * DAY_MS, (today + 365) * DAY_MS)
        }
    assert list(found.values()) == [[-9, 0, 365], [0, 365], [-9, 0, 365]]
    assert first_day_ms(None, None) is None
    assert [first_day_ms(None, day) for day in (today - 9, today + 365)] == [(today - 9) * DAY_MS, today * DAY_MS]


def test_rows_of_one_cluster_and_of_all(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a cluster sees its own rows, as they are and as they were, and knows whether it has any."""
    with open_test_ledger(spark, tmp_path, "east") as ledger:
        assert not ledger.has_rows(COVERAGE)
        ledger.create(COVERAGE)
        assert not ledger.has_rows(COVERAGE)
        made = ledger.version(COVERAGE)
        rows = [(cluster, 0, 0, 5, None, None, "complete", "no_gap", False) for cluster in ("east", "west")]
        frame = spark.createDataFrame(rows, COVERAGE.schema)
        frame.write.format("delta").mode("append").save(ledger.path(COVERAGE))
        assert [row.cluster for row in ledger.rows(COVERAGE).collect()] == ["east"]
        assert ledger.rows(COVERAGE, made).count() == 0
        assert ledger.version(COVERAGE) == made + 1
        assert ledger.has_rows(COVERAGE)
    assert Tables(spark, str(tmp_path)).rows(COVERAGE).count() == len(rows)
    north = ClusterTables(spark, str(tmp_path), "north")
    assert north.rows_if_any(COVERAGE).isEmpty()
    assert not north.has_rows(COVERAGE)


DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SAMPLES = ((-13, 1), (-12, 2), (0, None), (1, 2), (12, 3))  # hours from noon, and a last stable offset
CONDITIONS: dict[str, Condition] = {
    "every row": every_row,
    "an instant": lambda column: column("sampled_at") > NOON,
    "a date and an instant": lambda column: (column("sample_date") >= DAY) & (column("sampled_at") <= NOON),
    "null or a number": lambda column: is_null(column("last_stable_offset")) | (column("last_stable_offset") == 2),
    "a null is neither": lambda column: ~(column("last_stable_offset") == 2),
    "names": lambda column: column("topic").isin(["s", "t"]) & column("last_stable_offset").isin([2]),
    "none": lambda column: column("sample_date") > date(2027, 1, 1),
    "no row": lambda _: False,
}


@pytest.fixture(scope="module")
def sampled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose table of samples lacks a column of today, with rows of two clusters."""
    path = tmp_path_factory.mktemp("sampled")
    rows = [
        (cluster, at, "t", 0, 0, 9, stable, 0, None, at.date())
        for cluster in ("east", "west")
        for at, stable in ((NOON + timedelta(hours=hours), stable) for hours, stable in SAMPLES)
    ]
    schema = T.StructType(
        [WATERMARKS.schema[name] for name in WATERMARKS.schema.names if name not in ("topic_id", "markers_at_end")]
    )
    for one in rows:
        frame = spark.createDataFrame([one], schema)
        writer = frame.coalesce(1).write.format("delta").partitionBy(*WATERMARKS.partition_columns).mode("append")
        writer.save(str(path / WATERMARKS.name))
    return path


@pytest.mark.parametrize("name", CONDITIONS)
def test_few_rows_and_many(spark: SparkSession, sampled: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Goal: rows that are read without Spark are those that Spark reads, with the columns of today, also where there
    are nulls, other dates and other clusters."""
    tables, condition = ClusterTables(spark, str(sampled), "east"), CONDITIONS[name]
    here = tables.rows_within(WATERMARKS, condition)
    monkeypatch.setattr(delta_log, "FEW_ROWS", -1)
    by_spark = tables.rows_within(WATERMARKS, condition)
    assert here.schema == by_spark.schema == WATERMARKS.schema
    assert sorted(here.collect()) == sorted(by_spark.collect())
    expected = {"an instant": 2, "a date and an instant": 2, "null or a number": 3, "a null is neither": 2, "names": 2}
    assert here.count() == (expected | {"none": 0, "no row": 0}).get(name, 5)


def test_rows_of_a_version(spark: SparkSession, sampled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: both engines read the rows that an earlier version had."""
    tables = ClusterTables(spark, str(sampled), "east")
    few = tables.rows_within(WATERMARKS, every_row, 2)
    monkeypatch.setattr(delta_log, "FEW_ROWS", -1)
    many = tables.rows_within(WATERMARKS, every_row, 2)
    assert sorted(few.collect()) == sorted(many.collect())
    assert few.count() == 3


def test_no_rows(spark: SparkSession) -> None:
    """Goal: a table without rows becomes an empty frame, whatever types it has."""
    for table in all_tables():
        assert frame_of(spark, arrow_schema(table.schema).empty_table()).isEmpty()


def test_no_batch_is_the_end(spark: SparkSession) -> None:
    """Goal: rows after an empty batch of Arrow are there."""
    schema = pa.schema([("number", pa.int64())])
    batches = [pa.RecordBatch.from_pydict({"number": numbers}, schema) for numbers in ([], [], [1], [], [2, 3], [])]
    assert [row.number for row in frame_of(spark, pa.Table.from_batches(batches)).collect()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("limit", "value"), [("FEW_ROWS", 4), ("FEW_FILES", 4), ("FEW_BYTES", 10_000), ("FILES_LOOKED_AT_MAX", 9)]
)
def test_what_is_many(sampled: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """Goal: more rows or files than are read at once, or than are looked at, are left to Spark."""
    assert few_rows(str(sampled), WATERMARKS, pc.field("cluster") == "east") is not None
    monkeypatch.setattr(delta_log, limit, value)
    assert few_rows(str(sampled), WATERMARKS, pc.field("cluster") == "east") is None
