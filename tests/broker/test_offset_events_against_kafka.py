"""Goal: each change that a real broker makes to committed offsets is reported with its cause, in passes while it
happens."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from groupledger.jobs.derive.history import update_history
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from lab.kafka import offset_removals as played
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.test_offset_events import update
from tests.jobs.simulated_log import table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PAUSE_S = 15  # before the first pass, and twice as long before each further one


def make_pass(spark: SparkSession, warehouse: Path, bootstrap_servers: str) -> None:
    with open_test_ledger(spark, warehouse) as ledger:
        ingest_kafka(ledger, KafkaIngest(ledger.settings, bootstrap_servers), threading.Event())
        update_history(ledger, threading.Event())
        update(ledger)


def test_offset_events(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: resets, deletions of offsets, groups and a topic, and expiries, each once, and nothing else."""
    warehouse = tmp_path / "warehouse"
    with LocalBroker(tmp_path / "broker", properties=played.PROPERTIES) as broker, ThreadPoolExecutor(1) as player:
        make_offsets_topic(broker.bootstrap_servers)
        make_pass(spark, warehouse, broker.bootstrap_servers)  # from here on everything is known
        playing = player.submit(played.play, broker.bootstrap_servers)
        pause_s = PAUSE_S
        while wait({playing}, timeout=pause_s).not_done:
            make_pass(spark, warehouse, broker.bootstrap_servers)
            pause_s *= 2  # the steps come first; most of the time Kafka's clocks run
        playing.result()
        make_pass(spark, warehouse, broker.bootstrap_servers)
    found = table(spark, warehouse, OFFSET_EVENTS).select(*played.EVENT_COLUMNS).collect()
    assert sorted(map(tuple, found), key=str) == sorted(played.expected(), key=str)
