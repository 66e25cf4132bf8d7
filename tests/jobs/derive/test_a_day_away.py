"""Goal: after a pause in which groups, members and offsets were deleted, and their tombstones went, too, nothing lives
on whose record is gone.

The topic is read, then not for 25 hours, and then once more. Meanwhile Kafka's cleaner has removed each record that a
later one of the same key replaced, and after a day (`delete.retention.ms`) the tombstones themselves: nothing shows
that a group, a member or an offset was deleted."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.idle import idle
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.lag import update_lag
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.jobs.ingest.samples import append_rows
from groupledger.schemas.codec.consumer_protocol import encode_assignment
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.warehouses.ledgers import (
    CAPTURED_AT_MS,
    WRITTEN_SINCE_MS,
    coverage,
    describe_capture,
    ingest,
    open_test_ledger,
    write_capture,
)
from lab.warehouses.rows import SUBSCRIPTION, offset_commit
from tests.jobs.simulated_log import content, run, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.warehouses.rows import Row

PAUSE_MS = 25 * 3_600_000
NOW_MS = CAPTURED_AT_MS + PAUSE_MS + 60_000
NOW = datetime.fromtimestamp(NOW_MS / 1_000 - 1, timezone.utc)
GAP_ENDS = 100
# Partitions of the topic `orders` that a group has committed, by its name.
COMMITTED = {"deleted": [0], "renewed": [1], "left": [2, 3], "trimmed": [4, 5], "quiet": [6], "simple": [7]}
SEEN_AGAIN = {"renewed", "left", "trimmed"}
MEMBERS = {"deleted": "a", "renewed": "a", "left": "ab", "trimmed": "a", "quiet": "a"}


def generation(group_id: str, number: int, members: str) -> Row:
    """Returns the record of a generation; its members have the group's partitions in turn."""
    partitions = COMMITTED[group_id]
    given = {
        each: encode_assignment(
            ProtocolMessage(
                1,
                {
                    "assigned_partitions": [{"topic": "orders", "partitions": partitions[place :: len(members)]}],
                    "user_data": None,
                },
            )
        )
        for place, each in enumerate(members)
    }
    of_member: dict[str, Any] = {"group_instance_id": None, "client_id": "c", "client_host": "/127.0.0.1"}
    of_member |= {"rebalance_timeout_ms": 300_000, "session_timeout_ms": 45_000, "subscription": SUBSCRIPTION}
    value = {
        "protocol_type": "consumer",
        "generation": number,
        "protocol": "range",
        "leader": members[0],
        "current_state_timestamp_ms": WRITTEN_SINCE_MS,
        "members": [{**of_member, "member_id": each, "assignment": given[each]} for each in members],
    }
    return encode_record(Record("group_metadata", {"group_id": group_id}, 3, value))


def commit(group_id: str, partition: int, offset: int, at_ms: int = WRITTEN_SINCE_MS) -> Row:
    return offset_commit(
        group_id=group_id, topic="orders", partition=partition, offset=offset, commit_timestamp_ms=at_ms
    )


def before() -> list[Row]:
    """Returns the log before the pause; nothing was removed from it."""
    rows = [generation(group_id, 1, members) for group_id, members in MEMBERS.items()]
    return rows + [commit(each, partition, 10) for each, numbers in COMMITTED.items() for partition in numbers]


def behind() -> list[Row]:
    """Returns what was written in the pause and is still there: "deleted" and "simple" were deleted, a member of "left"
    has left, and an offset of "trimmed" was deleted."""
    at_ms = WRITTEN_SINCE_MS + PAUSE_MS
    rows = [generation("left", 2, "a"), commit("left", 2, 30, at_ms), commit("left", 3, 30, at_ms)]
    return [*rows, commit("trimmed", 4, 30, at_ms), generation("renewed", 2, "a"), commit("renewed", 1, 30, at_ms)]


END = GAP_ENDS + len(behind())


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reads the topic before the pause, after it, and once more; the log above the gap is known to be whole."""
    folder = tmp_path_factory.mktemp("away")
    first, later, last, found = (folder / name for name in ("first", "later", "last", "warehouse"))
    write_capture(first, dict(enumerate_from(0, before())))
    describe_capture(first, {0: 0, 1: 0}, {0: len(before()), 1: 0})
    write_capture(later, dict(enumerate_from(GAP_ENDS, behind())), since_ms=WRITTEN_SINCE_MS + PAUSE_MS)
    describe_capture(
        later,
        {0: 0, 1: 0},
        {0: END, 1: 0},
        captured_at_ms=CAPTURED_AT_MS + PAUSE_MS,
        explained_from={0: GAP_ENDS},
    )
    newest = {(0, END): commit("another", 0, 10)}
    write_capture(last, newest, since_ms=CAPTURED_AT_MS + PAUSE_MS)
    describe_capture(last, {0: END, 1: 0}, {0: END + 1, 1: 0}, captured_at_ms=NOW_MS)
    for capture, sampled_ms in ((first, CAPTURED_AT_MS - 1), (later, None), (last, NOW_MS - 1)):
        ingest(spark, found, capture)
        run(spark, found, update_history)
        with open_test_ledger(spark, found) as ledger:
            ledger.create(WATERMARKS)
            if sampled_ms is not None:
                append_rows(ledger, WATERMARKS, ends(END + 1 if capture is last else len(before())), sampled_ms)
            update_lag(ledger, threading.Event())
            update_offset_events(ledger)
    return found


def ends(of_offsets_topic: int) -> dict[str, list[Any]]:
    """Returns the ends of eight partitions of `orders` and of two of the offsets topic, as a sampling round."""
    high = [*[50] * 8, of_offsets_topic, 0]
    names = {"topic": ["orders"] * 8 + [OFFSETS_TOPIC] * 2, "partition": [*range(8), 0, 1]}
    return {**names, "high_watermark": high, "last_stable_offset": high, "log_start_offset": [0] * 10}


def enumerate_from(offset: int, rows: list[Row]) -> Iterator[tuple[tuple[int, int], Row]]:
    return (((0, place), row) for place, row in enumerate(rows, offset))


@pytest.fixture
def tables(warehouse: Path) -> ClusterRows:
    return ClusterRows(str(warehouse), "test")


def test_coverage(spark: SparkSession, warehouse: Path) -> None:
    """Goal: the test tests what it says: a stretch that lost the state lies between two that are known."""
    assert coverage(warehouse) == [
        (0, 0, len(before()), "complete"),
        (0, len(before()), GAP_ENDS, "compacted"),
        (0, GAP_ENDS, END, "compacted"),
        (0, END, END + 1, "complete"),
    ]


def test_groups(tables: ClusterRows) -> None:
    """Goal: only groups live that were seen again, and only members that a record names since."""
    groups = {row["group_id"]: row["is_alive"] for row in tables.rows("groups")}
    assert groups.pop("another")
    assert groups == {each: True if each in SEEN_AGAIN else None for each in COMMITTED}
    present = {
        (row["group_id"], row["member_id"])
        for row in tables.rows("members")
        if row["left_at"] is None and row["is_end_known"] is None
    }
    assert present == {("renewed", "a"), ("left", "a")}
    assert not [row for row in tables.rows("members") if row["is_end_known"]]


def test_owners(tables: ClusterRows) -> None:
    """Goal: partitions have the owners of generations that were seen since, and no others."""
    asked = ((name, partition) for name, partitions in COMMITTED.items() for partition in partitions)
    found = {each: owner(tables, each[0], "orders", each[1], NOW) for each in asked}
    owners = {each: row["member_id"] for each, rows in found.items() for row in rows if row["status"] == "owned"}
    assert owners == {("renewed", 1): "a", ("left", 2): "a", ("left", 3): "a"}
    assert {row["status"] for rows in found.values() for row in rows} == {"owned", "unknown"}


def test_offsets(spark: SparkSession, warehouse: Path, tables: ClusterRows) -> None:
    """Goal: only offsets that were committed since are there, have a lag, and may expire; no event is reported of the
    others."""
    since = {("renewed", 1), ("left", 2), ("left", 3), ("trimmed", 4)}
    rows = {(row["group_id"], row["partition"]): row for row in offsets_at(tables, list(COMMITTED), NOW)}
    assert {each for each, row in rows.items() if row["committed_offset"] is not None} == since
    last = table(spark, warehouse, LAG).where(F.unix_millis("sampled_at") == NOW_MS - 1)
    assert {(row["group_id"], row["partition"]): row["lag"] for row in last.collect()} == {
        ("another", 0): 40,
        **dict.fromkeys(since, 20),
    }
    assert content(warehouse, OFFSET_EVENTS) == []
    _, expiring = idle(tables, timedelta(hours=1), 0.0)
    assert {row["group_id"] for row in expiring} <= {*SEEN_AGAIN, "another"}
