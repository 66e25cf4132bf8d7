"""Reads a broker's `__consumer_offsets`: the bytes, and the output of Kafka's own tools.

Sources, all for the same broker after its history is made:
- the topic as a client reads it, committed and uncommitted (librdkafka);
- the segment files, with the control records that no client returns (kafka-python's record reader);
- `DumpLogSegments --offsets-decoder`, which prints the segment files;
- the console consumer's formatters, which print the topic without positions, so only a multiset can be compared.

A source that is read later may have more records than an earlier one: sessions still expire, and the console consumer
joins a group of its own. It never has fewer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from kafka.record import MemoryRecords

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.local_broker import KAFKA_JARS, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.kafka.local_broker import LocalBroker

READ_SECONDS = 1.0
QUIET_MS = 12_000  # the console consumer ends after this long without a record; its join must fit in, too

Position = tuple[int, int]  # partition and offset


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as the broker stores it: its time, and key and value as bytes."""

    timestamp_ms: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Printed:
    """A record as DumpLogSegments prints it, with the flags of its batch. A control record has `marker` and
    `coordinator_epoch` instead of key and payload."""

    timestamp_ms: int
    is_transactional: bool
    producer_id: int
    key: dict[str, Any] | None
    payload: dict[str, Any] | None
    marker: str | None = None
    coordinator_epoch: int | None = None


def read_topic(broker: LocalBroker, topic: str, isolation_level: str) -> dict[Position, Stored]:
    """Returns every record of the topic, up to the end that each partition has when the reader comes there.
    `isolation_level` is Kafka's setting."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "never joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
        }
    )
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        unfinished = set(partitions)
        records: dict[Position, Stored] = {}
        while unfinished:
            messages: list[Any] = consumer.consume(1_000, READ_SECONDS)
            for message in messages:
                error = message.error()
                if error is None:
                    position = (message.partition(), message.offset())
                    records[position] = Stored(message.timestamp()[1], message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    raise KafkaException(error)
        return records
    finally:
        consumer.close()


def segments(broker: LocalBroker, topic: str) -> list[Path]:
    return sorted(broker.data_directory.glob(f"{topic}-*/*.log"))


def partition_of(segment: Path) -> int:
    return int(segment.parent.name.rpartition("-")[2])


def read_control_records(broker: LocalBroker, topic: str) -> dict[Position, Stored]:
    """Returns the control records (transaction markers) in the segment files of a topic."""
    found: dict[Position, Stored] = {}
    for segment in segments(broker, topic):
        batches = MemoryRecords(segment.read_bytes())
        while batch := batches.next_batch():
            if batch.is_control_batch:
                for record in batch:
                    found[partition_of(segment), record.offset] = Stored(record.timestamp, record.key, record.value)
    return found


def dump(broker: LocalBroker, topic: str) -> dict[Position, Printed]:
    files = ",".join(map(str, segments(broker, topic)))
    output = run_tool(dump_tool(broker), "--offsets-decoder", "--files", files, jars=broker.jars)
    return dict(_parse_dump(output))


def dump_tool(broker: LocalBroker) -> str:
    """Returns the class name of DumpLogSegments, which is in another package since 4.4."""
    return (
        "kafka.tools.DumpLogSegments"
        if broker.jars == KAFKA_JARS.resolve()
        else "org.apache.kafka.tools.DumpLogSegments"
    )


_BATCH = re.compile(
    r"baseOffset: \d+ .* producerId: (?P<producer_id>-?\d+) .* isTransactional: (?P<transactional>true|false)"
    r" isControl: (?:true|false) .* isvalid: true$"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<timestamp>-?\d+) keySize: \d+ valueSize: -?\d+ sequence: -?\d+"
    r" headerKeys: \[\] (?:key: (?P<printed>\{.*)"
    r"|endTxnMarker: (?P<marker>COMMIT|ABORT) coordinatorEpoch: (?P<epoch>\d+))$"
)
_DECODER = json.JSONDecoder()


def _parse_dump(output: str) -> Iterator[tuple[Position, Printed]]:
    partition = -1
    batch: re.Match[str] | None = None
    for line in output.split("\n"):
        if line.startswith("Dumping "):
            partition = int(line.rpartition("/")[0].rpartition("-")[2])
        elif line.startswith("baseOffset: "):
            batch = _BATCH.match(line)
        elif line.startswith("| "):
            record = _RECORD.match(line)
            if record is None or batch is None:
                raise ValueError(f"not a line of DumpLogSegments: {line}")
            yield (partition, int(record["offset"])), _printed(batch, record)
        elif line and not line.startswith("Log starting offset: "):
            raise ValueError(f"not a line of DumpLogSegments: {line}")


def _printed(batch: re.Match[str], record: re.Match[str]) -> Printed:
    key = payload = epoch = None
    if record["marker"]:
        epoch = int(record["epoch"])
    else:
        # A group's name may contain " payload: ", so only a JSON parser can find where the key ends.
        key, end = _DECODER.raw_decode(record["printed"])
        rest = record["printed"][end:].removeprefix(" payload: ")
        payload = None if rest == "<DELETE>" else json.loads(rest)
    return Printed(
        timestamp_ms=int(record["timestamp"]),
        is_transactional=batch["transactional"] == "true",
        producer_id=int(batch["producer_id"]),
        key=key,
        payload=payload,
        marker=record["marker"],
        coordinator_epoch=epoch,
    )


def console_format(broker: LocalBroker, formatter: str) -> list[dict[str, Any]]:
    """Returns what the console consumer prints for `__consumer_offsets` with a formatter, read uncommitted."""
    output = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", OFFSETS_TOPIC, "--from-beginning"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        *("--timeout-ms", str(QUIET_MS)),
        jars=broker.jars,
    )
    printed = []
    end = 0
    while end < len(output):
        record, end = _DECODER.raw_decode(output, end)
        printed.append(record)
    return printed
