"""Goal: out of Arrow tables come the faults that the rules find in lists."""

from __future__ import annotations

from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq

from groupledger.schemas.kinds.triggers import LEFT_LINES
from groupledger.transforms.incidents.coordinator_faults import bursts, counted, departures, hit, seconds
from groupledger.transforms.incidents.rules.blameless import is_fault
from groupledger.transforms.incidents.rules.coordinator_faults import GIVEN_UP, LOADED, faults_of, moves, silences
from lab.truth.captured import facts_of_capture, line_of_row, log_rows
from tests.transforms.incidents.rules.test_broker_faults import HIT, LOGS, RECORDED

CAPTURE = RECORDED / "capture" / "part-0.parquet"


def tables(*, with_logs: bool) -> tuple[pa.Table, pa.Table]:
    """Returns the departures and the records."""
    of_groups = facts_of_capture(CAPTURE, LOGS if with_logs else []).values()
    names = ("group_id", "member_id", "left_at", "leave_cause")
    members = [{name: row[name] for name in names} for facts in of_groups for row in facts.members]
    schema = pa.schema([*((name, pa.string()) for name in names)])
    schema = schema.set(2, pa.field("left_at", pa.timestamp("us", "UTC")))
    groups = [{name: facts.groups[0][name] for name in ("group_id", "kafka_partition")} for facts in of_groups]
    stated = {row["member_id"] for row in log_rows(LOGS) if row["kind"] in LEFT_LINES} if with_logs else set()
    records = pq.read_table(CAPTURE, columns=["partition", "timestamp"])
    return (
        departures(pa.Table.from_pylist(members, schema), pa.Table.from_pylist(groups), stated),
        records.rename_columns(["kafka_partition", "kafka_timestamp"]),
    )


def test_faults_of_a_recorded_cluster() -> None:
    """Goal: with logs and without, the two faults and the groups that they hit are found, and no others."""
    for with_logs in (True, False):
        gone, records = tables(with_logs=with_logs)
        lines = [line_of_row(row) for row in log_rows(LOGS if with_logs else []) if row["kind"] in (LOADED, *GIVEN_UP)]
        found = counted(faults_of([*moves(lines), *silences(seconds([records]))]), gone)
        assert [fault.groups for fault in found if is_fault(fault)] == [3, 3]
        assert set(hit(found, gone)["group_id"].to_pylist()) == HIT[0]
        assert bursts(gone)
    assert hit([], gone).num_rows == 0


def test_members_without_a_tenure() -> None:
    """Goal: a line that removes a member counts where the cleaner has left no record of it, and nowhere else."""
    at = pa.array([5_000_000, 6_000_000], pa.timestamp("us", "UTC"))
    members = pa.table({"group_id": ["a"], "member_id": ["m"], "left_at": at[:1], "leave_cause": ["session_expired"]})
    groups = pa.table({"group_id": ["a", "b"], "kafka_partition": pa.array([0, 1], pa.int32())})
    removed = pa.table({"group_id": ["a", "b"], "member_id": ["m", "n"], "left_at": at})
    rows = sorted(departures(members, groups, (), removed).to_pylist(), key=itemgetter("group_id"))
    assert [(row["group_id"], row["kafka_partition"], row["left_ms"]) for row in rows] == [
        ("a", 0, 5_000),
        ("b", 1, 6_000),
    ]


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
