"""What happened at the socket is recorded so that the pipeline reads it; the command runs as an operator runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from groupledger.jobs.cli.coordinator import config_of
from groupledger.jobs.cli.main import main
from groupledger.jobs.coordinator.recording import check_empty
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.tables import ClusterTables
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.requests import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PLACE = ("topic", "partition", "offset")
FAULTS = "faults: [{request: OFFSET_COMMIT, skip: 1, do: answer, error: ILLEGAL_GENERATION}]"


@contextmanager
def command(directory: Path) -> Iterator[str]:
    """Runs `groupledger coordinator` until the context ends; gives its bootstrap servers."""
    faults = directory / "faults.yaml"
    faults.write_text(FAULTS)
    program = [sys.executable, "-m", "groupledger.jobs.cli.main", "coordinator", "--listen", "127.0.0.1:0"]
    options = ["--topics", "orders:4", "--faults", str(faults), "--out", str(directory / "out")]
    broker_settings = ["--set", "group.initial.rebalance.delay.ms=0"]
    process = subprocess.Popen([*program, *options, *broker_settings], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        ready = re.match(r"bootstrap\.servers=(\S+) ", process.stderr.readline())
        assert ready is not None
        yield ready[1]
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
    assert process.wait() == 130, said
    assert "OFFSET_COMMIT of 'app-1' is answered with ILLEGAL_GENERATION" in said


def consume(bootstrap_servers: str) -> None:
    """Joins, commits offset 3 of partition 0, and is refused with the next commit."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "billing", "client.id": "app-1", "log_level": 2}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=True)
    for _ in range(20):
        consumer.poll(0.05)
    consumer.close()


def test_the_pipeline_reads_a_recording(spark: SparkSession, tmp_path: Path) -> None:
    """The records, the refused commit and the member's end are read as from a cluster, and nothing is left over."""
    with command(tmp_path) as bootstrap_servers:
        consume(bootstrap_servers)
    out, warehouse = tmp_path / "out", str(tmp_path / "warehouse")
    logs = [f"--request-log={file}" for file in sorted((out / "request-log").iterdir())]
    logs += [f"--server-log={file}" for file in sorted((out / "server-log").iterdir())]
    for words in (["import-logs", *logs], ["ingest", "--capture", str(out / "capture")]):
        result = CliRunner().invoke(main, [*words, "--warehouse", warehouse])
        assert result.exit_code == 0, result.output
    tables = ClusterTables(spark, warehouse, "default")
    records = tables.rows(COORDINATOR_RECORDS)
    offsets = records.filter("record_type = 'offset_commit'").select("offset_commit.*").select(*PLACE)
    assert [tuple(row) for row in offsets.collect()] == [("orders", 0, 3)]
    assert records.filter("decode_error IS NOT NULL").isEmpty()
    commits = tables.rows(REQUESTS).filter("api = 'OFFSET_COMMIT'").orderBy("happened_at").select("error", "client_id")
    assert [tuple(row) for row in commits.collect()] == [("NONE", "app-1"), ("ILLEGAL_GENERATION", "app-1")]
    clients = tables.rows(REQUESTS).select("client_software_name").distinct().collect()
    assert [tuple(row) for row in clients] == [("confluent-kafka-python",)]
    kinds = {row.kind for row in tables.rows(COORDINATOR_EVENTS).select("kind").collect()}
    assert {"stabilized", "member_left"} <= kinds
    assert tables.rows(LOG_QUARANTINE).isEmpty()


def test_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    """Nothing is recorded over something else."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not an empty directory"):
        check_empty(tmp_path)


def test_broker_settings() -> None:
    """Goal: `--set` takes the numbers of a broker's group settings, and its migration policy by name."""
    config = config_of(("group.consumer.migration.policy=upgrade", "group.max.size=3"))
    assert (config.upgrades_groups, config.downgrades_groups, config.group_max_size) == (True, False, 3)
    for wrong in ("group.consumer.migration.policy=sideways", "group.max.size=many", "no.such.setting=1"):
        with pytest.raises(InputError, match=r"group\.consumer\.migration\.policy"):
            config_of((wrong,))
