"""Goal: an hour's and a day's row count a group's rebalances, and distinguish storms and flapping from normal
operation."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.history.rebalance_stats import StatsRules, rebalance_stats, touches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

MIDNIGHT = datetime(2026, 1, 5, tzinfo=timezone.utc)
RULES = StatsRules(
    storm_rebalances=4,
    storm_rebalances_per_member=2.5,
    storm_window_ms=600_000,
    flapping_tenures=2,
    flapping_tenure_ms=300_000,
    flapping_owners=3,
)


def at(minutes: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minutes)


def rebalance(group_id: str, offset: int, minutes: float, *kinds: str, **columns: Any) -> dict[str, Any]:
    row = {"cluster": "c", "group_id": group_id, "kafka_offset": offset, "to_generation": offset, "member_count": 1}
    row |= {"happened_at": at(minutes), "generation_gap": 0, "partitions_moved": 1, "pause_lower_ms": 10}
    return {**row, "changes": [{"kind": kind} for kind in kinds], **columns}


def tenure(group_id: str, client_host: str, minutes: float, left: float, **columns: Any) -> dict[str, Any]:
    row = {"cluster": "c", "group_id": group_id, "client_id": "app", "client_host": client_host, "to_offset": 999}
    return {
        **row,
        "joined_at": at(minutes),
        "left_at": at(left),
        "is_start_known": True,
        "is_end_known": True,
        **columns,
    }


# Each is named by the fact that it shows.
REBALANCED = [
    rebalance("calm", 1, 10, "group_started", "member_joined"),
    rebalance("calm", 2, 20, "member_joined", partitions_moved=3, pause_upper_ms=500),
    rebalance("calm", 3, 50, "member_left", "member_replaced", generation_gap=2),
    rebalance("calm", 4, 50.5, caused_by_generation=3),
    rebalance("calm", 5, 70, "dynamic_restart", changes=None),
    # Two storms: the first is recognized in the second hour, though it began in the first.
    *(rebalance("storm", offset, 57 + offset) for offset in range(6)),
    *(rebalance("storm", offset, 80 + offset) for offset in range(10, 14)),
    # Five members that are restarted one by one.
    *(rebalance("restart", offset, offset / 2, member_count=5) for offset in range(10)),
    # Follow-ups of follow-ups: two are the price of the first rebalance.
    *(
        rebalance("chain", offset, offset / 2, "cooperative_follow_up", caused_by_generation=1)
        for offset in range(2, 9)
    ),
    # A job that runs every five minutes, alone.
    *(rebalance("job", offset, 5 * offset, member_count=offset % 2) for offset in range(7)),
]
TENURES = [
    *(tenure("calm", "/1", 10 * number, 10 * number + 5, is_start_known=False) for number in range(3)),
    tenure("storm", "/1", 1, 2),
    tenure("storm", "/2", 1, 2),
    tenure("storm", "/1", 3, 4),
    tenure("storm", "/1", 50, 70),
    *(tenure("storm", "/2", number, number + 1, group_instance_id="i") for number in (60, 62, 64)),
    *(tenure("job", "/1", 5 * number, 5 * number + 1, to_offset=number) for number in range(0, 6, 2)),
    *(tenure("job", "/9", 5, 6, to_offset=number, leave_cause="session_expired") for number in range(0, 6, 2)),
]
OWNED = [
    {"cluster": "c", "group_id": "storm", "topic": "orders", "partition": partition, "valid_to": at(60 + number)}
    for partition, times in ((0, 3), (1, 2), (2, 4))
    for number in range(times)
]


def frame(spark: SparkSession, table: Table, rows: Sequence[dict[str, Any]]) -> DataFrame:
    schema = arrow_schema(table.schema)
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema), table.schema)


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    return frame(spark, REBALANCES, REBALANCED), frame(spark, MEMBERS, TENURES), frame(spark, ASSIGNMENTS, OWNED)


@pytest.fixture(scope="module")
def stats(inputs: tuple[DataFrame, DataFrame, DataFrame]) -> DataFrame:
    return rebalance_stats(touches(*inputs, RULES), *inputs, RULES).persist()


@pytest.fixture(scope="module")
def rows(stats: DataFrame) -> dict[tuple[str, str, int], dict[str, Any]]:
    """By group, window and the hour in which it starts."""
    hour = F.hour("window_start").alias("hour")
    return {
        (row.group_id, row.window, row.hour): row.asDict(recursive=True) for row in stats.select("*", hour).collect()
    }


def test_counts(rows: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Goal: births, follow-ups and unseen generations are distinguished; unknown values add nothing."""
    names = (
        *("rebalances", "births", "increments_without_record", "cooperative_follow_ups", "mean_interval_ms"),
        *("members_joined", "members_left", "members_replaced", "partitions_moved", "pause_lower_ms"),
    )
    found = {key: tuple(row[name] for name in names) for key, row in rows.items() if key[0] == "calm"}
    assert found == {
        ("calm", "hour", 0): (3, 1, 2, 1, 915_000, 2, 1, 1, 6, 40),
        ("calm", "hour", 1): (1, 0, 0, 0, None, 0, 0, 0, 1, 10),
        ("calm", "day", 0): (4, 1, 2, 1, 1_000_000, 2, 1, 1, 7, 50),
    }
    assert [rows["calm", "hour", hour]["longest_pause_upper_ms"] for hour in (0, 1)] == [500, None]


def test_storms(rows: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Goal: a storm counts where it is recognized; restarting every member is no storm."""
    found = {key: (row["storms"], row["storm_rebalances"]) for key, row in rows.items() if row["storms"]}
    assert found == {
        ("storm", "hour", 1): (2, 4),
        ("storm", "day", 0): (2, 4),
        ("chain", "hour", 0): (1, 2),
        ("chain", "day", 0): (1, 2),
    }
    assert rows["restart", "hour", 0]["rebalances"] == 10


def test_flapping_members(rows: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Goal: short tenures from one place; not where an end is unknown, nor of a job that leaves its group empty."""
    found = {
        key: [tuple(member.values()) for member in row["flapping_members"]]
        for key, row in rows.items()
        if row["flapping_members"] is not None and key[1] == "hour"
    }
    assert found == {
        ("storm", "hour", 0): [(None, "app", "/1", 2)],
        ("storm", "hour", 1): [("i", None, None, 3)],
        ("job", "hour", 0): [(None, "app", "/9", 3)],
    }
    assert rows["storm", "day", 0]["flapping_member_count"] == 2
    assert rows["calm", "hour", 0]["flapping_member_count"] == 0


def test_flapping_partitions(rows: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Goal: the partitions that lost their owner often enough, the worst first."""
    worst = rows["storm", "hour", 1]["flapping_partitions"]
    assert [(each["partition"], each["owners_lost"]) for each in worst] == [(2, 4), (0, 3)]


def test_any_batch_touches_what_it_changes(inputs: tuple[DataFrame, DataFrame, DataFrame], stats: DataFrame) -> None:
    """Goal: rows that come later change no window but those that they touch."""
    rebalances, members, assignments = inputs
    is_new = (F.col("group_id") == "storm") & (F.col("kafka_offset") == 3)  # in the first hour's last minute
    old = (rebalances.where(~is_new), members, assignments)
    before = rebalance_stats(touches(*old, RULES), *old, RULES)
    new = touches(rebalances.where(is_new), members.limit(0), assignments.limit(0), RULES)
    again = rebalance_stats(new, *inputs, RULES)
    found = before.join(again, ["group_id", "window", "window_start"], "left_anti").unionByName(again)
    assert sorted(map(repr, found.select(stats.columns).collect())) == sorted(map(repr, stats.collect()))
