"""Goal: a monitor that is killed, restarted, left by its broker and asked to stop loses and repeats nothing; and it
does all that there is to do: incidents, messages about them, and the import of logs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.kafka.forwarder import Forwarder
from lab.warehouses.ledgers import columns_of, positions
from tests.fault.monitor import MonitorProcess
from tests.fault.topic import ingest
from tests.jobs.notify.receiving import receiving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table
    from lab.kafka.local_broker import LocalBroker
    from tests.jobs.notify.receiving import Receiving

GROUP = "first"  # of the fixture, on the topic `orders`
LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
LINE = (
    "[2026-02-10 09:45:00,126] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] Stabilized group g1"
    f" generation 4 with 2 members. ({LOGGER})\n"
)
COMMITTED = {"group": GROUP, "topic": "orders", "partition": "0"}
OFFSET = "kafka_consumergroup_group_offset"


def commit(bootstrap_servers: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def produce(bootstrap_servers: str, count: int) -> None:
    """Produces so many records, since a commit beyond the end of a log that goes back means nothing that is read
    again."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(count):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0


def messages_to(receiver: Receiving) -> list[tuple[str, list[str]]]:
    return [(body["event"], body["kinds"]) for body in receiver.bodies]


def rounds(warehouse: Path, table: Table) -> dict[Any, int]:
    """Rows by round; fails if one is there twice."""
    key = [name for name in ("topic", "partition", "group_id") if name in table.schema.names]
    rows = columns_of(warehouse, table, "sampled_at", *key)
    assert len(rows) == len(set(rows))
    return Counter(sampled_at for sampled_at, *_ in rows)


def test_killed_cut_off_and_stopped(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: after a kill in the middle, a broker that comes back at another address than the given one, which leads to
    it (for Spark's source as for the rounds), and a SIGTERM, every record and every round is in the tables once, no
    round lacks its lag, and the metrics showed each commit; a rewind was sent to a receiver, once, and the log that the
    settings name was imported."""
    (tmp_path / "server.log").write_text(LINE)
    with receiving() as receiver, Forwarder(broker.port) as front:
        settings = {
            "monitor": {"history_interval_s": 5, "incidents_interval_s": 5},
            "objectives": {"on-time": {"groups": GROUP, "lag_s": 3600, "target_percent": 99, "window_days": 1}},
            "logs": {"server_logs": [str(tmp_path / "server.log")], "poll_interval_s": 1},
            "notify": {"receivers": {"chat": {"kind": "json", "url": receiver.url, "severity": "warning"}}},
        }
        (tmp_path / "settings.yaml").write_text(json.dumps(settings))
        play(spark, tmp_path, broker, front, receiver)


def play(spark: SparkSession, tmp_path: Path, broker: LocalBroker, front: Forwarder, receiver: Receiving) -> None:
    warehouse, servers = tmp_path / "warehouse", front.address
    arguments = ("--interval", "2s", "--conf", str(tmp_path / "settings.yaml"))
    produce(servers, 5)
    with MonitorProcess(warehouse, servers, tmp_path / "killed.log", *arguments) as monitor:
        monitor.wait_until_shown(1, OFFSET, **COMMITTED)
        commit(servers, 2)
        monitor.wait_until_shown(2, OFFSET, **COMMITTED)
        monitor.kill(with_java=True)
    commit(servers, 3)
    with MonitorProcess(warehouse, servers, tmp_path / "stopped.log", *arguments) as monitor:
        monitor.wait_until_shown(3, OFFSET, **COMMITTED)
        monitor.wait_until(lambda: monitor.fetch("/readyz") == "ok\n", "a healthy monitor")
        broker.stop()
        monitor.wait_until(lambda: monitor.fetch("/readyz") == "", "an unhealthy monitor")
        broker.move()
        front.target = broker.port
        commit(servers, 4)
        monitor.wait_until_shown(4, OFFSET, **COMMITTED)
        commit(servers, 1)
        rewind = {"group": GROUP, "kind": "offset_rewind"}
        monitor.wait_until(lambda: monitor.value("groupledger_open_incidents", **rewind) == 1, "the rewind")
        assert monitor.value("groupledger_incidents_total", kind="offset_rewind", evidence="inferred") == 1
        monitor.wait_until(lambda: monitor.value("groupledger_open_diagnoses", group=GROUP) == 1, "its diagnosis")
        assert monitor.value("kafka_consumergroup_group_commits_total", group=GROUP) == 2
        # A broker that stops in order gives its partitions up, which is an election of nobody, and takes them again.
        assert (monitor.value("kafka_consumergroup_group_coordinator_moves_total", group=GROUP) or 0) >= 1
        assert (monitor.value("jvm_process_resident_memory_bytes") or 0) > 0
        assert (monitor.value("groupledger_ingest_records_total") or 0) > 0
        assert (monitor.value("groupledger_ingest_batch_seconds", phase="triggerExecution") or 0) > 0
        objective = {"objective": "on-time", "group": GROUP}
        states = ("on_time", "late", "unknown")
        minutes = [monitor.value("groupledger_objective_minutes", **objective, state=state) for state in states]
        assert sum(each or 0 for each in minutes) == 1_440
        monitor.wait_until(lambda: ("fired", ["offset_rewind"]) in messages_to(receiver), "a message")
        code = monitor.stop()
        assert code == 143, monitor.words
        assert "ended at once;" not in monitor.words
        assert "Traceback" not in monitor.words
    ingest(spark, warehouse, servers)
    found = positions(warehouse)
    _, topic = describe_offsets_topic(servers, load_settings().kafka)
    assert len(found) == len(set(found)) == sum(topic.high_watermark.values())  # nothing of it is transactional
    sampled = rounds(warehouse, WATERMARKS)
    assert len(set(sampled.values())) == 1
    assert rounds(warehouse, GROUP_STATES).keys() >= sampled.keys()
    assert rounds(warehouse, LAG).keys() == sampled.keys()
    assert messages_to(receiver) == [("fired", ["offset_rewind"])]
    assert columns_of(warehouse, LOG_FILES, "line_count", "row_count") == [(1, 1)]
