"""Goal: the state of a share group is read from the last pass by an instant, with the records that are delivered
again."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.share import share_partitions
from groupledger.jobs.ask.why import why
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.all_tables import table_named

if TYPE_CHECKING:
    from pathlib import Path

FIRST = datetime(2026, 1, 1, 23, 0, tzinfo=timezone.utc)
LATER = FIRST + timedelta(hours=30)
HOSTILE = "\x1b[2Jg"


def one(first: int, last: int, count: int) -> dict[str, int]:
    return {"first_offset": first, "last_offset": last, "delivery_count": count}


def add(warehouse: Path, sampled_at: datetime, group: str, partition: int, lag: int) -> None:
    row = {"cluster": "c", "sampled_at": sampled_at, "sample_date": sampled_at.date(), "group_id": group, "lag": lag}
    row |= {"topic": "t", "partition": partition, "start_offset": 4, "available_count": 3, "delivery_count_max": 3}
    row |= {"available": [one(4, 5, 1), one(9, 9, 3)], "acknowledged": [one(6, 8, 1)], "archived": []}
    rows = pa.Table.from_pylist([row], schema_of("share_partitions"))
    write_deltalake(str(warehouse / "share_partitions"), rows, mode="append", partition_by=["sample_date"])


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    for sampled_at, lag in ((FIRST, 7), (LATER, 5)):
        for group, partition in (("g", 1), ("g", 0), (HOSTILE, 0)):
            add(tmp_path, sampled_at, group, partition, lag)
    return tmp_path


@pytest.mark.parametrize(("at", "lag"), [(None, 5), (LATER, 5), (LATER - timedelta(microseconds=1), 7)])
def test_the_last_pass(warehouse: Path, at: datetime | None, lag: int) -> None:
    """Goal: the rows of the group in the last pass by then, by topic and partition."""
    _, rows = share_partitions(ClusterRows(str(warehouse), "c"), "g", at, 2)
    assert [(row["group_id"], row["partition"], row["lag"]) for row in rows] == [("g", 0, lag), ("g", 1, lag)]
    assert rows[0]["redelivered"] == [one(9, 9, 3)]


def test_what_is_not_known(warehouse: Path) -> None:
    """Goal: no pass by then, and a group that the pass did not see, are distinguished."""
    tables = ClusterRows(str(warehouse), "c")
    with pytest.raises(InputError, match="has no state of share groups up to that time"):
        share_partitions(tables, "g", FIRST - timedelta(days=1), 2)
    with pytest.raises(InputError, match=r"no state of a share group h at that time; it has those of .*, g\."):
        share_partitions(tables, "h", None, 2)


def test_the_command(warehouse: Path) -> None:
    """Goal: a table of ranges with their counts, or JSON with all; a name does nothing to a terminal."""
    place = ["--warehouse", str(warehouse), "--cluster", "c"]
    shown = CliRunner().invoke(main, ["share", "g", *place])
    assert shown.exit_code == 0
    assert "9 (3)" in shown.stdout
    assert "6-8 (1)" in shown.stdout
    every = CliRunner().invoke(main, ["share", "g", *place, "--deliveries", "1", "--json"])
    rows = [json.loads(line) for line in every.stdout.splitlines()]
    assert [len(row["redelivered"]) for row in rows] == [2, 2]
    hostile = CliRunner().invoke(main, ["share", HOSTILE, *place])
    assert hostile.exit_code == 0
    assert "\x1b[2J" not in hostile.output


def put(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    every = [{"cluster": "c", **row} for row in rows]
    known = table_named(table)
    assert known is not None
    given = pa.Table.from_pylist(every, schema_of(table))
    write_deltalake(str(warehouse / table), given, partition_by=[*known.partition_columns])


def test_why_reads_the_state_of_a_share_group(tmp_path: Path) -> None:
    """Goal: the verdict on a share group has the fate of its deliveries, from the updates of its state alone."""
    at = {"started_at": FIRST, "group_type": "share", "group_id": "g"}
    put(tmp_path, "groups", {**at, "incarnation": 0, "is_open": 1, "is_deleted": False})
    put(tmp_path, "generations")
    put(
        tmp_path,
        "members",
        {
            "group_id": "g",
            "incarnation": 0,
            "member_id": "m",
            "client_id": "app",
            "joined_at": FIRST,
            "is_open": 1,
            "from_offset": 1,
        },
    )
    put(tmp_path, "rebalances")
    put(tmp_path, "topic_names", {"topic_id": "id", "topic": "orders"})
    batch = {"first_offset": 4, "last_offset": 5, "delivery_state": 4, "delivery_count": 5}
    record = {"group_id": "g", "topic_id": "id", "partition": 3, "state_batches": [batch]}
    put(
        tmp_path,
        "share_state_records",
        *(
            record | {"record_type": kind, "kafka_timestamp": FIRST + n * timedelta(minutes=1), "kafka_offset": n}
            for n, kind in enumerate(("share_update", "share_snapshot"))
        ),
    )
    _, verdict = why(ClusterRows(str(tmp_path), "c"), "g", FIRST - timedelta(hours=1), None)
    (only,) = verdict["diagnosis"]
    assert (only["cause"], only["never_read_max"]) == ("records_given_up", 2)
    assert "most of them of orders 3" in only["explanation"]
