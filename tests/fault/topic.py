"""Make, fill and damage a broker's `__consumer_offsets`, and ingest it, for the fault tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.session import SHORT_LIVED
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.cleaned_topic import set_topic
from lab.kafka.local_broker import LocalBroker
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.rows import offset_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from groupledger.jobs.ingest.stream import Totals

PARTITIONS = 4
TIMEOUT_S = 600


@contextmanager
def filled_broker(folder: Path) -> Iterator[LocalBroker]:
    """A broker with some hundred records in four partitions of `__consumer_offsets`. Its retention begins at once, and
    not half a minute after its start."""
    properties = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "log.initial.task.delay.ms": "200",
        "log.retention.check.interval.ms": "200",
    }
    with LocalBroker(folder, properties=properties) as started:
        make_topic(started.bootstrap_servers)
        fill(started.bootstrap_servers, 400)
        yield started


def make_topic(bootstrap_servers: str, **security: str) -> None:
    """Makes the broker create the topic by the first commit of a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **security})
    if "orders" not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result()
    commit(bootstrap_servers, "first", **security)


def commit(bootstrap_servers: str, group: str, **security: str) -> None:
    """One simple consumer's commit, waiting until the coordinator is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, **security})
    try:
        wait_until(lambda: committed(consumer), "the coordinator")
    finally:
        consumer.close()


def committed(consumer: Consumer) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    except KafkaException:
        return False
    return True


def fill(bootstrap_servers: str, count: int) -> None:
    """`count` more commits, spread over the partitions. Only this client id may write to an internal topic."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "client.id": "__admin_client", "queue.buffering.max.messages": 500_000}
    )
    for number in range(count):
        key, value = offset_commit(group_id=f"group-{number % 97}", offset=number, commit_timestamp_ms=number)
        producer.produce(OFFSETS_TOPIC, value, key, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def delete_all_records(bootstrap_servers: str) -> None:
    """By retention, as an operator's mistake would, since DeleteRecords is refused for internal topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    set_topic(admin, {"cleanup.policy": "delete", "retention.ms": "1"})
    wait_until(lambda: is_empty(bootstrap_servers), "retention")
    set_topic(admin, {"cleanup.policy": "compact"})


def delete_topic(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].result()


def is_empty(bootstrap_servers: str) -> bool:
    _, topic = describe_offsets_topic(bootstrap_servers, load_settings().kafka)
    return topic.log_start_offset == topic.high_watermark


def commit_in_transaction(bootstrap_servers: str, name: str) -> Producer:
    """A producer with an open transaction that holds one offset commit."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "transactions"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 5)], consumer.consumer_group_metadata())
    consumer.close()
    return producer


def ingest(spark: SparkSession, warehouse: Path, bootstrap_servers: str, *, recover: bool = False) -> Totals:
    settings = load_settings()
    with open_test_ledger(spark, warehouse) as ledger:
        run = KafkaIngest(settings, bootstrap_servers, recover=recover)
        return ingest_kafka(ledger, run, threading.Event())


class LedgerProcess:
    """`groupledger COMMAND` as a process of its own, with everything that it starts; its words are piped to here, or
    go into a file."""

    def __init__(
        self,
        command: str,
        warehouse: Path | str,
        *arguments: str,
        words: int | IO[str] = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
        cluster: str | None = "test",
    ) -> None:
        where = ["--warehouse", str(warehouse), *(() if cluster is None else ("--cluster", cluster))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "groupledger.jobs.cli.main", command, *where, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=words,
            text=True,
            start_new_session=True,
            env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process, with its JVM, if it still runs."""
        if self.process.poll() is None:
            self.kill(with_java=True)

    def kill(self, *, with_java: bool) -> None:
        """SIGKILL to Python alone, which leaves Java to find out, or to both at once."""
        if with_java:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.communicate()

    def finish(self) -> tuple[int, str]:
        """Waits for the end, and returns exit code and standard error."""
        _, said = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, said


class IngestProcess(LedgerProcess):
    def __init__(self, warehouse: Path, bootstrap_servers: str, *arguments: str) -> None:
        super().__init__("ingest", warehouse, "--bootstrap-servers", bootstrap_servers, *arguments)


def newest(folder: Path, suffix: str = "") -> int:
    """Returns the highest number among the files of a log, -1 without files."""
    names = (path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {TIMEOUT_S} s for {what}")
        threading.Event().wait(0.02)
