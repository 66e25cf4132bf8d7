"""Goal: a monitor that is killed, restarted, cut off from its broker and told to stop loses and repeats nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import functions as F

from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.settings import load_settings
from lab.warehouses.ledgers import positions
from tests.fault.monitor import MonitorProcess
from tests.fault.topic import ingest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker

GROUP = "first"  # of the fixture, on the topic `orders`
SETTINGS = "monitor: {history_interval_s: 5}\n"
COMMITTED = {"group": GROUP, "topic": "orders", "partition": "0"}
OFFSET = "kafka_consumergroup_group_offset"


def commit(bootstrap_servers: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def rounds(spark: SparkSession, warehouse: Path, table: str) -> dict[Any, int]:
    """Rows by round; fails if one is there twice."""
    rows = spark.read.format("delta").load(str(warehouse / table))
    key = [name for name in ("topic", "partition", "group_id") if name in rows.columns]
    found = rows.groupBy("sampled_at").agg(F.count("*"), F.countDistinct(F.struct(*key))).collect()
    assert all(count == distinct for _, count, distinct in found)
    return {sampled_at: count for sampled_at, count, _ in found}


def test_killed_cut_off_and_stopped(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: after a kill in the middle, a restart of the broker and a SIGTERM, every record and every round is in the
    tables once, no round lacks its lag, and the metrics showed each commit."""
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    warehouse, servers = tmp_path / "warehouse", broker.bootstrap_servers
    arguments = ("--interval", "2s", "--conf", str(tmp_path / "settings.yaml"))
    with MonitorProcess(warehouse, servers, tmp_path / "killed.log", *arguments) as monitor:
        monitor.wait_until_shown(1, OFFSET, **COMMITTED)
        commit(servers, 2)
        monitor.wait_until_shown(2, OFFSET, **COMMITTED)
        monitor.kill(with_java=True)
    commit(servers, 3)
    with MonitorProcess(warehouse, servers, tmp_path / "stopped.log", *arguments) as monitor:
        monitor.wait_until_shown(3, OFFSET, **COMMITTED)
        monitor.wait_until(lambda: monitor.fetch("/healthz") == "ok\n", "a healthy monitor")
        broker.stop()
        monitor.wait_until(lambda: monitor.fetch("/healthz") == "", "an unhealthy monitor")
        broker.start()
        commit(servers, 4)
        monitor.wait_until_shown(4, OFFSET, **COMMITTED)
        code = monitor.stop()
        assert code == 0, monitor.words
        assert "Traceback" not in monitor.words
    ingest(spark, warehouse, servers)
    found = positions(spark, warehouse)
    _, topic = describe_offsets_topic(servers, load_settings().kafka)
    assert len(found) == len(set(found)) == sum(topic.high_watermark.values())  # nothing of it is transactional
    sampled = rounds(spark, warehouse, "watermarks")
    assert len(set(sampled.values())) == 1
    assert rounds(spark, warehouse, "group_states").keys() >= sampled.keys()
    assert rounds(spark, warehouse, "lag").keys() == sampled.keys()
