"""Goal: the selections of the report keep their limits, keep the right rows, and count what they leave out."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.report import report
from groupledger.transforms.report.report import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

START = datetime(2026, 1, 31, 14, tzinfo=timezone.utc)
LIMITS = Limits(groups=2, partitions=2, intervals=3, records=2, members=2, incidents=2, lag_points=2, lag_partitions=1)


def at(second: float | None) -> datetime | None:
    return None if second is None else START + timedelta(seconds=second)


def frame(spark: SparkSession, table: Table, rows: Sequence[dict[str, Any]]) -> DataFrame:
    made = [{"cluster": "east", "group_id": "g", **row} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(made, schema=to_arrow_schema(table.schema)), table.schema)


def test_newest_intervals(spark: SparkSession) -> None:
    """Goal: the partitions that changed hands most, of them the newest, open ones first; the rest is counted."""
    # Topic a: partition 0 has three owners, 1 two, 2 one; connector c has a task with two.
    ends = [(0, 0, 10), (0, 10, 20), (0, 20, None), (1, 0, 15), (1, 15, None), (2, 0, None)]
    owned = [
        {"topic": "a", "partition": partition, "from_offset": begin, "valid_from": at(begin), "valid_to": at(end)}
        for partition, begin, end in ends
    ]
    tasks = [
        {"connector": "c", "task": 0, "from_offset": begin, "valid_from": at(begin), "valid_to": at(begin + 5)}
        for begin in (0, 5)
    ]
    rows = report.all_intervals(frame(spark, ASSIGNMENTS, owned), frame(spark, CONNECT_ASSIGNMENTS, tasks))
    found = report.newest_intervals(rows, LIMITS).collect()
    assert sorted((row.topic, row.partition, row.from_offset) for row in found) == [
        ("a", 0, 10),
        ("a", 0, 20),
        ("a", 1, 15),
    ]
    assert {(row.of_group, row.partitions_left_out) for row in found} == {(5, 2)}


def test_newest_generations(spark: SparkSession) -> None:
    """Goal: the records of the period, and the one that was in force last before it."""
    ends: list[tuple[int, int | None]] = [(0, 10), (10, 20), (20, 30), (30, None)]
    rows = [{"kafka_offset": begin, "started_at": at(begin), "ended_at": at(end)} for begin, end in ends]
    generations = frame(spark, GENERATIONS, rows)
    found = report.newest_generations(generations, START + timedelta(seconds=25), START + timedelta(60), Limits())
    assert sorted((row.kafka_offset, row.of_group) for row in found.collect()) == [(10, 3), (20, 3), (30, 3)]
    bounded = report.newest_generations(generations, START + timedelta(seconds=25), START + timedelta(60), LIMITS)
    assert sorted((row.kafka_offset, row.of_group) for row in bounded.collect()) == [(20, 3), (30, 3)]


def test_ranked_groups_and_lag(spark: SparkSession) -> None:
    """Goal: errors go before rebalances; lag is that of the newest round, in which a group that is gone has no part;
    the worst rounds are the points, and what is not known is counted and adds nothing."""
    groups = frame(spark, GROUPS, [{"group_id": name, "last_seen_at": START} for name in ("calm", "busy", "broken")])
    rebalances = frame(spark, REBALANCES, [{"group_id": "busy", "to_generation": 2, "happened_at": START}])
    incident = {"incident_id": "1", "severity": "error", "last_seen_at": START}
    incidents = frame(spark, INCIDENTS, [{**incident, "group_id": "broken"}, {**incident, "group_id": None}])
    samples: list[tuple[int, int, int | None, float | None]] = [
        *((0, 0, 1, 1.0), (0, 1, 9, 9.0), (1, 0, 50, 50.0), (1, 1, None, None), (70, 0, 3, 3.0), (70, 1, 4, 4.0)),
    ]
    lag = frame(
        spark,
        LAG,
        [
            {"group_id": group_id, "topic": "a", "sampled_at": at(second), "partition": number, "lag": value}
            | {"lag_seconds": seconds, "status": "ok"}
            for group_id, told in (("busy", samples), ("broken", [(0, 0, 99, 99.0)]))
            for second, number, value, seconds in told
        ],
    )
    rounds = report.lag_rounds(lag)
    ranked = report.ranked_groups(groups, rebalances, incidents, rounds, LIMITS).collect()
    columns = ("group_id", "error_incidents", "rebalances", "lag", "lag_seconds", "all_groups")
    assert [tuple(row[name] for name in columns) for row in ranked] == [
        ("broken", 1, 0, None, None, 3),
        ("busy", 0, 1, 7, 4.0, 3),
    ]
    points = report.lag_points(rounds, START, START + timedelta(seconds=100), LIMITS).orderBy("sampled_at").collect()
    assert [(row.lag, row.lag_seconds, row.lag_unknown_partitions) for row in points] == [
        (99, 99.0, 0),
        (50, 50.0, 1),
        (7, 4.0, 0),
    ]
    worst = report.worst_partitions(lag, LIMITS).collect()
    assert [(row.partition, row.lag, row.of_group) for row in worst] == [(1, 4, 2)]
    graver = report.newest_incidents(incidents, LIMITS).collect()
    assert [(row.group_id, row.of_group) for row in graver] == [("broken", 1)]
