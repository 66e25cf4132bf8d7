"""Causes all events of committed offsets on a real broker, and stores the records that the broker writes.

`python -m lab.kafka.offset_removals FOLDER FILE` makes `FILE` again. It has a JSON line for each record in the order of
the log, with the last step that had begun by its time. FOLDER has the broker's data. The offsets of a classic group
expire two minutes after the group became empty; those of a simple consumer and of a KIP-848 group expire two minutes
after their commit.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import OffsetEventCause as Cause
from groupledger.schemas.words import OffsetEventKind as Kind
from lab.kafka.local_broker import LocalBroker, run_tool
from lab.kafka.oracle import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RETENTION_S, CHECK_INTERVAL_MS = 120, 2_000
PROPERTIES = {
    "offsets.retention.minutes": str(RETENTION_S // 60),
    "offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS),
    "offsets.topic.num.partitions": "1",
}
KEPT, DELETED = "kept-topic", "deleted-topic"
RECORDS, HALF = 20, 10
# Events of a group's offsets, by the group's name.
RESET, OFFSETS_DELETED, GROUP_DELETED = "reset", "offsets-deleted", "group-deleted"
EXPIRED, SIMPLE_EXPIRED, WENT_BACK = "expired", "simple-expired", "went-back"
MODERN_DELETED, MODERN_EXPIRED = "modern-deleted", "modern-expired"
WITH_MEMBERS = (RESET, OFFSETS_DELETED, GROUP_DELETED, EXPIRED, MODERN_DELETED, MODERN_EXPIRED)
MODERN = (MODERN_DELETED, MODERN_EXPIRED)
BACK_TO = 4
PAUSE_S = 0.5


@dataclass
class Play:
    """Runs the actions, and stores in `steps` the time in milliseconds at which each step began."""

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

    def read(self, group: str, *offsets: int) -> None:
        """Lets a member of the group read both topics, commit each of `offsets` in turn, and leave."""
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.client, **settings, "group.protocol": "consumer" if group in MODERN else "classic"})
        consumer.subscribe([KEPT, DELETED])
        read = 0
        while read < 2 * RECORDS:
            read += len(consumer.consume(2 * RECORDS, 1.0))
        for offset in offsets:
            consumer.commit(offsets=at(offset), asynchronous=False)
        consumer.close()

    def commit_without_joining(self, group: str) -> None:
        consumer = Consumer({**self.client, "group.id": group})
        consumer.commit(offsets=at(HALF), asynchronous=False)
        consumer.close()


def at(offset: int) -> list[TopicPartition]:
    return [TopicPartition(topic, 0, offset) for topic in (KEPT, DELETED)]


def play(bootstrap_servers: str) -> Play:
    """Causes all events, and returns when all remaining offsets have expired."""
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
        play.read(group, HALF)
    play.commit_without_joining(SIMPLE_EXPIRED)
    play.step("a member goes back")
    play.read(WENT_BACK, HALF, BACK_TO)
    play.step("a group is reset to the end")
    play.tool(RESET, "--reset-offsets", "--to-latest", "--all-topics", "--execute")
    play.step("a group is reset to the beginning")
    play.tool(RESET, "--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    play.step("the offsets of a topic are deleted")
    play.tool(OFFSETS_DELETED, "--delete-offsets", "--topic", KEPT)
    play.step("two groups are deleted")
    for group in (GROUP_DELETED, MODERN_DELETED):
        play.tool(group, "--delete")
    play.step("a topic is deleted")
    admin.delete_topics([DELETED])[DELETED].result()
    time.sleep(1)
    play.step("offsets expire")
    time.sleep(RETENTION_S + CHECK_INTERVAL_MS / 1_000 + PAUSE_S)
    return play


# The expected rows of `offset_events`

EVENT_COLUMNS = (
    "group_id",
    "topic",
    "kind",
    "cause",
    "offset_before",
    "offset_after",
    "records_repeated",
    "records_skipped",
)
MOVES: dict[str, list[tuple[object, ...]]] = {
    RESET: [
        (Kind.SKIPPED, Cause.NO_MEMBER, HALF, RECORDS, None, RECORDS - HALF),
        (Kind.REWOUND, Cause.NO_MEMBER, RECORDS, 0, RECORDS, None),
    ],
    WENT_BACK: [(Kind.REWOUND, Cause.MEMBER, HALF, BACK_TO, HALF - BACK_TO, None)],
}
LAST_COMMIT = {RESET: 0, WENT_BACK: BACK_TO}
REMOVALS = {
    **{(group, KEPT): (Kind.EXPIRED, Cause.RETENTION) for group in (*WITH_MEMBERS, SIMPLE_EXPIRED, WENT_BACK)},
    **{
        (group, DELETED): (Kind.TOPIC_DELETED, Cause.TOPIC_DELETION)
        for group in (*WITH_MEMBERS, SIMPLE_EXPIRED, WENT_BACK)
    },
    **{
        (group, topic): (Kind.GROUP_DELETED, Cause.DELETE_REQUEST)
        for group in (GROUP_DELETED, MODERN_DELETED)
        for topic in (KEPT, DELETED)
    },
    (OFFSETS_DELETED, KEPT): (Kind.DELETED, Cause.DELETE_REQUEST_OR_TOPIC),
}


def expected() -> list[tuple[object, ...]]:
    """Returns the expected rows of `offset_events`, with the columns `EVENT_COLUMNS`."""
    return [(*place, *move) for place in REMOVALS for move in MOVES.get(place[0], [])] + [
        (*place, *removal, LAST_COMMIT.get(place[0], HALF), None, None, None) for place, removal in REMOVALS.items()
    ]


# The records


def stored_records(broker: LocalBroker, steps: list[tuple[int, str]]) -> Iterator[dict[str, object]]:
    """Yields the stored form of each record of the log, with its step."""
    for (_, offset), each in sorted(read_topic(broker, OFFSETS_TOPIC, "read_uncommitted").items()):
        yield {
            "step": [name for at_ms, name in steps if at_ms <= each.timestamp_ms][-1],
            "kafka_offset": offset,
            "timestamp_ms": each.timestamp_ms,
            "key": each.key.hex(),
            "value": None if each.value is None else each.value.hex(),
        }


def main(folder: str, file: str) -> None:
    with LocalBroker(Path(folder), properties=PROPERTIES) as broker:
        lines = [json.dumps(record) for record in stored_records(broker, play(broker.bootstrap_servers).steps)]
    Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
