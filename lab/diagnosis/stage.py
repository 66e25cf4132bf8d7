"""Runs the environment of all plays: one broker, the processes of the clients, the topics, and their producers.

All plays share one timeline. Groups form until `CALM_S`, then something happens in each, and at the end the inputs of
the ledger are collected. Clients of one kind run in three processes: one is killed (`VICTIMS`), one is suspended for a
while (`FROZEN`), and one does neither (`STAYERS`), each with the members of all groups in it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.connection import Connection
from lab.kafka.matrix import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from lab.kafka.local_broker import LocalBroker

STAYERS, VICTIMS, FROZEN = "stayers", "victims", "frozen"
CALM_S = 75.0
"""When things begin to go wrong, by default, and how long after that processes are killed, stopped and go on."""
KILLED_AFTER_S, FROZEN_AFTER_S, THAWED_AFTER_S = 10.0, 15.0, 45.0
FEED_EVERY_S = 0.5
QUEUED_MAX = 50_000  # below librdkafka's own limit, at which it raises: the broker is slower than the rates
NEW_PARTITIONS = {"topic.metadata.refresh.interval.ms": 5_000}  # it writes to them as soon
PROPERTIES = {
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.min.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "4",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.retention.check.interval.ms": "5000",
}


class Feed(threading.Thread):
    """Writes to each topic partition at its rate, in records a second."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True, name="feed")
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "log_level": 2, "linger.ms": 100, **NEW_PARTITIONS}
        )
        self._rates: dict[tuple[str, int], float] = {}
        self._sizes: dict[str, int] = {}
        self._due: dict[tuple[str, int], float] = defaultdict(float)
        self._changing, self._stopped = threading.Lock(), threading.Event()

    def set(self, topic: str, rates: Mapping[int, float], size: int = 5) -> None:
        with self._changing:
            self._rates |= {(topic, partition): rate for partition, rate in rates.items()}
            self._sizes[topic] = size

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(FEED_EVERY_S):
            with self._changing:
                rates = dict(self._rates)
            for (topic, partition), rate in rates.items():
                self._due[topic, partition] += rate * FEED_EVERY_S
                while self._due[topic, partition] >= 1:
                    self._due[topic, partition] -= 1
                    while len(self._producer) >= QUEUED_MAX and not self._stopped.is_set():
                        self._producer.poll(FEED_EVERY_S)
                    with suppress(KafkaException):  # its topic is gone
                        self._producer.produce(topic, b"x" * self._sizes[topic], partition=partition)
            self._producer.poll(0)
        self._producer.flush(10)


class Stage:
    def __init__(self, broker: LocalBroker, seconds: float, calm_s: float = CALM_S) -> None:
        self.broker = broker
        self.servers = broker.bootstrap_servers
        self.seconds, self.calm_s = seconds, calm_s
        self.kill_s = calm_s + KILLED_AFTER_S
        self.freeze_s, self.thaw_s = calm_s + FROZEN_AFTER_S, calm_s + THAWED_AFTER_S
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        self.feed = Feed(self.servers)
        self._hosts: dict[tuple[str, str], Host] = {}
        self._opening = threading.Lock()
        self._opened = ExitStack()
        self.began = time.monotonic()

    def __enter__(self) -> Self:
        self.feed.start()
        self.began = time.monotonic()
        threading.Thread(target=self._kill_and_freeze, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.stop()
        self._opened.close()

    def now(self) -> float:
        return time.monotonic() - self.began

    def until(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds - self.now()))

    def host(self, client: str, role: str) -> Host:
        with self._opening:
            if (client, role) not in self._hosts:
                self._hosts[client, role] = host = Host(client, self.servers)
                self._opened.callback(host.kill)
            return self._hosts[client, role]

    def _kill_and_freeze(self) -> None:
        self.until(self.kill_s)
        for (_, role), host in list(self._hosts.items()):
            if role == VICTIMS:
                host.kill()
        for at, number in ((self.freeze_s, signal.SIGSTOP), (self.thaw_s, signal.SIGCONT)):
            self.until(at)
            for (_, role), host in list(self._hosts.items()):
                if role == FROZEN:
                    os.kill(host.pid, number)

    def make_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result()

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()

    def add_partitions(self, topic: str, count: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        place = TopicPartition(topic, partition, before)
        for answer in self.admin.delete_records([place]).values():
            answer.result()

    def limit_offsets_records(self, bytes_max: int) -> None:
        """Sets the maximum size of a record of __consumer_offsets."""
        entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result()

    def deny(self, resource: ResourceType, name: str) -> None:
        """Denies everybody to read a topic, or to join a group. It allows all other operations, because a resource with
        any ACL is closed except for what its ACLs allow."""
        wanted = ((AclOperation.ALL, AclPermissionType.ALLOW), (AclOperation.READ, AclPermissionType.DENY))
        pattern, everybody = ResourcePatternType.LITERAL, "User:ANONYMOUS"
        bindings = [AclBinding(resource, name, pattern, everybody, "*", *each) for each in wanted]
        for answer in self.admin.create_acls(bindings).values():
            answer.result()

    def limit_bytes(self, client_id: str, bytes_per_s: float) -> None:
        """Gives a client id a quota on its fetches, in bytes a second."""
        entry = AlterClientQuotasRequest.EntryData
        wanted = entry(
            entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
            ops=[entry.OpData(key="consumer_byte_rate", value=bytes_per_s, remove=False)],
        )
        connection = Connection(self.servers)
        answer = connection.call(AlterClientQuotasRequest(version=1, entries=[wanted], validate_only=False))
        connection.close()
        assert all(each.error_code == 0 for each in answer.entries), answer
