"""Goal: the selections of the report keep their limits, keep the right rows, and count what they leave out."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.cluster_rows import ClusterRows, as_scan
from groupledger.jobs.report import queries
from groupledger.jobs.report.queries import Limits
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

START = datetime(2026, 1, 31, 14, tzinfo=timezone.utc)
LIMITS = Limits(groups=2, partitions=2, intervals=3, records=2, members=2, incidents=2, lag_points=2, lag_partitions=1)


def at(second: float | None) -> datetime | None:
    return None if second is None else START + timedelta(seconds=second)


def scan(table: str, rows: Sequence[dict[str, Any]]) -> pa.RecordBatchReader:
    schema = schema_of("assignments" if table == "held_otherwise" else table)
    return as_scan([{"cluster": "east", "group_id": "g", **row} for row in rows], schema)


def asked(folder: Path, query: str, parameters: dict[str, Any], **rows: Sequence[dict[str, Any]]) -> list[Any]:
    scans = {table: scan(table, of_table) for table, of_table in rows.items()}
    return ClusterRows(str(folder), "east").query(query, parameters, **scans)


def test_intervals(tmp_path: Path) -> None:
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
    told = {"since": at(-1), "until": at(60), "limit": LIMITS.intervals, "partitions": LIMITS.partitions}
    apart = {"connect_assignments": tasks, "held_otherwise": owned[:1]}
    found = asked(tmp_path, queries.INTERVALS, told, assignments=owned[1:], **apart)
    assert sorted((row["topic"], row["partition"], row["from_offset"]) for row in found) == [
        ("a", 0, 10),
        ("a", 0, 20),
        ("a", 1, 15),
    ]
    assert {(row["of_group"], row["partitions_left_out"]) for row in found} == {(5, 2)}
    ended = asked(tmp_path, queries.INTERVALS, {**told, "since": at(20)}, assignments=owned[1:], **apart)
    assert {row["valid_to"] for row in ended} == {None}
    assert asked(tmp_path, queries.INTERVALS, {**told, "until": at(0)}, assignments=owned[1:], **apart) == []


def test_members(tmp_path: Path) -> None:
    """Goal: the tenures of the period, the newest first."""
    rows = [
        {"member_id": str(begin), "from_offset": begin, "joined_at": at(begin), "left_at": at(end)}
        for begin, end in ((0, 10), (5, None), (10, 20), (30, None))
    ]
    told = {"since": at(10), "until": at(30), "limit": LIMITS.members}
    found = asked(tmp_path, queries.MEMBERS, told, members=rows)
    assert sorted((row["member_id"], row["of_group"]) for row in found) == [("10", 2), ("5", 2)]
    assert [row["member_id"] for row in asked(tmp_path, queries.MEMBERS, {**told, "limit": 1}, members=rows)] == ["5"]


def test_generations(tmp_path: Path) -> None:
    """Goal: the records of the period, and the one that was in force last before it."""
    ends: list[tuple[int, int | None]] = [(0, 10), (10, 20), (20, 30), (30, None)]
    rows = [{"kafka_offset": begin, "started_at": at(begin), "ended_at": at(end)} for begin, end in ends]
    told = {"since": at(25), "until": at(60), "limit": Limits().records}
    found = asked(tmp_path, queries.GENERATIONS, told, generations=rows)
    assert sorted((row["kafka_offset"], row["of_group"]) for row in found) == [(10, 3), (20, 3), (30, 3)]
    bounded = asked(tmp_path, queries.GENERATIONS, {**told, "limit": LIMITS.records}, generations=rows)
    assert sorted((row["kafka_offset"], row["of_group"]) for row in bounded) == [(20, 3), (30, 3)]


def test_groups_and_lag(tmp_path: Path) -> None:
    """Goal: errors go before rebalances; lag is that of the newest round, in which a group that is gone has no part;
    the worst rounds are the points, and what is not known is counted and adds nothing."""
    incident = {"incident_id": "1", "severity": "error", "last_seen_at": START}
    incidents = [{**incident, "group_id": "broken"}, {**incident, "group_id": None}]
    samples: list[tuple[int, int, int | None, float | None]] = [
        *((0, 0, 1, 1.0), (0, 1, 9, 9.0), (1, 0, 50, 50.0), (1, 1, None, None), (70, 0, 3, 3.0), (70, 1, 4, 4.0)),
    ]
    lag: list[dict[str, Any]] = [
        {"group_id": group_id, "topic": "a", "sampled_at": at(second), "partition": number, "lag": value}
        | {"lag_seconds": seconds, "status": "ok"}
        for group_id, told in (("busy", samples), ("broken", [(0, 0, 99, 99.0)]))
        for second, number, value, seconds in told
    ]
    birth = {"group_id": "calm", "to_generation": 1, "happened_at": START, "changes": [{"kind": "group_started"}]}
    ranked = asked(
        tmp_path,
        queries.RANKED,
        {"limit": LIMITS.groups},
        groups=[{"group_id": name, "last_seen_at": START} for name in ("calm", "busy", "broken")],
        rebalances=[{"group_id": "busy", "to_generation": 2, "happened_at": START}, birth],
        incidents=incidents,
        lag=lag,
    )
    columns = ("group_id", "error_incidents", "rebalances", "lag", "lag_seconds", "all_groups")
    assert [tuple(row[name] for name in columns) for row in ranked] == [
        ("broken", 1, 0, None, None, 3),
        ("busy", 0, 1, 7, 4.0, 3),
    ]
    parts = {"since_s": int(START.timestamp()), "part_s": 51}
    points = asked(tmp_path, queries.LAG_POINTS, parts, lag=lag)
    assert [(row["lag"], row["lag_seconds"], row["lag_unknown_partitions"]) for row in points] == [
        (99, 99.0, 0),
        (50, 50.0, 1),
        (7, 4.0, 0),
    ]
    newest = [row for row in lag if row["sampled_at"] == at(70)]
    worst = asked(tmp_path, queries.LAG_PARTITIONS, {"limit": LIMITS.lag_partitions}, lag=newest)
    assert [(row["partition"], row["lag"], row["of_group"]) for row in worst] == [(1, 4, 2)]
    graver = asked(tmp_path, queries.INCIDENTS, {"limit": LIMITS.incidents}, incidents=incidents)
    assert [(row["group_id"], row["of_group"]) for row in graver] == [("broken", 1)]


def test_coverage(tmp_path: Path) -> None:
    """Goal: the seconds of the period that were seen whole, and what else there is; of no time there are no seconds."""
    rows = [
        {"completeness": kind, "kafka_partition": partition, "from_time": at(begin), "to_time": at(end)}
        for partition, kind, begin, end in (
            (0, "complete", 0, 50),
            (0, "complete", 60, 200),
            (0, "unknown", 50, 60),
            (1, "compacted", None, 30),
            (1, "complete", 30, 30),
        )
    ]
    found = asked(tmp_path, queries.COVERAGE_TOTALS, {"since": at(10), "until": at(100)}, coverage=rows)
    names = ("complete_seconds", "complete_from", "known_until", "holes", "compacted_stretches")
    assert [tuple(row[name] for name in names) for row in found] == [
        (80.0, at(0), at(200), 1, 0),
        (None, None, at(30), 0, 1),
    ]
