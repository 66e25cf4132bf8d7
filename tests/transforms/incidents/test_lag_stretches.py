"""Goal: rounds of the same trouble are one stretch, in one look or in two, and a stretch that ended too soon is not
kept."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.words import LagStatus
from groupledger.transforms.incidents.lag_stretches import COLUMNS, joined, lag_stretches, still_needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
BEGAN_AT_MS = round(BEGAN_AT.timestamp() * 1_000)
SHORTEST_MS = {LagStatus.WAITING_FOR_TRANSACTION: 120_000, LagStatus.AHEAD_OF_LOG: 30_000}


def row(second: int, status: str, committed: int, stable: int, end: int, partition: int = 0) -> dict[str, Any]:
    return {
        **dict.fromkeys(LAG.schema.names),
        "sampled_at": BEGAN_AT + timedelta(seconds=second),
        "group_id": "g",
        "topic": "orders",
        "partition": partition,
        "status": status,
        "committed_offset": committed,
        "last_stable_offset": stable,
        "high_watermark": end,
    }


def test_stretches(spark: SparkSession) -> None:
    waiting, ahead = LagStatus.WAITING_FOR_TRANSACTION, LagStatus.AHEAD_OF_LOG
    rows = [
        *(row(second, waiting, 54, 54, 60 + second) for second in (0, 60, 130)),
        row(10, waiting, 54, 54, 60, 1),
        row(70, LagStatus.OK, 90, 90, 90, 1),
        row(130, waiting, 90, 90, 99, 1),
        *(row(second, ahead, 5_000, second, second, 2) for second in (0, 130)),
        *(row(second, ahead, 5_000, 3, 3, 3) for second in (0, 20)),
    ]
    lag = spark.createDataFrame(rows, LAG.schema)
    last_ms = BEGAN_AT_MS + 130_000
    cut = BEGAN_AT + timedelta(seconds=65)
    halves = [lag_stretches(lag.where(lag.sampled_at <= cut)), lag_stretches(lag.where(lag.sampled_at > cut))]
    for found in (lag_stretches(lag), joined(halves[0].unionByName(halves[1]))):
        reported = {tuple(each) for each in still_needed(found, last_ms, SHORTEST_MS).select(*COLUMNS[2:]).collect()}
        assert reported == {
            (0, waiting, 54, 54, 190, BEGAN_AT_MS, last_ms),
            (1, waiting, 90, 90, 99, last_ms, last_ms),
            (2, ahead, 5_000, None, 130, BEGAN_AT_MS, last_ms),
        }
