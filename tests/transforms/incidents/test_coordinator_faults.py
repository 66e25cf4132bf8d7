"""Goal: out of Arrow tables come the faults that the rules find in lists."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupledger.schemas.kinds.triggers import LEFT_LINES
from groupledger.schemas.words import LeaveCause
from groupledger.transforms.incidents.coordinator_faults import (
    LINE_COLUMNS,
    STATED_WITHIN_MS,
    bursts,
    counted,
    departures,
    hit,
    placed,
    seconds,
)
from groupledger.transforms.incidents.rules.blameless import is_fault
from groupledger.transforms.incidents.rules.coordinator_faults import (
    GIVEN_UP,
    LOADED,
    PartitionLine,
    faults_of,
    moves,
    silences,
)
from lab.truth.captured import facts_of_capture, line_of_row, log_rows
from lab.truth.made import T
from tests.transforms.incidents.rules.test_broker_faults import HIT, LOADS, LOGS, RECORDED, line

AT = pa.timestamp("us", "UTC")
LINES = pa.schema([(name, AT if name == "left_at" else pa.string()) for name in LINE_COLUMNS])
SCHEMA = pa.schema([*LINES, ("joined_at", AT), ("leave_cause", pa.string())])
NO_LINES = LINES.empty_table()
CAPTURE = RECORDED / "capture" / "part-0.parquet"


def tables(*, with_logs: bool) -> tuple[pa.Table, pa.Table]:
    """Returns the departures and the records."""
    of_groups = facts_of_capture(CAPTURE, LOGS if with_logs else []).values()
    members = [{name: row[name] for name in SCHEMA.names} for facts in of_groups for row in facts.members]
    groups = [{name: facts.groups[0][name] for name in ("group_id", "kafka_partition")} for facts in of_groups]
    lines = [row for row in log_rows(LOGS if with_logs else []) if row["kind"] in LEFT_LINES]
    stated = pa.Table.from_pylist([{**row, "left_at": row["logged_at"]} for row in lines], LINES)
    records = pq.read_table(CAPTURE, columns=["partition", "timestamp", "offset"])
    return (
        placed(departures(pa.Table.from_pylist(members, SCHEMA), stated, NO_LINES), pa.Table.from_pylist(groups)),
        records.rename_columns(["kafka_partition", "kafka_timestamp", "kafka_offset"]),
    )


def test_faults_of_a_recorded_cluster() -> None:
    """Goal: with logs and without, the two faults and the groups that they hit are found, and no others."""
    for with_logs in (True, False):
        gone, records = tables(with_logs=with_logs)
        lines = [line_of_row(row) for row in log_rows(LOGS if with_logs else []) if row["kind"] in (LOADED, *GIVEN_UP)]
        found = counted(faults_of([*moves(lines), *silences(seconds(records))]), gone)
        assert [fault.groups for fault in found if is_fault(fault)] == [3, 3]
        assert set(hit(found, gone)["group_id"].to_pylist()) == HIT[0]
        assert bursts(gone)
    assert hit([], gone).num_rows == 0


def lines_of(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(LINE_COLUMNS, row, strict=True)) for row in rows], LINES)


def left(stated: pa.Table = NO_LINES, removed: pa.Table = NO_LINES) -> list[tuple[str, int]]:
    """Returns who left of group a, whose member m was there from the first second to the fifth. Member n still is, and
    had another tenure meanwhile."""
    members = {
        "group_id": ["a", "a", "a"],
        "member_id": ["m", "n", "n"],
        "left_at": pa.array([5_000_000, None, 3_000_000], AT),
        "joined_at": pa.array([1_000_000, 1_000_000, 2_000_000], AT),
        "leave_cause": ["session_expired", None, LeaveCause.REPLACED],
    }
    rows = departures(pa.table(members, SCHEMA), stated, removed).to_pylist()
    return sorted((row["group_id"], row["left_ms"]) for row in rows)


def test_members_without_a_tenure() -> None:
    """Goal: a line that removes a member counts where the cleaner has left no record of it at that time, and nowhere
    else."""
    late_us = (STATED_WITHIN_MS + 5_001) * 1_000
    assert left(removed=lines_of(("a", "m", 5_000_000), ("b", "o", 6_000_000))) == [("a", 5_000), ("b", 6_000)]
    assert left(removed=lines_of(("a", "m", late_us - 1_000), ("a", "n", late_us))) == [("a", 5_000)]
    assert left(removed=lines_of(("a", "m", late_us))) == [("a", 5_000), ("a", late_us // 1_000)]


def test_departures_that_a_line_states() -> None:
    """Goal: a line counts for a departure of about its time: an id that a client chose may come back."""
    late_us = (STATED_WITHIN_MS + 5_001) * 1_000
    assert left(lines_of(("a", "m", 4_000_000))) == []
    assert left(lines_of(("a", "m", late_us - 1_000))) == []
    assert left(lines_of(("a", "m", late_us))) == [("a", 5_000)]


def test_placed() -> None:
    """Goal: departures get their group's partition; those of unknown groups are left out."""
    gone = pa.table({"group_id": ["a", "b"], "left_ms": [1, 2]})
    groups = pa.table({"group_id": ["a"], "kafka_partition": pa.array([7], pa.int32())})
    assert placed(gone, groups).to_pylist() == [{"group_id": "a", "left_ms": 1, "kafka_partition": 7}]


@pytest.mark.parametrize(
    ("lines", "own", "others"),
    [
        (LOADS, {"b"}, {"b", "c"}),
        (LOADS[1:], {"b"}, set()),  # the log of the broker before is not there
        ([*LOADS, line("partition_unloading", 1, 99)], set(), set()),  # a move in good order
    ],
)
def test_groups_that_waited_for_a_dead_broker(lines: list[PartitionLine], own: set[str], others: set[str]) -> None:
    """Goal: members that expire in other brokers' groups are the fault of a broker that died or stood still, if its own
    groups lost none. They may have waited for it to copy their records."""

    def hit_by(partitions: list[int]) -> set[str]:
        left_ms = [T, T + 90_000, T + 110_000]
        gone = pa.table(
            {"group_id": ["a", "b", "c"], "left_ms": left_ms, "kafka_partition": pa.array(partitions, pa.int32())}
        )
        faults = [each for each in counted(faults_of(moves(lines)), gone) if is_fault(each)]
        return set(hit(faults, gone)["group_id"].to_pylist())

    assert hit_by([8, 7, 8]) == own
    assert hit_by([8, 8, 8]) == others


def test_times_that_are_looked_at() -> None:
    """Goal: records are read of those times alone in which several groups of one partition lost members."""
    gone = [("a", 0, 600_000), ("b", 0, 601_000), ("c", 1, 9_000_000), ("d", 0, 9_000_000), ("a", 0, 0), ("a", 0, 1)]
    table = pa.table(
        {
            "group_id": [group for group, _, _ in gone],
            "kafka_partition": pa.array([partition for _, partition, _ in gone], pa.int32()),
            "left_ms": [at_ms for _, _, at_ms in gone],
        }
    )
    assert bursts(table) == [(420_000, 660_000)]
