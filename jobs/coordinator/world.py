"""Models the cluster that the coordinator shows to clients: brokers that coordinate groups, the topics that groups
read, and the addresses of the brokers.

Every partition of a topic is led by one node. Every group is coordinated by one node, the leader of the group's
partition of `__consumer_offsets`. A topic begins empty, and its records come at a steady rate, so their offsets and
times follow from the clock alone (`coordinator.simulator.topics`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.modern.topics import Topic as KnownTopic
from groupledger.coordinator.simulator.brokers import Brokers
from groupledger.coordinator.simulator.random_source import RandomSource
from groupledger.coordinator.simulator.topics import Topic, Topics
from groupledger.jobs.coordinator.logs import MadeLog, OffsetsLog
from groupledger.jobs.coordinator.requests import Cluster
from groupledger.jobs.coordinator.stored_log import Room, StoredLog
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.uuids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from groupledger.coordinator.model.config import Config
    from groupledger.jobs.coordinator.logs import ServedLog

SECONDS_PER_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(eq=False)
class World:
    """A cluster. `topic_partitions` gives the number of partitions by topic name. `records_per_second` is the rate of
    each topic; if it is 0, producers write the topics. If the world is not recorded, `__consumer_offsets` has only the
    records that compaction leaves."""

    config: Config
    seed: int
    node_count: int
    began_at_ms: int
    topic_partitions: Mapping[str, int]
    records_per_second: float
    is_recorded: bool = False
    addresses: dict[int, Address] = field(default_factory=dict)  # by node, as clients get them

    def __post_init__(self) -> None:
        self.source = RandomSource(self.seed)
        self.cluster_id = self.source.kafka_id()
        self.offsets_topic_id = self.source.kafka_id()
        self.brokers = Brokers(self.config, self.node_count, is_compacted_first=not self.is_recorded)
        self.brokers.start(self.began_at_ms)
        # Who subscribes by a regular expression may have that, too.
        offsets_topic = KnownTopic(OFFSETS_TOPIC, self.offsets_topic_id, len(self.brokers.logs))
        self.brokers.topics[OFFSETS_TOPIC] = offsets_topic
        self.topics = Topics(self.brokers.topics)
        self._by_id: dict[UUID, Topic] = {}
        self.partitions_of_all = 0
        for name, partitions in self.topic_partitions.items():
            self.add_topic(name, partitions, self.began_at_ms)
        self._room = Room()
        self._stored: dict[tuple[str, int], StoredLog] = {}
        self.producer_ids = count(1)
        self._uuids = self.source.source("member ids")

    def add_topic(self, name: str, partitions: int, now_ms: int) -> None:
        rate = round(self.records_per_second * SECONDS_PER_MINUTE / partitions)
        topic = self.topics.create(
            name, 0, records_per_minute=rate, now_ms=now_ms, source=self.source.source("topic", name)
        )
        self.topics.add_partitions(name, partitions, records_per_minute=rate, now_ms=now_ms)
        self._by_id[uuid_of(topic.topic_id)] = topic
        self.partitions_of_all += partitions

    def add_partitions(self, name: str, partitions: int, now_ms: int) -> None:
        """Increases the number of a topic's partitions to `partitions`; new ones begin empty. A topic that does not
        exist is not created."""
        if name in self.topics.by_name:
            there = self.topics.by_name[name].partitions
            rate = there[0].records_per_minute[-1]
            self.partitions_of_all += max(partitions - len(there), 0)
            self.topics.add_partitions(name, partitions, records_per_minute=rate, now_ms=now_ms)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.topic_of, self.id_of, self.has_partition, self._uuids.uuid)

    def topic_of(self, topic_id: UUID) -> str | None:
        if topic_id == uuid_of(self.offsets_topic_id):
            return OFFSETS_TOPIC
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> UUID | None:
        if name == OFFSETS_TOPIC:
            return uuid_of(self.offsets_topic_id)
        topic = self.topics.by_name.get(name)
        return None if topic is None else uuid_of(topic.topic_id)

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self.topics.by_name.get(name)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def partition_count(self, name: str) -> int:
        """Returns the number of partitions of an existing topic."""
        return len(self.brokers.logs if name == OFFSETS_TOPIC else self.topics.by_name[name].partitions)

    def log(self, name: str, partition: int) -> ServedLog | None:
        """Returns the log of a partition; None if there is no such partition."""
        if name == OFFSETS_TOPIC:
            logs = self.brokers.logs
            return OffsetsLog(logs[partition]) if 0 <= partition < len(logs) else None
        if not self.has_partition(name, partition):
            return None
        return self.stored_log(name, partition) or MadeLog(self.topics.by_name[name], partition)

    def stored_log(self, name: str, partition: int) -> StoredLog | None:
        """Returns the log of a partition that producers write to; None for any other."""
        if self.records_per_second or not self.has_partition(name, partition):
            return None
        return self._stored.setdefault((name, partition), StoredLog(self._room))

    def leader_of(self, name: str, partition: int) -> int:
        """Returns the node that leads a partition."""
        return self.brokers.leaders[partition] if name == OFFSETS_TOPIC else partition % self.node_count
