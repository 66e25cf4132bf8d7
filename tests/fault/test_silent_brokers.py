"""Goal: a micro-batch that can't be judged, since nobody answers, is neither kept nor in the way of a command's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.settings import load_settings
from lab.kafka.forwarder import Forwarder
from lab.warehouses.ledgers import positions
from tests.fault.monitor import STOP_SECONDS_MAX
from tests.fault.topic import LedgerProcess, fill, ingest, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker

NOBODY = 1  # a port that is free
WAITS = "waiting to learn whether the topic is still the same"


def test_stopped_while_nobody_answers(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: Spark knows the broker, and plans a batch while nobody answers at the given servers. It waits; then a
    broker answers, and the batch is kept. The next batch waits until SIGTERM, ends in time and in order, and keeps
    nothing; its records come with the next run."""
    warehouse, log, settings = tmp_path / "warehouse", tmp_path / "log", tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"ingest": {"trigger_interval_s": 1}, "kafka": {"request_timeout_ms": 2_000}}))
    with Forwarder(broker.port) as front, log.open("w") as words:
        options = ("--bootstrap-servers", front.address, "--conf", str(settings), "--continuous")
        with LedgerProcess("ingest", warehouse, *options, words=words) as process:
            wait_until(lambda: "batch 0:" in log.read_text(), "the first batch")
            for number in (1, 2):
                front.target = NOBODY
                fill(broker.bootstrap_servers, 8)
                wait_until(lambda number=number: log.read_text().count(WAITS) == number, "a batch that waits")  # type: ignore[misc]
                if number == 1:
                    front.target = broker.port
                    wait_until(lambda: "batch 1:" in log.read_text(), "a batch that is kept")
            process.process.terminate()
            assert process.process.wait(STOP_SECONDS_MAX) == 143, log.read_text()
        assert "ended at once;" not in log.read_text()
        assert "Traceback" not in log.read_text()
        front.target = broker.port
        assert ingest(spark, warehouse, front.address).rows >= 8
    found = positions(warehouse)
    _, topic = describe_offsets_topic(broker.bootstrap_servers, load_settings().kafka)
    assert len(found) == len(set(found)) == sum(topic.high_watermark.values())  # nothing of it is transactional
