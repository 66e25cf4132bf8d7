"""Runs three brokers as one cluster, and does to them what happens to brokers: they die, freeze, and lose leadership.

The first broker is the controller, and has no fault. Each partition of `__consumer_offsets` has a replica on each
broker, and its leader coordinates its groups. `happened` has what a caller noted, with the time of each note.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.local_broker import KAFKA_JARS, LocalBroker
from lab.kafka.matrix import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from typing_extensions import Self

BROKERS = 3
HEAP = "512m"
WAIT_S = 30
PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.min.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
}


class Cluster:
    """Three brokers, numbered from 1 on. A context manager starts and stops them."""

    def __init__(self, directory: Path, jars: Path = KAFKA_JARS, properties: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        every = {**PROPERTIES, **(properties or {})}
        first = LocalBroker(directory / "one", properties=every, heap=HEAP, jars=jars)
        others = (
            LocalBroker(directory / name, properties={**every, "node.id": number}, heap=HEAP, jars=jars, joins=first)
            for name, number in (("two", "2"), ("three", "3"))
        )
        self.brokers = [first, *others]
        self.happened: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        try:
            for broker in self.brokers:
                broker.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for broker in reversed(self.brokers):
            broker.stop()

    @property
    def servers(self) -> str:
        return ",".join(each.bootstrap_servers for each in self.brokers)

    def note(self, what: str) -> None:
        self.happened.append((now_ms(), what))

    def kill(self, number: int) -> None:
        self._signal(number, signal.SIGKILL)

    def bring_back(self, number: int) -> None:
        self.brokers[number - 1].restart()

    def freeze(self, number: int, seconds: float) -> None:
        self._signal(number, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, which: int) -> None:
        pid = self.brokers[number - 1].pid
        assert pid is not None
        os.kill(pid, which)

    def leaders(self) -> dict[int, int]:
        """Returns, for each partition of `__consumer_offsets`, the number of the broker that leads it, or -1 if it has
        no leader."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        found = admin.list_topics(OFFSETS_TOPIC, timeout=WAIT_S).topics[OFFSETS_TOPIC]
        return {number: each.leader for number, each in found.partitions.items()}

    def elect_preferred(self) -> None:
        """Makes the first replica of each partition its leader, in all topics."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})  # kept: its end would end the answer
        admin.elect_leaders(ElectionType.PREFERRED).result(WAIT_S)

    def move_leaders(self) -> None:
        """Puts another replica of each partition of `__consumer_offsets` first, and makes it the leader."""
        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            (topic,) = admin.describe_topics([OFFSETS_TOPIC])
            turned = {
                TopicPartition(OFFSETS_TOPIC, each["partition_index"]): _turned(each["replica_nodes"])
                for each in topic["partitions"]
            }
            admin.alter_partition_reassignments(turned)
        self.elect_preferred()

    def make_topics(self, names: Iterable[str], partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        for made in admin.create_topics([NewTopic(name, partitions, BROKERS) for name in names]).values():
            made.result(WAIT_S)


def _turned(replicas: list[int]) -> list[int]:
    return [*replicas[1:], replicas[0]]
