"""Simulates an hour of very different groups, as `coordinator_records`, and makes ledgers with these rows."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.log_lines import render_line as render_server_line
from groupledger.coordinator.simulator.rejections import group_of
from groupledger.coordinator.simulator.request_log import render_line as render_request_line
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.scenarios.day import at_pace_of_day
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from groupledger.jobs.demo.simulate import capture_table
from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, TopicIdentity, write_source
from groupledger.jobs.warehouse.task_files import write_files
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.coverage.rules.stretches import Reading
from groupledger.transforms.records.decode import decode
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.simulator.simulation import Outputs
    from groupledger.coordinator.simulator.truth import Truth
    from groupledger.schemas.tables.table import Table

# What happens to a group, by its number.
PLAYED = (
    *("scale-out", "rolling-restart-static", "crash", "flapping-member", "leader-loss", "protocol-upgrade"),
    *("zombie-commits", "group-reborn", "coordinator-failover", "transactional-commits", "subscription-change"),
)
HOUR_MS = 3_600_000
PARTITIONS = 50  # of __consumer_offsets
SEED = 11
REQUESTS_OF = f"mix-{PLAYED.index('zombie-commits'):04d}"


def play(group: Script) -> None:
    at_pace_of_day(group)
    SCENARIOS[PLAYED[group.number]].play(group)


MIX = Scenario(
    name="mix", summary="One group of each kind.", play=play, hours=1, settings=Settings(Config()), groups=len(PLAYED)
)


@dataclass(frozen=True)
class Simulated:
    """A log, as `coordinator_records` rows, and what really happened. `broker_logs` holds each broker's server log,
    and its request log as far as it is about the group `REQUESTS_OF`."""

    rows: DataFrame
    truth: Truth
    broker_logs: Path

    def between(self, begin_minute: int, end_minute: int) -> DataFrame:
        at_ms = F.unix_millis("kafka_timestamp") - BEGAN_AT_MS
        return self.rows.where((at_ms >= begin_minute * 60_000) & (at_ms < end_minute * 60_000))


def damaged(simulated: Simulated) -> tuple[dict[int, list[Reading]], Column]:
    """Returns how a log was read in which each partition has a stretch that Kafka's cleaner has thinned, and a hole;
    and the condition for the rows in the holes."""
    source, readings, is_lost = Random(1), {}, F.lit(False)
    for partition, end in simulated.rows.groupBy("kafka_partition").agg(F.max("kafka_offset") + 1).collect():
        complete_from, hole, after = sorted(source.sample(range(1, end + 10), 3))
        begun = Reading(from_offset=0, complete_from=complete_from, complete_from_ms=BEGAN_AT_MS)
        again = Reading(from_offset=after, complete_from=after, complete_from_ms=BEGAN_AT_MS, resumed_from=hole)
        readings[partition] = [begun, again]
        is_lost |= (F.col("kafka_partition") == partition) & F.col("kafka_offset").between(hole, after - 1)
    return readings, is_lost


def simulate(spark: SparkSession, directory: Path) -> None:
    simulation = prepare(MIX, SEED)
    simulation.run(BEGAN_AT_MS + HOUR_MS)
    outputs = simulation.take(is_last=True)
    write_broker_logs(directory / "logs", outputs)
    log = capture_table(outputs.batches)
    pq.write_table(log, directory / "capture.parquet")
    decode(spark.read.parquet(str(directory / "capture.parquet"))).write.parquet(str(directory / "decoded"))
    (directory / "truth").write_bytes(pickle.dumps(simulation.recorder.truth))


def read_simulated(spark: SparkSession, directory: Path) -> Simulated:
    """Returns what `simulate` has written."""
    truth = pickle.loads((directory / "truth").read_bytes())  # noqa: S301 - our own
    return Simulated(spark.read.parquet(str(directory / "decoded")), truth, directory / "logs")


def write_broker_logs(directory: Path, outputs: Outputs) -> None:
    lines: dict[Path, list[str]] = {}
    for exchange in outputs.exchanges:
        if group_of(exchange.request) == REQUESTS_OF:
            path = directory / "request-log" / f"kafka-request-{exchange.broker_id}.log"
            lines.setdefault(path, []).append(render_request_line(exchange))
    for broker, event in outputs.events:
        path = directory / "server-log" / f"server-{broker}.log"
        lines.setdefault(path, []).append(render_server_line(event, broker_id=broker))
    for path, of_file in lines.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in of_file))


BORN = Reading(from_offset=0, complete_from=0, complete_from_ms=BEGAN_AT_MS)


def append(
    spark: SparkSession,
    warehouse: Path,
    rows: DataFrame,
    ingest_date: str = "2026-01-05",
    readings: Mapping[int, list[Reading]] | None = None,
) -> None:
    """One commit of the ingest, in files without an order, and the source that it writes first."""
    readings = {partition: [BORN] for partition in range(PARTITIONS)} | dict(readings or {})
    with open_test_ledger(spark, warehouse) as ledger:
        write_source(ledger.storage, "test", LedgerSource(CAPTURE, TopicIdentity("c", "t", PARTITIONS), readings))
        ledger.create(COORDINATOR_RECORDS)
        rows = rows.withColumn("cluster", F.lit("test")).withColumn("ingest_date", F.lit(ingest_date).cast("date"))
        rows = conform(rows, COORDINATOR_RECORDS).repartition(2, "kafka_offset")
        ledger.commits.add_files(COORDINATOR_RECORDS, write_files(rows, COORDINATOR_RECORDS, ledger.warehouse))


def run(spark: SparkSession, warehouse: Path, action: Callable[..., Any] = update_history) -> None:
    with open_test_ledger(spark, warehouse) as ledger:
        action(ledger, threading.Event())


def table(spark: SparkSession, warehouse: Path, which: Table) -> DataFrame:
    return spark.read.format("delta").load(str(warehouse / which.name))


def content(warehouse: Path, which: Table) -> list[str]:
    """Returns all rows, repeated ones too, in an order that is the same for equal tables."""
    return sorted(map(repr, dataset(str(warehouse), which).to_table().to_pylist()))


def assert_equal_tables(found: Path, expected: Path) -> None:
    for each in TABLES:
        assert content(found, each) == content(expected, each), each.name
