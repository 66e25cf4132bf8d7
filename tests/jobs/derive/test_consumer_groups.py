"""Goal: groups of KIP-848 go through Spark into the same tables, however their log was cut and whenever the names of
their topics became known. The log is a real broker's (`tests.transforms.history.rules.consumer_groups`)."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask import engine
from groupledger.jobs.ask.named_queries import named_queries
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.validate import damaged_groups, validate
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.recorded_log import BEGAN_AT, add, log_rows, tables_of
from tests.jobs.simulated_log import content, run, table
from tests.transforms.history.rules.consumer_groups import consumer_groups
from tests.transforms.history.rules.consumer_groups import topic_names as names_by_id

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger

    Row = dict[str, Any]

pytestmark = pytest.mark.spark

BEHIND_THE_LOG = 100_000


def topic_names() -> dict[str, str]:
    return {f"{topic_id:A<22}": name for topic_id, name in names_by_id(consumer_groups()).items()}


def telling_commits() -> list[Row]:
    """Returns commits of another group that carry the topics' names beside the ids."""
    return [
        {
            "group_id": "other",
            "kafka_offset": BEHIND_THE_LOG + number,
            "kafka_timestamp": BEGAN_AT,
            "record_type": "offset_commit",
            "is_tombstone": False,
            "offset_commit": {"topic": name, "partition": 0, "offset": 1, "topic_id": topic_id},
        }
        for number, (topic_id, name) in enumerate(sorted(topic_names().items()))
    ]


@pytest.fixture(scope="module")
def at_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of the whole log in one pass, with names."""
    warehouse = tmp_path_factory.mktemp("at-once")
    add(spark, warehouse, [*log_rows(), *telling_commits()])
    run(spark, warehouse)
    return warehouse


def test_topics_have_names(spark: SparkSession, at_once: Path) -> None:
    """Goal: the owners' topics are called by the names that commits have, and nothing waits for a name."""
    owned = {(row.group_id, row.topic) for row in table(spark, at_once, ASSIGNMENTS).collect()}
    assert {("dynamic", "dynamic"), ("static", "static")} <= owned
    assert all(group == topic for group, topic in owned)
    assert {row.is_awaited for row in table(spark, at_once, TOPIC_NAMES).collect()} == {False}


def test_names_that_come_late(spark: SparkSession, at_once: Path, tmp_path: Path) -> None:
    """Goal: a log that is folded in three passes, the names coming with the last one, gives the tables of one pass, and
    `validate` finds nothing."""
    rows = log_rows()
    for part in (rows[:20], rows[20:]):
        add(spark, tmp_path, part)
        run(spark, tmp_path)
    owned = table(spark, tmp_path, ASSIGNMENTS).where("group_id != 'migrated'").collect()
    assert {row.topic for row in owned} <= topic_names().keys()
    add(spark, tmp_path, telling_commits())
    run(spark, tmp_path)
    assert tables_of(tmp_path) == tables_of(at_once)
    with open_test_ledger(spark, tmp_path) as ledger:
        assert validate(ledger) == []
        assert damaged_groups(ledger) == []


def test_names_that_come_in_a_later_unit(
    spark: SparkSession, at_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a first fold in units knows the names before its first unit, and gives the tables of one pass, with the
    pauses of rebalances."""
    monkeypatch.setattr("groupledger.jobs.derive.first_fold.RECORDS_PER_UNIT", 40)
    rows = [*log_rows(), *telling_commits()]
    for first in range(0, len(rows), 40):
        add(spark, tmp_path, rows[first : first + 40])
    run(spark, tmp_path)
    assert tables_of(tmp_path) == tables_of(at_once)


def test_names_from_samples(spark: SparkSession, at_once: Path, tmp_path: Path) -> None:
    """Goal: a sample of watermarks has the names, too, before any commit does."""

    def sample(ledger: Ledger, _stop: threading.Event) -> None:
        ledger.create(WATERMARKS)
        place = {"cluster": ledger.cluster, "sampled_at": BEGAN_AT, "sample_date": BEGAN_AT.date(), "partition": 0}
        rows = [place | {"topic_id": topic_id, "topic": name} for topic_id, name in topic_names().items()]
        ledger.commits.append(
            WATERMARKS, of_rows([tuple(row.get(name) for name in WATERMARKS.schema.names) for row in rows], WATERMARKS)
        )

    run(spark, tmp_path, sample)
    add(spark, tmp_path, log_rows())
    run(spark, tmp_path, update_history)
    assert content(tmp_path, ASSIGNMENTS) == content(at_once, ASSIGNMENTS)
    assert content(tmp_path, MEMBER_EPOCHS) == content(at_once, MEMBER_EPOCHS)


def test_who_waited_for_whom(at_once: Path) -> None:
    """Goal: the query that ships says who waited for which partitions, and that the waits are over."""
    (query,) = (each for each in named_queries() if each.name == "slow-reconciliations")
    answer = engine.ask(Snapshots(str(at_once)), query.text, query.arguments({})).to_pylist()
    waited = {(row["group_id"], row["epoch"], row["topic"], row["partition"]) for row in answer}
    assert {("dynamic", 2, "dynamic", 2), ("dynamic", 2, "dynamic", 3), ("static", 2, "static", 1)} <= waited
    assert all(row["waited_since"] < row["waited_until"] and row["held_by"] for row in answer)


def test_who_held_up_the_others(spark: SparkSession, at_once: Path, tmp_path: Path) -> None:
    """Goal: if records gather in a partition that a member kept from another, the incident names this member. The tests
    of the rules show when there is no incident."""
    waits = [
        (step["valid_to"] - step["targeted_at"], step["targeted_at"] - BEGAN_AT.replace(tzinfo=None), of)
        for step in table(spark, at_once, MEMBER_EPOCHS).where("group_id = 'dynamic'").collect()
        for of in step["waits_for"]
        if of["held_by"] is not None
    ]
    lasted, began_after, of = max(waits, key=lambda wait: (wait[0], -wait[1], -wait[2]["partition"]))
    slower = math.ceil(timedelta(minutes=5) / lasted)
    rows = log_rows(slower)
    begun = BEGAN_AT + slower * began_after
    ended = begun + slower * lasted
    place = {"topic": of["topic"], "partition": of["partition"]}

    def commits(*times: datetime) -> list[Row]:
        fields = {"group_id": "dynamic", "record_type": "offset_commit", "is_tombstone": False}
        return [
            fields
            | {"kafka_offset": 2 * BEHIND_THE_LOG + number, "kafka_timestamp": at}
            | {"offset_commit": {**place, "offset": 100 + number}}
            for number, at in enumerate(times)
        ]

    before, after = begun - timedelta(minutes=1), ended + timedelta(minutes=1)
    add(spark, tmp_path, [*rows, *telling_commits(), *commits(before, after)])
    run(spark, tmp_path, partial(observe, begun=begun, until=ended, place=place, end=900))
    run(spark, tmp_path)
    run(spark, tmp_path, lambda ledger, _stop: update_incidents(ledger))
    found = [(row["kind"], row["member_id"]) for row in table(spark, tmp_path, INCIDENTS).collect()]
    assert ("reconciliation_stuck", of["held_by"]) in found
    assert [kind for kind, _ in found].count("reconciliation_stuck") == 1


def observe(ledger: Ledger, _stop: threading.Event, begun: datetime, until: datetime, place: Row, end: int) -> None:
    """Writes samples of a partition's end each minute, and that nothing is missing of the log."""
    for each in (WATERMARKS, COVERAGE):
        ledger.create(each)
    minutes = round((until - begun) / timedelta(minutes=1))
    samples = [
        {"sampled_at": begun + timedelta(minutes=n), "sample_date": begun.date(), "high_watermark": end, **place}
        for n in range(minutes)
    ]
    stretch = {"kafka_partition": 0, "from_offset": 0, "to_offset": 3 * BEHIND_THE_LOG, "completeness": "complete"}
    for written, written_rows in (
        (WATERMARKS, samples),
        (COVERAGE, [stretch | {"to_time": until + timedelta(minutes=5)}]),
    ):
        named = [{"cluster": ledger.cluster, **row} for row in written_rows]
        values = [tuple(row.get(name) for name in written.schema.names) for row in named]
        ledger.commits.append(written, of_rows(values, written))
