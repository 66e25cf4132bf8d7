"""Goal: after an upsert a table has the rows that Spark gave, whether they are its first rows or not."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.jobs.warehouse.upsert import upsert
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.generations import GENERATIONS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def generation(number: int) -> dict[str, Any]:
    at = datetime(2026, 1, 1, 12, number, tzinfo=timezone.utc)
    key = {"cluster": "test", "group_id": "g", "incarnation": 1, "generation": number, "revision": 0}
    return {**key, "kafka_offset": number, "started_at": at, "changes": [], "is_open": 1}


def test_lists_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: rows none of whose lists has an element, which hold lists in turn: Java writes these without the one offset
    that an array of no lists has, and delta-rs reads it where nothing is."""
    with open_test_ledger(spark, tmp_path) as ledger:
        ledger.create(GENERATIONS)
        for numbers in ((1, 2), (2, 3)):  # the first rows of a table are appended, others merged
            rows = pa.Table.from_pylist([generation(each) for each in numbers], arrow_schema(GENERATIONS.schema))
            upsert(ledger, GENERATIONS, spark.createDataFrame(rows, GENERATIONS.schema))
        found = ledger.rows(GENERATIONS).select("generation", "changes").orderBy("generation").collect()
    assert [tuple(row) for row in found] == [(1, []), (2, []), (3, [])]
