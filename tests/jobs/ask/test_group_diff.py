"""Goal: lag is compared as the last rounds by two instants saw it, and static members stay who they are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.words import LagFlag

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


def write(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", "group_id": "g", **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def lag(minutes: int, topic: str, records: int | None, *flags: str) -> dict[str, Any]:
    at = AT + minutes * MINUTE
    return {"sampled_at": at, "sample_date": at.date(), "topic": topic, "lag": records, "flags": flags}


def test_lag_and_static_members(tmp_path: Path) -> None:
    """Goal: a topic's lag is a sum without partitions that are not subscribed, and the number of unknown partitions is
    beside it; a restart of a static member is a change of one member."""
    stretch = {
        "completeness": "complete",
        "from_offset": 0,
        "to_offset": 100,
        "from_time": AT,
        "to_time": AT + 9 * MINUTE,
    }
    generation = {"incarnation": 1, "protocol": "range", "is_ownership_known": True, "revision": 0}
    member = {"incarnation": 1, "group_instance_id": "pod-0", "client_id": "x", "client_host": "/h"}
    write(tmp_path, "groups", {"kafka_partition": 7, "incarnation": 1})
    write(tmp_path, "coverage", {"kafka_partition": 7, **stretch})
    write(
        tmp_path,
        "generations",
        generation
        | {"generation": 1, "kafka_offset": 1, "to_offset": 5, "started_at": AT, "ended_at": AT + 4 * MINUTE},
        generation | {"generation": 2, "kafka_offset": 5, "started_at": AT + 4 * MINUTE},
    )
    write(
        tmp_path,
        "members",
        member | {"member_id": "a1", "from_offset": 1, "to_offset": 5},
        member | {"member_id": "a2", "from_offset": 5},
    )
    write(tmp_path, "assignments")
    write(
        tmp_path,
        "lag",
        *(lag(1, "orders", 3), lag(1, "orders", 4), lag(1, "left", 9, LagFlag.UNSUBSCRIBED), lag(1, "same", 1)),
        *(lag(5, "orders", 20), lag(5, "orders", None), lag(5, "same", 1), lag(9, "orders", 1_000)),
    )
    until, found = group_diff(ClusterRows(str(tmp_path), "c"), "g", AT + MINUTE, AT + 8 * MINUTE)
    assert until == AT + 8 * MINUTE
    assert [tuple(row.values()) for row in found] == [
        ("generation", None, None, 1, 2),
        ("member", "pod-0", None, "a1 (x, /h)", "a2 (x, /h)"),
        ("lag", "orders", None, 7, 20),
        ("partitions_without_lag", "orders", None, None, 1),
    ]
