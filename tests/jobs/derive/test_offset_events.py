"""Goal: each reset, deletion and expiry in a real broker's log is reported with its cause, however the log is cut into
passes.

`data/offset_removals.jsonl` is the log of a broker; `python -m lab.kafka.offset_removals` makes it again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

import groupledger.jobs.derive.offset_events
from groupledger.jobs.derive.history import rebuild_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.ingest.samples import append_rows
from groupledger.jobs.monitor.expiry_ahead import first_expiries
from groupledger.jobs.process.settings import OffsetSettings
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.source import read_source, write_source
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.kinds.incidents import (
    LOST_TO_RETENTION,
    OFFSET_REWIND,
    OFFSET_SKIP,
    OFFSETS_EXPIRE_SOON,
    OFFSETS_EXPIRED,
)
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.words import OffsetEventCause as Cause
from groupledger.schemas.words import OffsetEventKind as Kind
from groupledger.transforms.coverage.rules.stretches import Reading
from groupledger.transforms.records.decode import decode
from lab.kafka import offset_removals as played
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.killed import KilledError, kill
from tests.jobs.simulated_log import append, content, run, table

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger

RECORDED = Path(__file__).with_name("data") / "offset_removals.jsonl"
FIRST_DAY = "2026-01-04"


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    rows = {
        "key": [bytes.fromhex(line["key"]) for line in lines],
        "value": [None if line["value"] is None else bytes.fromhex(line["value"]) for line in lines],
        "partition": pa.array([0] * len(lines), pa.int32()),
        "offset": [line["kafka_offset"] for line in lines],
        "timestamp": pa.array([line["timestamp_ms"] for line in lines], pa.timestamp("ms", "UTC")),
    }
    path = str(tmp_path_factory.mktemp("recorded") / "log.parquet")
    pq.write_table(pa.table(rows), path)
    return decode(spark.read.parquet(path)).persist()


def update(ledger: Ledger, _stop: threading.Event | None = None) -> int:
    retention = OffsetSettings(
        retention_s=played.RETENTION_S, retention_check_interval_s=played.CHECK_INTERVAL_MS // 1_000
    )
    return update_offset_events(replace(ledger, settings=ledger.settings.model_copy(update={"offsets": retention})))


def find_events(spark: SparkSession, warehouse: Path) -> None:
    run(spark, warehouse)
    run(spark, warehouse, update)


@pytest.fixture(scope="module")
def reported(spark: SparkSession, recorded: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a ledger that has read the whole log, on two days, and found its events at once."""
    warehouse = tmp_path_factory.mktemp("ledger")
    append(spark, warehouse, recorded.where(F.col("kafka_offset") < second_day(recorded)), FIRST_DAY)
    append(spark, warehouse, recorded.where(F.col("kafka_offset") >= second_day(recorded)))
    find_events(spark, warehouse)
    return warehouse


def assert_same_events(found: Path, expected: Path) -> None:
    for each in (OFFSET_EVENTS, COMMITTED_OFFSETS):
        assert content(found, each) == content(expected, each), each.name


def test_everything_is_reported_with_its_cause(spark: SparkSession, reported: Path) -> None:
    """Goal: each of the things that happened to an offset is there once, and nothing else."""
    found = table(spark, reported, OFFSET_EVENTS).select(*played.EVENT_COLUMNS).collect()
    assert sorted(map(tuple, found), key=str) == sorted(played.expected(), key=str)


def cuts(recorded: DataFrame) -> list[int]:
    """Returns offsets inside of three operations: a group's deletion, a topic's, and the last cleanup."""
    removals = recorded.where("is_tombstone").orderBy("kafka_offset").collect()
    ends = [row.kafka_offset for row in removals if row.record_type == "group_metadata"]
    of_topic = [
        row.kafka_offset
        for row in removals
        if row.offset_commit is not None and row.offset_commit.topic == played.DELETED
    ]
    return [ends[0], of_topic[-1], ends[-1]]


def second_day(recorded: DataFrame) -> int:
    """Returns the offset of the first record of the second day."""
    return cuts(recorded)[0] + 1


def test_expiry_is_foretold(spark: SparkSession, recorded: DataFrame, tmp_path: Path) -> None:
    """Goal: before the last cleanups the monitor says of each group, of all types, when the broker then expired its
    offset: at its first look after that."""
    of = [group for (group, _), (kind, _) in played.REMOVALS.items() if kind == Kind.EXPIRED]
    is_expiry = F.col("is_tombstone") & F.col("group_id").isin(of) & (F.col("offset_commit.topic") == played.KEPT)
    at_ms = F.unix_millis("kafka_timestamp").alias("at_ms")
    expired = recorded.where(is_expiry).select("group_id", at_ms, "kafka_offset").collect()
    first = min(row.kafka_offset for row in expired)
    append(spark, tmp_path, recorded.where(F.col("kafka_offset") < first))
    find_events(spark, tmp_path)
    with open_test_ledger(spark, tmp_path) as ledger:
        foretold = first_expiries(ledger, played.RETENTION_S * 1_000, {})
    late_ms = {row.group_id: row.at_ms - foretold.pop(row.group_id) for row in expired}
    assert late_ms.keys() == {*of}
    assert all(0 <= ms <= played.CHECK_INTERVAL_MS for ms in late_ms.values()), late_ms
    assert not foretold


def test_any_cut_and_any_kill(
    spark: SparkSession, recorded: DataFrame, reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: cut inside of operations, broken off between the tables and before the note, and found again after a
    rebuild of the history: the same tables."""
    job = groupledger.jobs.derive.offset_events

    def kill_before_the_last(ledger: Ledger, which: Any, rows: Any) -> None:
        kill() if which is COMMITTED_OFFSETS else upsert_arrow(ledger, which, rows)

    killers: list[tuple[str, Callable[..., None]] | None] = [
        None,
        ("upsert_arrow", kill_before_the_last),
        ("note_progress", kill),
    ]
    begin = 0
    for end, killer in zip([*cuts(recorded), 10**6], [*killers, None], strict=True):
        append(spark, tmp_path, recorded.where(F.col("kafka_offset").between(begin, end - 1)))
        begin = end
        run(spark, tmp_path)
        if killer is not None:
            with monkeypatch.context() as patched, suppress(KilledError):
                patched.setattr(job, *killer)
                run(spark, tmp_path, update)
                pytest.fail("nothing was killed")
        run(spark, tmp_path, update)
    assert_same_events(tmp_path, reported)
    run(spark, tmp_path, rebuild_history)
    run(spark, tmp_path, update)
    assert_same_events(tmp_path, reported)


def test_a_pass_opens_only_what_was_added(
    spark: SparkSession, recorded: DataFrame, reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: each file of the table is opened by one pass. Only where a pass waits for the rest of an operation does the
    next one open its files again."""
    job = groupledger.jobs.derive.offset_events
    opened: list[int] = []

    def counted(*arguments: Any, **options: Any) -> DataFrame:
        rows = stored(*arguments, **options)
        opened.append(len(rows.inputFiles()))
        return rows

    stored = job._stored
    monkeypatch.setattr(job, "_stored", counted)
    begin = 0
    for end in (10, cuts(recorded)[0], 10**6):
        append(spark, tmp_path, recorded.where(F.col("kafka_offset").between(begin, end - 1)).coalesce(1))
        begin = end
        find_events(spark, tmp_path)
    waiting = opened[-2]
    assert sum(opened) == len(open_table(str(tmp_path), COORDINATOR_RECORDS).file_uris()) + waiting
    assert_same_events(tmp_path, reported)


def test_nothing_new_costs_nothing(spark: SparkSession, reported: Path) -> None:
    """Goal: a pass without new records commits nothing, not even a fence, and reads no table."""
    tables = (OFFSET_EVENTS, COMMITTED_OFFSETS)
    before = [open_table(str(reported), each).version() for each in tables]
    with open_test_ledger(spark, reported) as ledger:
        assert update(replace(ledger, spark=None)) == 0  # type: ignore[arg-type]
    assert [open_table(str(reported), each).version() for each in tables] == before


def test_rebuild_behind_retention(spark: SparkSession, recorded: DataFrame, reported: Path, tmp_path: Path) -> None:
    """Goal: an event stays as it was found when the records are gone that it rests on, and so does the offset."""
    warehouse = tmp_path / "copy"
    copytree(reported, warehouse)
    old = DeltaTable.forPath(spark, str(warehouse / COORDINATOR_RECORDS.name))
    old.delete(F.col("ingest_date") == F.lit(FIRST_DAY))
    run(spark, warehouse, rebuild_history)
    run(spark, warehouse, update)
    columns = [name for name in OFFSET_EVENTS.schema.names if name != "is_carried_over"]
    found, expected = (table(spark, each, OFFSET_EVENTS) for each in (warehouse, reported))
    assert sorted(found.select(columns).collect(), key=str) == sorted(expected.select(columns).collect(), key=str)
    rests_on_old = F.coalesce("commit_kafka_offset", "kafka_offset") < second_day(recorded)
    assert found.where(F.col("is_carried_over") != rests_on_old).isEmpty()
    assert content(warehouse, COMMITTED_OFFSETS) == content(reported, COMMITTED_OFFSETS)


def test_thinned_log(spark: SparkSession, recorded: DataFrame, tmp_path: Path) -> None:
    """Goal: if records may have been removed before they were read, a removal has no cause, and no move is reported."""
    append(spark, tmp_path, recorded)
    with open_test_ledger(spark, tmp_path) as ledger:
        source = read_source(ledger.storage, ledger.cluster)
        assert source is not None
        thinned = Reading(from_offset=0, complete_from=10**6, complete_from_ms=2**41)
        write_source(ledger.storage, ledger.cluster, replace(source, readings={0: [thinned]}))
    find_events(spark, tmp_path)
    events = table(spark, tmp_path, OFFSET_EVENTS)
    assert {tuple(row) for row in events.select("kind", "cause", "offset_before").distinct().collect()} == {
        (Kind.REMOVED, None, None)
    }
    assert events.count() == len(played.REMOVALS)


def test_lost_to_retention(spark: SparkSession, reported: Path, tmp_path: Path) -> None:
    """Goal: a commit that the log's start has passed is reported once, in as many passes as it takes, and stays after a
    rebuild of the history."""
    warehouse = tmp_path / "copy"
    copytree(reported, warehouse)
    columns = {name: [value] for name, value in LOST.items()}

    def sample(ledger: Ledger, minute: int, lost: int) -> None:
        ledger.create(LAG)
        append_rows(ledger, LAG, {**columns, "messages_lost": [lost]}, played_at_ms(minute))
        assert update(ledger) == 1

    with open_test_ledger(spark, warehouse) as ledger:
        for minute, lost in ((1, 3), (2, 5)):
            sample(ledger, minute, lost)
        assert update(ledger) == 0
    run(spark, warehouse, rebuild_history)
    run(spark, warehouse, update)
    events = table(spark, warehouse, OFFSET_EVENTS)
    found = events.where(F.col("kind") == Kind.LOST_TO_RETENTION).select(
        *("group_id", "offset_before", "offset_after", "records_skipped", "cause", "is_carried_over"),
        F.unix_millis("happened_at"),
    )
    assert [tuple(row) for row in found.collect()] == [("g", 7, 12, 5, Cause.LOG_START, False, played_at_ms(1))]
    assert events.count() == table(spark, reported, OFFSET_EVENTS).count() + 1


def test_what_was_meant_is_no_incident(spark: SparkSession, reported: Path, tmp_path: Path) -> None:
    """Goal: the only incidents among all the changes of offsets are those that went back: the deletions were intended,
    a skip was taken back, and no member came back to the expired offsets."""
    warehouse = tmp_path / "copy"
    copytree(reported, warehouse)
    with open_test_ledger(spark, warehouse) as ledger:
        source = read_source(ledger.storage, ledger.cluster)
        assert source is not None
        ledger.create(COVERAGE)
        write_coverage(ledger, source, {0: 10**6}, None)
        update_incidents(ledger)
    found = table(spark, warehouse, INCIDENTS).select("kind", "group_id").collect()
    about_offsets = {OFFSET_REWIND, OFFSET_SKIP, OFFSETS_EXPIRED, LOST_TO_RETENTION, OFFSETS_EXPIRE_SOON}
    names = {kind.name for kind in about_offsets}
    assert {(row.kind, row.group_id) for row in found if row.kind in names} == {
        (OFFSET_REWIND.name, group) for group in (played.RESET, played.WENT_BACK)
    }


LOST = {"group_id": "g", "topic": "t", "partition": 0, "kafka_partition": 0, "kafka_offset": 3, "committed_offset": 7}


def played_at_ms(minute: int) -> int:
    return 1_760_000_000_000 + minute * 60_000
