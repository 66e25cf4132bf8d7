"""Goal: with the file that `offsets --at` writes, Kafka's own reset tool brings a real group back to where it was."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.offsets_at import offsets_at, reset_file_lines
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.process.settings import load_settings
from lab.kafka.local_broker import run_tool
from lab.kafka.local_traffic import make_offsets_topic
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker

GROUP, TOPIC, RECORDS = "rewound", "rewound-topic", 50
RESET_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
BEFORE, AFTER = {0: 10, 1: 20}, {0: 40, 1: 45}


def ingest(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    with open_test_ledger(spark, warehouse) as ledger:
        ingest_kafka(ledger, KafkaIngest(load_settings(), broker.bootstrap_servers), threading.Event())


def test_offsets_of_then_restore_the_group(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    """Goal: a bad reset follows commits; the file with the offsets of the instant between them brings the group back to
    these offsets."""
    client: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    make_offsets_topic(broker.bootstrap_servers)
    admin = AdminClient(client)
    admin.create_topics([NewTopic(TOPIC, len(BEFORE), 1)])[TOPIC].result()
    producer = Producer(client)
    for number in range(RECORDS * len(BEFORE)):
        producer.produce(TOPIC, b"", partition=number % len(BEFORE))
    assert producer.flush(30) == 0
    consumer = Consumer({**client, "group.id": GROUP})
    ingest(spark, tmp_path, broker)  # earlier records are compacted coverage; from here on all is known

    def commit(offsets: dict[int, int]) -> None:
        places = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)

    commit(BEFORE)
    time.sleep(0.05)  # so that the instant lies between the two records' milliseconds
    at = datetime.now(timezone.utc)
    time.sleep(0.05)
    commit(AFTER)
    ingest(spark, tmp_path, broker)
    found = offsets_at(ClusterRows(str(tmp_path), "test"), [GROUP], at)
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join(reset_file_lines([GROUP], found)) + "\n")
    server = ("--bootstrap-server", broker.bootstrap_servers)
    said = run_tool(RESET_TOOL, *server, "--group", GROUP, "--reset-offsets", "--from-file", str(plan), "--execute")
    places = consumer.committed([TopicPartition(TOPIC, partition) for partition in BEFORE], timeout=30)
    consumer.close()
    assert {place.partition: place.offset for place in places} == BEFORE, said
