"""Goal: share and streams groups go through Spark into the tables of the pure fold, however their log was cut, and the
questions answer about them. The log is a real broker's (`lab.kafka.modern_groups_log`)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_activity import readers
from groupledger.jobs.ask.group_timeline import group_timeline
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.ask.owners import owners_of
from groupledger.jobs.derive.history import rebuild_history
from groupledger.jobs.derive.validate import damaged_groups, validate
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.share_assignments import SHARE_ASSIGNMENTS
from groupledger.schemas.tables.stream_tasks import STREAM_TASKS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.schemas.wire.share_group import SHARE_GROUP_STATE_PARTITION_METADATA
from groupledger.schemas.words import Completeness, Ownership
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.recorded_log import BEGAN_AT, add, log_rows, tables_of
from tests.jobs.simulated_log import run, table
from tests.transforms.history.rules.test_modern_groups import DESCRIBED, SHARE, STREAMS, whole

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOG = "modern_groups"


@pytest.fixture(scope="module")
def at_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of the whole log in one pass."""
    warehouse = tmp_path_factory.mktemp("at-once")
    add(spark, warehouse, log_rows(name=LOG))
    run(spark, warehouse)
    return warehouse


def described_at(step: str) -> tuple[datetime, dict[str, Any]]:
    (said,) = (each for each in DESCRIBED if each["step"] == step)
    return BEGAN_AT + timedelta(milliseconds=said["after_ms"]), said


def test_the_tables_of_the_fold(spark: SparkSession, at_once: Path) -> None:
    """Goal: the tables have the holdings of members that the pure fold gives, with the names from the share group's
    records."""
    columns = ("member_id", "from_offset", "to_offset", "from_generation", "to_generation")
    for of_table, group_id, held in (
        (SHARE_ASSIGNMENTS, SHARE, ("topic", "partition")),
        (STREAM_TASKS, STREAMS, ("subtopology", "partition", "role")),
    ):
        found = table(spark, at_once, of_table).select(*columns, *held).collect()
        expected = whole(group_id)[of_table.name].values()
        assert sorted(map(tuple, found), key=str) == sorted(
            (tuple(row[name] for name in (*columns, *held)) for row in expected), key=str
        )
    assert {row.is_awaited for row in table(spark, at_once, TOPIC_NAMES).collect()} == {False}


def test_cut_and_rebuilt(spark: SparkSession, at_once: Path, tmp_path: Path) -> None:
    """Goal: three passes, and then a rebuild, give the tables of one pass, and `validate` finds nothing."""
    rows = log_rows(name=LOG)
    for part in (rows[:26], rows[26:140], rows[140:]):
        add(spark, tmp_path, part)
        run(spark, tmp_path)
    assert tables_of(tmp_path) == tables_of(at_once)
    with open_test_ledger(spark, tmp_path) as ledger:
        assert validate(ledger) == []
        assert damaged_groups(ledger) == []
    run(spark, tmp_path, rebuild_history)
    assert tables_of(tmp_path) == tables_of(at_once)


def test_names_that_come_late(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: if a cleaner has left the record with the topics' names after the records of the members, the holdings of
    members are written again under the names."""
    of_share = [row for row in log_rows(name=LOG) if row["group_id"] == SHARE]
    found = [row for row in of_share if row["record_type"] == SHARE_GROUP_STATE_PARTITION_METADATA.record_type]
    with_names = next(row for row in reversed(found) if not row["is_tombstone"])
    rows = [row for row in of_share if row not in found and row["kafka_offset"] < with_names["kafka_offset"]]
    add(spark, tmp_path, rows)
    run(spark, tmp_path)
    assert {len(row.topic) for row in table(spark, tmp_path, SHARE_ASSIGNMENTS).collect()} == {22}
    add(spark, tmp_path, [with_names])
    run(spark, tmp_path)
    named = {row.topic for row in table(spark, tmp_path, SHARE_ASSIGNMENTS).collect()}
    assert named == {"pages", "clicks"}
    assert {row.is_awaited for row in table(spark, tmp_path, TOPIC_NAMES).collect()} == {False}


def test_questions(spark: SparkSession, at_once: Path) -> None:
    """Goal: `owner` names all members that shared a partition, a streams group's partitions belong to the member with
    the active task, `group` has the epochs of both, and `readers` counts a shared partition once."""
    with open_test_ledger(spark, at_once) as ledger:
        ledger.create(COVERAGE)
        read = {"cluster": ledger.cluster, "kafka_partition": 0, "from_offset": 0, "to_offset": 10_000}
        times = {"from_time": BEGAN_AT, "to_time": BEGAN_AT + timedelta(hours=1)}
        stretch = {**read, **times, "completeness": Completeness.COMPLETE}
        rows = of_rows([tuple(stretch.get(name) for name in COVERAGE.schema.names)], COVERAGE)
        ledger.commits.append(COVERAGE, rows)
    tables = ClusterRows(str(at_once), "test")
    at, said = described_at("s4 and s5 join, more members than partitions")
    holders: dict[str, set[str]] = {}
    for member in said["members"]:
        for place in member["holds"][0]:
            holders.setdefault(place, set()).add(member["client_id"])
    for place, clients in holders.items():
        topic, _, number = place.rpartition("-")
        reported = owner(tables, SHARE, topic, int(number), at)
        assert {answer["status"] for answer in reported} == {Ownership.OWNED}
        assert {answer["client_id"] for answer in reported} == clients
    at, said = described_at("a3 joins")
    _, owned = owners_of(tables, STREAMS, at)
    assert {row["client_id"] for row in owned if row["status"] == Ownership.OWNED} == {
        member["client_id"] for member in said["members"]
    }
    for group_id in (SHARE, STREAMS):
        _, entries, earlier = group_timeline(tables, group_id, None, None, 1_000)
        assert len(entries) + earlier >= len(whole(group_id)["rebalances"])
    assert [row["group_id"] for row in readers(tables, "pages")] == []
