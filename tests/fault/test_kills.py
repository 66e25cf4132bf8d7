"""Goal: killed at any step, by itself or with its JVM, and started again, the ingest writes every row exactly once."""

from __future__ import annotations

import functools
import signal
from typing import TYPE_CHECKING

from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from lab.faults.contents import contents
from lab.warehouses.ledgers import coverage, positions
from tests.fault.topic import IngestProcess, fill, ingest, newest, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker

CHECKPOINT = "_checkpoints/test/coordinator_records"
KILLS = 3
BATCH = 1000
ALL = 411  # of the fixture, and ten more
SETTINGS = f"ingest: {{max_offsets_per_trigger: {BATCH}, trigger_interval_s: 1}}\n"


def has_grown(folder: Path, suffix: str, number: int) -> bool:
    return newest(folder, suffix) >= number


def test_killed_again_and_again(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: a kill after the plan of a batch, one after Delta's commit, one after Spark's, with and without Java; then
    equal tables."""
    fill(broker.bootstrap_servers, 40 * BATCH)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    warehouse, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    logs = [
        (warehouse / CHECKPOINT / "offsets", ""),
        (warehouse / "coordinator_records/_delta_log", ".json"),
        (warehouse / CHECKPOINT / "commits", ""),
    ]
    for kill in range(KILLS):
        folder, suffix = logs[kill % len(logs)]
        before = newest(folder, suffix)
        arguments = ("--conf", str(tmp_path / "settings.yaml"))
        with IngestProcess(warehouse, broker.bootstrap_servers, *arguments) as process:
            # The second new entry: the first may be a repetition of the batch that the last kill broke off. Delta's
            # log has the writer's fence before them.
            entries = 3 if suffix else 2
            wait_until(functools.partial(has_grown, folder, suffix, before + entries), "a new batch")
            process.kill(with_java=kill % 2 == 0)
    assert newest(logs[2][0]) < 40, "the job was over before it was killed so often"
    for either in (warehouse, unbroken):
        ingest(spark, either, broker.bootstrap_servers)
    found, expected = (contents(each)[COORDINATOR_RECORDS.name] for each in (warehouse, unbroken))
    assert found == expected
    covered = [row[:3] for row in coverage(warehouse)]
    assert covered == [row[:3] for row in coverage(unbroken)]


def test_two_writers_and_a_clean_stop(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: while one writes, a second is refused and names it; SIGINT ends the first cleanly, with all it read."""
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    warehouse = tmp_path / "warehouse"
    arguments = ("--conf", str(tmp_path / "settings.yaml"), "--continuous")
    with IngestProcess(warehouse, broker.bootstrap_servers, *arguments) as first:
        wait_until(lambda: newest(warehouse / CHECKPOINT / "commits") >= 0, "the first batch")
        code, said = IngestProcess(warehouse, broker.bootstrap_servers).finish()
        assert code == 3
        assert f"Another writer holds this warehouse: `groupledger ingest`, process {first.process.pid}" in said
        fill(broker.bootstrap_servers, 10)
        # In one more batch, or in two.
        wait_until(lambda: len(positions(warehouse)) == ALL, "all records")
        first.process.send_signal(signal.SIGINT)
        code, said = first.finish()
    assert code == 130, said
    found = positions(warehouse)
    assert len(set(found)) == len(found)
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 0


def test_the_broker_goes_and_comes_back(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: a continuous ingest waits for a broker that is away and goes on when it is back; while it waits, SIGTERM
    ends it all the same."""
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    warehouse = tmp_path / "warehouse"
    arguments = ("--conf", str(tmp_path / "settings.yaml"), "--continuous")
    with IngestProcess(warehouse, broker.bootstrap_servers, *arguments) as process:
        wait_until(lambda: newest(warehouse / CHECKPOINT / "commits") >= 0, "the first batch")
        broker.restart()
        fill(broker.bootstrap_servers, 10)
        wait_until(lambda: len(positions(warehouse)) == ALL, "the records after the restart")
        broker.stop()
        process.process.terminate()
        code, said = process.finish()
    assert code == 143, said
    assert "Traceback" not in said
    found = positions(warehouse)
    assert len(found) == len(set(found)) == ALL
