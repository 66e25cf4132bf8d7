"""Causes on a real broker what can happen to a committed offset, and prints the records that the broker writes of it.

`python -m lab.kafka.offset_removals FOLDER` prints a line for each record, with the last step that had begun by its
time. The broker's data lies in FOLDER. Offsets expire a minute after their group became empty, or, of a simple
consumer, a minute after their commit.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.local_broker import LocalBroker, run_tool
from lab.kafka.oracle import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RETENTION_S, CHECK_INTERVAL_MS = 60, 2_000
PROPERTIES = {
    "offsets.retention.minutes": str(RETENTION_S // 60),
    "offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS),
    "offsets.topic.num.partitions": "1",
}
KEPT, DELETED = "kept-topic", "deleted-topic"
RECORDS = 20
# What happens to the offsets of a group, by its name.
RESET, OFFSETS_DELETED, GROUP_DELETED = "reset", "offsets-deleted", "group-deleted"
EXPIRED, SIMPLE_EXPIRED, TOPIC_DELETED = "expired", "simple-expired", "topic-deleted"
WITH_MEMBERS = (RESET, OFFSETS_DELETED, GROUP_DELETED, EXPIRED, TOPIC_DELETED)
PAUSE_S = 0.5


@dataclass
class Play:
    """Says what has been done, and when each step began."""

    bootstrap_servers: str
    steps: list[tuple[int, str]] = field(default_factory=list)

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap_servers}

    def step(self, name: str) -> None:
        time.sleep(PAUSE_S)
        self.steps.append((time.time_ns() // 1_000_000, name))

    def tool(self, group: str, *words: str) -> None:
        run_tool(GROUPS_TOOL, "--bootstrap-server", self.bootstrap_servers, "--group", group, *words)

    def read_half(self, group: str) -> None:
        """A member reads both topics, commits half of what it read, and leaves."""
        consumer = Consumer(
            {**self.client, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([KEPT, DELETED])
        read = 0
        while read < 2 * RECORDS:
            read += len(consumer.consume(2 * RECORDS, 1.0))
        consumer.commit(offsets=half(), asynchronous=False)
        consumer.close()

    def commit_without_joining(self, group: str) -> None:
        consumer = Consumer({**self.client, "group.id": group})
        consumer.commit(offsets=half(), asynchronous=False)
        consumer.close()


def half() -> list[TopicPartition]:
    return [TopicPartition(topic, 0, RECORDS // 2) for topic in (KEPT, DELETED)]


def play(bootstrap_servers: str) -> Play:
    """Causes everything, and returns when all offsets that are left have expired."""
    play = Play(bootstrap_servers)
    admin = AdminClient(play.client)
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in (KEPT, DELETED)]).values():
        created.result()
    producer = Producer(play.client)
    for topic in (KEPT, DELETED):
        for _ in range(RECORDS):
            producer.produce(topic, b"x")
    producer.flush(30)
    play.step("members read half and leave, a simple consumer commits")
    for group in WITH_MEMBERS:
        play.read_half(group)
    play.commit_without_joining(SIMPLE_EXPIRED)
    play.step("a group is reset to the end")
    play.tool(RESET, "--reset-offsets", "--to-latest", "--all-topics", "--execute")
    play.step("a group is reset to the beginning")
    play.tool(RESET, "--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    play.step("the offsets of a topic are deleted")
    play.tool(OFFSETS_DELETED, "--delete-offsets", "--topic", KEPT)
    play.step("a group is deleted")
    play.tool(GROUP_DELETED, "--delete")
    play.step("a topic is deleted")
    admin.delete_topics([DELETED])[DELETED].result()
    time.sleep(1)
    play.step("offsets expire")
    time.sleep(RETENTION_S + CHECK_INTERVAL_MS / 1_000 + PAUSE_S)
    return play


def told(broker: LocalBroker, steps: list[tuple[int, str]]) -> Iterator[str]:
    """Yields a line for each record of the log."""
    stored = sorted(read_topic(broker, OFFSETS_TOPIC, "read_uncommitted").items())
    began_ms = stored[0][1].timestamp_ms
    step = None
    for (_, offset), each in stored:
        record = decode_record(each.key, each.value)
        newest = [name for at_ms, name in steps if at_ms <= each.timestamp_ms][-1]
        if newest != step:
            step = newest
            yield f"-- {step}"
        yield f"{offset} +{each.timestamp_ms - began_ms} {record.record_type} {record.key} {record.value}"


def main(folder: str) -> None:
    with LocalBroker(Path(folder), properties=PROPERTIES) as broker:
        for line in told(broker, play(broker.bootstrap_servers).steps):
            print(line)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
