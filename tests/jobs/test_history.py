"""Goal: the history tables hold the truth, however the log was cut and wherever the job was killed."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import jobs.history
from coordinator.config import Config
from coordinator.simulator.run import prepare
from coordinator.simulator.scenarios import SCENARIOS
from coordinator.simulator.scenarios.day import at_pace_of_day
from coordinator.simulator.scenarios.registry import Scenario
from coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from jobs.errors import InputError, OutsideError
from jobs.history import TABLES, rebuild_history, update_history
from jobs.offsets_topic import TopicIdentity
from jobs.simulate import capture_table
from jobs.source import CAPTURE, Source, write_source
from jobs.upsert import upsert
from jobs.validate import has_errors, print_findings, validate
from jobs.warehouse import create_table, table_path
from schemas.tables.assignments import ASSIGNMENTS
from schemas.tables.coordinator_records import COORDINATOR_RECORDS
from schemas.tables.generations import GENERATIONS
from tests.jobs.ledgers import open_test_ledger
from transforms.coverage import Reading
from transforms.decode import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from coordinator.simulator.scenarios.script import Script
    from coordinator.simulator.truth import Truth
    from schemas.tables.table import Table

# What happens to a group, by its number.
PLAYED = (
    *("scale-out", "rolling-restart-static", "crash", "flapping-member", "leader-loss", "protocol-upgrade"),
    *("zombie-commits", "group-reborn", "coordinator-failover", "transactional-commits", "subscription-change"),
)
HOUR_MS = 3_600_000
# The log is cut at these minutes, and the job is killed when it has written so many tables of each cut.
CUTS = {20: 1, 61: 3}
SEED = 11


def play(group: Script) -> None:
    at_pace_of_day(group)
    SCENARIOS[PLAYED[group.number]].play(group)


MIX = Scenario("mix", "One group of each kind.", play, hours=1, settings=Settings(Config()), groups=len(PLAYED))


@dataclass(frozen=True)
class Simulated:
    """A log, as `coordinator_records` rows, and what really happened."""

    rows: DataFrame
    log: pa.Table
    truth: Truth


@pytest.fixture(scope="module")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    simulation = prepare(MIX, SEED)
    simulation.run(BEGAN_AT_MS + HOUR_MS)
    log = capture_table(simulation.take(is_last=True).batches)
    directory = tmp_path_factory.mktemp("log")
    pq.write_table(log, directory / "capture.parquet")
    decode(spark.read.parquet(str(directory / "capture.parquet"))).write.parquet(str(directory / "decoded"))
    return Simulated(spark.read.parquet(str(directory / "decoded")), log, simulation.recorder.truth)


def append(spark: SparkSession, warehouse: Path, rows: DataFrame, to_offsets: Mapping[int, int]) -> None:
    """One commit of the ingest, in files without an order, and the source that it writes first."""
    readings = {partition: [Reading(BEGAN_AT_MS, 0, 0)] for partition in to_offsets}
    with open_test_ledger(spark, warehouse) as ledger:
        write_source(ledger.storage, "test", Source(CAPTURE, TopicIdentity("c", "t", 50), readings))
        create_table(spark, str(warehouse), COORDINATOR_RECORDS)
    rows = rows.withColumn("cluster", F.lit("test")).withColumn("ingest_date", F.lit("2026-01-05").cast("date"))
    rows.repartition(2, "kafka_offset").write.format("delta").mode("append").save(
        table_path(str(warehouse), COORDINATOR_RECORDS)
    )


def ends(log: pa.Table) -> dict[int, int]:
    found: dict[int, int] = {}
    for partition, offset in zip(log["partition"].to_pylist(), log["offset"].to_pylist(), strict=True):
        found[partition] = max(found.get(partition, 0), offset + 1)
    return found


def run(spark: SparkSession, warehouse: Path, action: Callable[..., Any] = update_history) -> None:
    with open_test_ledger(spark, warehouse) as ledger:
        action(ledger, threading.Event())


def table(spark: SparkSession, warehouse: Path, which: Table) -> DataFrame:
    return spark.read.format("delta").load(table_path(str(warehouse), which))


def content(spark: SparkSession, warehouse: Path, which: Table) -> list[str]:
    """All rows, repeated ones too, in an order that is the same for equal tables."""
    return sorted(map(repr, table(spark, warehouse, which).toArrow().to_pylist()))


def assert_equal_tables(spark: SparkSession, found: Path, expected: Path) -> None:
    for each in TABLES:
        assert content(spark, found, each) == content(spark, expected, each), each.name


@pytest.fixture(scope="module")
def whole(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of the log in one piece."""
    warehouse = tmp_path_factory.mktemp("whole")
    append(spark, warehouse, simulated.rows, ends(simulated.log))
    run(spark, warehouse)
    return warehouse


def micros(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def test_generations_are_the_truth(spark: SparkSession, simulated: Simulated, whole: Path) -> None:
    """Goal: every generation that left a record, with its leader and its members, and no other."""
    columns = ("group_id", "incarnation", "generation", "revision", "leader", "member_count", "kafka_offset")
    found = sorted(map(tuple, table(spark, whole, GENERATIONS).select(*columns).collect()), key=str)
    expected = [
        (row.group_id, row.incarnation, row.generation, row.revision, row.leader, len(row.member_ids), row.kafka_offset)
        for row in simulated.truth.generations
        if row.kafka_offset is not None
    ]
    assert found == sorted(expected, key=str)


def test_owners_are_the_truth(spark: SparkSession, simulated: Simulated, whole: Path) -> None:
    """Goal: every interval of ownership, from the record that began it to the one that ended it."""
    columns = ("group_id", "incarnation", "topic", "partition", "member_id", "client_id", "from_offset")
    rows = table(spark, whole, ASSIGNMENTS).selectExpr(
        *columns, "from_generation", "to_generation", "unix_micros(valid_from)", "unix_micros(valid_to)"
    )
    found = sorted((tuple(row) for row in rows.collect()), key=str)
    expected = [
        (
            *(row.group_id, row.incarnation, row.topic, row.partition, row.member_id, row.client_id),
            *(row.from_kafka_offset, row.from_generation, None if row.valid_to_ms is None else row.to_generation),
            *(micros(row.valid_from_ms), micros(row.valid_to_ms)),
        )
        for row in simulated.truth.owners
    ]
    assert found == sorted(expected, key=str)


class KilledError(Exception):
    """Stands for a SIGKILL: nothing after it happens, and what is written stays written."""


class KillBefore:
    """An upsert that ends the run before so many tables are written."""

    def __init__(self, survived: int) -> None:
        self.survived = survived
        self.has_killed = False

    def __call__(self, warehouse: str, which: Table, rows: DataFrame) -> None:
        if self.survived == 0:
            self.has_killed = True
            raise KilledError
        self.survived -= 1
        upsert(warehouse, which, rows)


def test_any_cut_and_any_kill(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: batches of any size, broken off between two table writes and run again, give the same tables."""
    begin_ms = BEGAN_AT_MS
    for minutes, survived in CUTS.items():
        end_ms = BEGAN_AT_MS + minutes * 60_000
        at = F.unix_millis("kafka_timestamp")
        append(spark, tmp_path, simulated.rows.where((at >= begin_ms) & (at < end_ms)), ends(simulated.log))
        begin_ms = end_ms
        kill = KillBefore(survived)
        with monkeypatch.context() as patched, suppress(KilledError, OutsideError):
            patched.setattr(jobs.history, "upsert", kill)
            run(spark, tmp_path)
        assert kill.has_killed
        run(spark, tmp_path)
    assert_equal_tables(spark, tmp_path, whole)
    run(spark, tmp_path, rebuild_history)
    assert_equal_tables(spark, tmp_path, whole)


def test_validate_finds_a_planted_lie(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: nothing is found in a true history; a leader who is no member is, as a row, and on standard output."""
    with open_test_ledger(spark, whole) as ledger:
        assert validate(ledger) == []
    one = simulated.rows.where("group_id = 'mix-0000' and record_type = 'group_metadata' and kafka_offset > 1")
    lie = F.regexp_replace("record_json", '"leader": "[^"]*"', '"leader": "nobody"')
    append(spark, tmp_path, one.withColumn("record_json", lie), ends(simulated.log))
    with open_test_ledger(spark, tmp_path) as ledger:
        findings = validate(ledger)
    assert {(row.group_id, row.finding, row.severity) for row in findings} == {
        ("mix-0000", "leader_is_no_member", "error")
    }
    assert has_errors(findings)
    print_findings(findings, as_json=True)
    assert [json.loads(line)["finding"] for line in capsys.readouterr().out.splitlines()] == [
        row.finding for row in findings
    ]


def test_tables_that_are_gone(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """Goal: a history whose tables were deleted is not begun again in the middle."""
    shutil.copytree(whole, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/members")
    with pytest.raises(InputError, match=r"tables members are gone: run `groupledger history --rebuild`"):
        run(spark, tmp_path / "copy")


def test_nothing_to_read(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: without coordinator_records the way to get them is named."""
    with pytest.raises(InputError, match="run `groupledger ingest` first"):
        run(spark, tmp_path)
