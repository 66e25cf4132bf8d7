"""Puts a real broker's log of groups (`tests.transforms.history.rules.consumer_groups`) into a warehouse."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from groupledger.jobs.derive.history import TABLES
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from tests.jobs.simulated_log import append, content
from tests.transforms.history.rules.consumer_groups import consumer_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    Row = dict[str, Any]

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)


def with_long_ids(text: str) -> str:
    """Gives the topic ids of the fixture the length of real ones."""
    return re.sub(r'"topic_id": "(id-\d+)"', lambda found: f'"topic_id": "{found[1]:A<22}"', text)


def log_rows(slower: int = 1, name: str = "consumer_groups") -> list[Row]:
    """Returns the rows of a log; it can be played slower."""
    rows = []
    for record in consumer_groups(name):
        fields = {name: each for name, each in record["key"].items() if name != "group_id"} | (record["value"] or {})
        rows.append(
            {
                "group_id": record["key"]["group_id"],
                "kafka_offset": record["kafka_offset"],
                "kafka_timestamp": BEGAN_AT + timedelta(milliseconds=slower * record["after_ms"]),
                "record_type": record["record_type"],
                "is_tombstone": record["value"] is None,
                "record_json": with_long_ids(json.dumps(fields)),
            }
        )
    return rows


def add(spark: SparkSession, warehouse: Path, rows: list[Row]) -> None:
    schema = COORDINATOR_RECORDS.without("cluster", "ingest_date")
    filled = [{"kafka_partition": 0, **row} for row in rows]
    append(
        spark,
        warehouse,
        spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in filled], schema),
    )


def tables_of(warehouse: Path) -> dict[str, list[str]]:
    """Returns the history; the state of a group that has nothing new still holds the ids."""
    return {each.name: content(warehouse, each) for each in TABLES if each is not OPEN_GROUPS}
