"""Goal: the newest commit of each partition counts, whatever times a client wrote into it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.idle import idle
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 10, tzinfo=timezone.utc)
DAY_MS = 86_400_000
AT_MS = round(AT.timestamp() * 1_000)
WEEK = timedelta(days=7)


def write(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def commit(offset: int, committed_ms: int | None, expire_ms: int = -1, *, is_tombstone: bool = False) -> dict[str, Any]:
    value = {"topic": "orders", "partition": 0, "offset": 5, "topic_id": "x", "leader_epoch": -1}
    value |= {"commit_timestamp_ms": committed_ms, "expire_timestamp_ms": expire_ms}
    row = {"kafka_partition": 7, "kafka_offset": offset, "kafka_timestamp": AT - timedelta(days=6)}
    return row | {"record_type": "offset_commit", "is_tombstone": is_tombstone, "offset_commit": value, "group_id": "g"}


@pytest.mark.parametrize(
    ("commits", "wanted"),
    [
        ([commit(1, AT_MS - 5 * DAY_MS)], ("no_members", 2)),
        ([commit(1, AT_MS - 5 * DAY_MS), commit(2, AT_MS)], None),  # too fresh
        ([commit(1, AT_MS - 5 * DAY_MS), commit(2, None, is_tombstone=True)], None),
        ([commit(1, None)], ("no_members", 1)),  # the record's own time
        ([commit(1, AT_MS, AT_MS + DAY_MS)], ("explicit", 1)),
        ([commit(1, AT_MS, 2**63 - 1)], None),  # never
        ([commit(1, -(2**63))], ("no_members", None)),
    ],
)
def test_times(tmp_path: Path, commits: list[dict[str, Any]], wanted: tuple[str, int | None] | None) -> None:
    """Goal: commits expire by their own times, also by such as no calendar has."""
    write(tmp_path, "coverage", {"kafka_partition": 7, "to_time": AT})
    write(tmp_path, "groups", {"group_id": "g", "group_type": "classic", "is_simple": True, "is_alive": True})
    write(tmp_path, "generations")
    write(tmp_path, "members")
    write(tmp_path, "coordinator_records", *commits)
    as_of, found = idle(ClusterRows(str(tmp_path), "c"), WEEK, 0.5)
    assert as_of == AT
    expected = [] if wanted is None else [wanted[0]]
    assert [row["cause"] for row in found] == expected
    if wanted is not None and wanted[1] is not None:
        assert found[0]["offsets_expire_at"] == AT + timedelta(days=wanted[1])


def test_an_offset_that_may_be_gone(tmp_path: Path) -> None:
    """Goal: the expiry of an offset is not forecast if the log hides whether the offset is still there."""
    stretch = {
        "kafka_partition": 7,
        "from_offset": 2,
        "completeness": "compacted",
        "is_state_lost": True,
        "to_time": AT,
    }
    write(tmp_path, "coverage", stretch)
    write(tmp_path, "groups", {"group_id": "g", "group_type": "classic", "is_simple": True, "is_alive": True})
    write(tmp_path, "generations")
    write(tmp_path, "members")
    other = commit(3, AT_MS - 5 * DAY_MS)
    other["offset_commit"] = {**other["offset_commit"], "partition": 1}
    write(tmp_path, "coordinator_records", commit(1, AT_MS - 5 * DAY_MS), other)
    _, found = idle(ClusterRows(str(tmp_path), "c"), WEEK, 0.5)
    assert [row["committed_partition_count"] for row in found] == [1]
