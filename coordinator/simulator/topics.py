"""Simulates the topics that groups read: their partitions, and the start and end of their logs at any time.

Producers write at a steady rate that changes now and then, so a log's end is a function of time, and producing a record
needs no action. A log starts at the oldest record that its retention keeps.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.coordinator.client.messages import (
    EARLIEST_TIMESTAMP,
    EpochEndOffset,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    ListedOffset,
    ListOffsetsPartition,
    PartitionMetadata,
    TopicMetadata,
)
from groupledger.coordinator.model.groups.modern.topics import KnownTopics
from groupledger.coordinator.model.groups.modern.topics import Topic as KnownTopic
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.random_source import RandomSource

MINUTE_MS = 60_000
RETENTION_MS = 7 * 86_400_000  # Kafka's default
_LEADER_EPOCH = 0


@dataclass(slots=True)
class PartitionOfTopic:
    """The log of a partition, as periods in which records come at a steady rate. The three lists have for each period
    its first time, its first offset and its records per minute."""

    since_ms: list[int]
    offsets: list[int]
    records_per_minute: list[int]

    def end_offset(self, now_ms: int) -> int:
        index = max(bisect_right(self.since_ms, now_ms) - 1, 0)
        elapsed_ms = max(now_ms - self.since_ms[index], 0)
        return self.offsets[index] + self.records_per_minute[index] * elapsed_ms // MINUTE_MS

    def next_record_ms(self, now_ms: int) -> int | None:
        """Returns the time of the next record at the present rate. Returns None if the rate is 0."""
        rate = self.records_per_minute[-1]
        if not rate:
            return None
        produced = self.end_offset(now_ms) + 1 - self.offsets[-1]
        return self.since_ms[-1] + -(-produced * MINUTE_MS // rate)

    def produce(self, records_per_minute: int, now_ms: int) -> None:
        self.offsets.append(self.end_offset(now_ms))
        self.since_ms.append(now_ms)
        self.records_per_minute.append(records_per_minute)


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: str
    retention_ms: int
    partitions: list[PartitionOfTopic] = field(default_factory=list)

    def end_offset(self, partition: int, now_ms: int) -> int:
        return self.partitions[partition].end_offset(now_ms)

    def start_offset(self, partition: int, now_ms: int) -> int:
        return self.partitions[partition].end_offset(now_ms - self.retention_ms)

    def metadata(self) -> TopicMetadata:
        partitions = tuple(PartitionMetadata(leader_epoch=_LEADER_EPOCH) for _ in self.partitions)
        return TopicMetadata(self.name, partitions, self.topic_id)


class Topics:
    """All topics of the cluster by name, except `__consumer_offsets`."""

    def __init__(self, known: KnownTopics | None = None) -> None:
        """`known` are the topics that coordinators know. They are updated here whenever a topic is created or grows."""
        self.by_name: dict[str, Topic] = {}
        self._told = KnownTopics() if known is None else known
        self._names: dict[str, str] = {}

    def create(
        self,
        name: str,
        partitions: int,
        *,
        records_per_minute: int,
        now_ms: int,
        source: RandomSource,
        retention_ms: int = RETENTION_MS,
    ) -> Topic:
        topic = Topic(name, source.kafka_id(), retention_ms)
        self.by_name[name] = topic
        self._names[topic.topic_id] = name
        self.add_partitions(name, partitions, records_per_minute=records_per_minute, now_ms=now_ms, source=source)
        return topic

    def add_partitions(
        self, name: str, count: int, *, records_per_minute: int, now_ms: int, source: RandomSource | None = None
    ) -> None:
        """Adds partitions until the topic has `count`. If there is a `source`, the logs of the new ones end at random
        offsets, as in a topic with a past."""
        topic = self.by_name[name]
        while len(topic.partitions) < count:
            start = 0 if source is None else source.between(0, 1_000_000)
            topic.partitions.append(PartitionOfTopic([now_ms], [start], [records_per_minute]))
        self._told[name] = KnownTopic(name, topic.topic_id, len(topic.partitions))

    def produce(self, name: str, records_per_minute: int, now_ms: int) -> None:
        """Sets the rate of every partition of a topic from now on."""
        for partition in self.by_name[name].partitions:
            partition.produce(records_per_minute, now_ms)

    def name_of(self, topic_id: str) -> str:
        """Returns the name of a topic that exists or has existed."""
        return self._names[topic_id]

    # Responses of a broker

    def metadata(self, name: str) -> TopicMetadata:
        topic = self.by_name.get(name)
        return TopicMetadata(name, error=Error.UNKNOWN_TOPIC_OR_PARTITION) if topic is None else topic.metadata()

    def listed(self, asked: ListOffsetsPartition, now_ms: int) -> ListedOffset:
        topic = self.by_name[asked.topic]
        is_earliest = asked.timestamp_ms == EARLIEST_TIMESTAMP
        offset = (topic.start_offset if is_earliest else topic.end_offset)(asked.partition, now_ms)
        return ListedOffset(topic=asked.topic, partition=asked.partition, offset=offset, leader_epoch=_LEADER_EPOCH)

    def epoch_end(self, asked: EpochPartition, now_ms: int) -> EpochEndOffset:
        end = self.by_name[asked.topic].end_offset(asked.partition, now_ms)
        return EpochEndOffset(topic=asked.topic, partition=asked.partition, leader_epoch=_LEADER_EPOCH, end_offset=end)

    def fetched(self, asked: FetchPartition, max_records: int, now_ms: int) -> FetchedPartition:
        topic = self.by_name[asked.topic]
        start, end = topic.start_offset(asked.partition, now_ms), topic.end_offset(asked.partition, now_ms)
        if not start <= asked.fetch_offset <= end:
            return FetchedPartition(
                topic=asked.topic, partition=asked.partition, high_watermark=end, error=Error.OFFSET_OUT_OF_RANGE
            )
        to_offset = min(end, asked.fetch_offset + max_records)
        return FetchedPartition(
            topic=asked.topic,
            partition=asked.partition,
            next_offset=to_offset,
            high_watermark=end,
            leader_epoch=_LEADER_EPOCH,
        )

    def next_record_ms(self, partitions: tuple[FetchPartition, ...], now_ms: int) -> int | None:
        """Returns the earliest time at which one of these partitions has a new record. Returns None if nothing is
        written to any of them."""
        times = [
            self.by_name[each.topic].partitions[each.partition].next_record_ms(now_ms)
            for each in partitions
            if each.topic in self.by_name
        ]
        return min((time_ms for time_ms in times if time_ms is not None), default=None)
