"""Goal: the ledger agrees with a broker and with `kafka-share-groups` about share groups, also after a prune."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.cli.main import main
from groupledger.jobs.derive.share_partitions import update_share_partitions
from groupledger.jobs.ingest import share_state
from groupledger.schemas.kafka.names import SHARE_STATE_TOPIC
from groupledger.schemas.tables.share_partitions import SHARE_PARTITIONS
from groupledger.schemas.tables.share_state_coverage import SHARE_STATE_COVERAGE
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from lab.kafka import local_broker
from lab.kafka.local_broker import KAFKA_JARS, SHORT_LIVED_JVM, LocalBroker, _java, run_tool
from lab.kafka.local_traffic import make_offsets_topic
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
PROGRAM = Path(local_broker.__file__).parent / "java" / "ShareConsumers.java"
GROUP, TOPIC = "deliveries", "parcels"
PRUNE_MS = 2_000
WAIT_S_MAX = 90
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
    "share.coordinator.state.topic.prune.interval.ms": str(PRUNE_MS),
}
Described = dict[int, tuple[int | None, int | None]]


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("sharing"), properties=PROPERTIES) as broker:
        make_offsets_topic(broker.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for made in admin.create_topics([NewTopic(TOPIC, 2, 1)]).values():
            made.result()
        yield broker


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


def put(broker: LocalBroker, partition: int, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(TOPIC, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def deliveries(value: str) -> int:
    """How often a record is delivered, until it is done or the broker's limit is reached."""
    words = value.split(",")
    return 5 if words[-1] == "release" else len(words)


@contextmanager
def share_consumer(broker: LocalBroker) -> Iterator[subprocess.Popen[str]]:
    command = [*_java(KAFKA_JARS), *SHORT_LIVED_JVM, str(PROGRAM), broker.bootstrap_servers, GROUP, TOPIC]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        watch = threading.Timer(WAIT_S_MAX, program.kill)
        watch.start()
        try:
            yield program
        finally:
            watch.cancel()
            program.kill()


def consume(broker: LocalBroker, count: int, *, leaves: bool = False) -> list[tuple[int, ...]]:
    """What was delivered, `count` times, as (partition, offset, delivery count); then the consumer is gone. One that
    `leaves` by itself may have been given less than all."""
    with share_consumer(broker) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        lines = list(program.stdout) if leaves else [next(program.stdout) for _ in range(count)]
        if not leaves:
            program.stdin.write("x")
            program.stdin.flush()
        assert program.wait(WAIT_S_MAX) == 0
    return [tuple(map(int, line.split("\t")[:3])) for line in lines]


def described(broker: LocalBroker) -> Described:
    """START-OFFSET and LAG by partition, as the tool prints them."""
    text = run_tool(TOOL, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", GROUP, "--offsets")
    rows = [line.split() for line in text.splitlines() if line.startswith(GROUP)]
    return {
        int(words[2]): (None if words[3] == "-" else int(words[3]), None if words[4] == "-" else int(words[4]))
        for words in rows
    }


def look(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> dict[int, dict[str, Any]]:
    """The newest round's rows by partition, after one more pass."""
    with open_test_ledger(spark, warehouse) as ledger:
        assert update_share_partitions(ledger, broker.bootstrap_servers) == 2
        rows = ledger.arrow(SHARE_PARTITIONS).to_pylist()
    newest = max(row["sampled_at"] for row in rows)
    return {row["partition"]: row for row in rows if row["sampled_at"] == newest}


def reported(rows: dict[int, dict[str, Any]], *columns: str) -> Described:
    return {partition: tuple(row[name] for name in columns) for partition, row in rows.items()}


def check_log(spark: SparkSession, warehouse: Path) -> list[tuple[int, int, str]]:
    """The stretches of the topic's partition, which every row lies in, each offset once."""
    with open_test_ledger(spark, warehouse) as ledger:
        rows = ledger.arrow(SHARE_STATE_RECORDS).to_pylist()
        coverage = ledger.arrow(SHARE_STATE_COVERAGE).to_pylist()
    assert all(row["decode_error"] is None for row in rows)
    stretches = sorted((row["from_offset"], row["to_offset"], row["completeness"]) for row in coverage)
    assert all(one[1] == other[0] for one, other in pairwise(stretches))
    assert sorted(row["kafka_offset"] for row in rows) == [
        offset for begin, end, word in stretches if word == "complete" for offset in range(begin, end)
    ]
    return stretches


def state_log(broker: LocalBroker) -> tuple[int, int]:
    """Where the log of the state topic begins and ends."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "watcher"})
    consumer.assign([TopicPartition(SHARE_STATE_TOPIC, 0, OFFSET_BEGINNING)])
    begin, end = consumer.get_watermark_offsets(TopicPartition(SHARE_STATE_TOPIC, 0), timeout=30, cached=False)
    consumer.close()
    return begin, end


def test_a_cluster_without_share_groups(spark: SparkSession, sharing: LocalBroker, warehouse: Path) -> None:
    """Goal: if the topic does not exist, a pass does nothing, and makes neither the table nor the topic."""
    for _ in range(2):
        with open_test_ledger(spark, warehouse) as ledger:
            assert update_share_partitions(ledger, sharing.bootstrap_servers) == 0
            assert not ledger.exists(SHARE_STATE_RECORDS)
    topics = AdminClient({"bootstrap.servers": sharing.bootstrap_servers}).list_topics(timeout=30).topics
    assert SHARE_STATE_TOPIC not in topics


def test_a_share_consumer(sharing: LocalBroker, warehouse: Path) -> None:
    """Goal: after accepts, releases and rejects, start offset and lag are exactly those of Kafka's tool; `share` shows
    the records that are delivered again and again."""
    values = {
        0: ("accept", "release,release,leave,accept", "reject", "release,accept", "accept"),
        1: ("release,accept", "release", "accept"),
    }
    for partition, each in values.items():
        put(sharing, partition, *each)
    given = consume(sharing, 0, leaves=True)
    assert {count for place, offset, count in given if (place, offset) == (0, 1)} == {1, 2, 3}
    assert all(count <= deliveries(values[place][offset]) for place, offset, count in given)
    put(sharing, 0, "accept", "accept")  # nobody reads these yet
    runner = CliRunner()
    place = ["--warehouse", str(warehouse), "--cluster", "test"]
    done = runner.invoke(main, ["pipeline", *place, "--bootstrap-servers", sharing.bootstrap_servers])
    assert done.exit_code == 0, done.output
    shown = runner.invoke(main, ["share", GROUP, *place, "--deliveries", "3", "--json"])
    rows = {row["partition"]: row for row in map(json.loads, shown.stdout.splitlines())}
    assert {row["topic"] for row in rows.values()} == {TOPIC}
    assert (
        reported(rows, "start_offset", "lag")
        == reported(rows, "broker_start_offset", "broker_lag")
        == described(sharing)
    )
    assert rows[0]["start_offset"] == 1
    assert rows[0]["redelivered"][0] == {"first_offset": 1, "last_offset": 1, "delivery_count": 3}
    assert rows[0]["lag"] == rows[0]["available_count"] + 2
    assert rows[0]["archived"][0]["first_offset"] == 2
    table = runner.invoke(main, ["share", GROUP, *place, "--deliveries", "3"])
    assert "1 (3)" in table.stdout
    unknown = runner.invoke(main, ["share", "no-such-group", *place])
    assert (unknown.exit_code, unknown.output.count(GROUP)) == (2, 1)


def test_a_prune_is_a_hole(spark: SparkSession, sharing: LocalBroker, warehouse: Path) -> None:
    """Goal: records that the broker pruned before they were read are a hole; the state after the hole is exact all the
    same; a pass that is cut short between its two tables repeats and loses nothing."""
    before = look(spark, warehouse, sharing)
    ((_, position, _),) = check_log(spark, warehouse)
    deadline = time.monotonic() + WAIT_S_MAX
    waiting = sum(row["lag"] for row in before.values()) - 2
    assert sum(row["available_count"] for row in before.values()) == waiting
    while state_log(sharing)[0] <= position:
        assert time.monotonic() < deadline, "the broker did not prune its topic"
        for partition in (0, 1):
            put(sharing, partition, *["release,accept"] * 3)
        consume(sharing, 12)
        time.sleep(PRUNE_MS / 1_000)
    begin, _ = state_log(sharing)
    rows = look(spark, warehouse, sharing)
    (first, hole, rest) = check_log(spark, warehouse)
    assert (first[1:], hole[0], hole[2]) == ((position, "complete"), position, "unknown")
    assert rest[0] == hole[1] >= begin  # it may have pruned once more
    assert (
        reported(rows, "start_offset", "lag")
        == reported(rows, "broker_start_offset", "broker_lag")
        == described(sharing)
    )
    put(sharing, 1, "accept")
    consume(sharing, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(share_state, "_grown", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(spark, warehouse, sharing)
    rows = look(spark, warehouse, sharing)
    assert len(check_log(spark, warehouse)) >= 3
    assert reported(rows, "start_offset", "lag") == described(sharing)
