"""Holds the metadata of topics that the client knows, and decides when to request it again.

One request asks for all topics that are needed, and its response replaces the former metadata. It is sent when
something needs it (a new subscription, a leader that moved, a topic or leader that is missing) and when
metadata.max.age.ms has passed. Failures are retried with backoff. Source: Kafka Metadata,
NetworkClient.DefaultMetadataUpdater.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from groupledger.coordinator.assignors import TopicPartitions
from groupledger.coordinator.client.events import ClientError
from groupledger.coordinator.client.fetch_state import Leader
from groupledger.coordinator.client.messages import (
    NO_NODE,
    Destination,
    MetadataRequest,
    MetadataResponse,
    TopicMetadata,
)
from groupledger.coordinator.client.network import backoff_ms
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.client.subscriptions import Subscriptions
    from groupledger.schemas.kafka.topic_partition import TopicPartition

Snapshot: TypeAlias = Mapping[str, tuple[frozenset[str], ...]]
"""The racks of each partition's replicas, by topic; for a client that is in no rack, the sets are empty."""
EMPTY_SNAPSHOT: Snapshot = MappingProxyType({})

_RETRIED = (
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.LEADER_NOT_AVAILABLE,
    Error.KAFKA_STORAGE_ERROR,
    Error.UNKNOWN_TOPIC_ID,
    Error.INCONSISTENT_TOPIC_ID,
)


class Metadata:
    def __init__(self, config: ConsumerConfig, network: Network, subscriptions: Subscriptions) -> None:
        self._config = config
        self._network = network
        self._subscriptions = subscriptions
        self._topics: dict[str, TopicMetadata] = {}
        self._update_requested = True
        self._is_asked = False
        self._failures = 0
        self._next_ms = 0  # the earliest time of a requested update, the latest time of the next one otherwise
        self._unauthorized: tuple[str, ...] = ()
        self.version = 0  # raised with each answer

    # Asking

    def request_update(self) -> None:
        """Asks for an update as soon as the backoff allows."""
        if not self._update_requested:
            self._update_requested = True
            self._next_ms = 0 if self._failures == 0 else self._next_ms

    def is_fresh(self, now_ms: int) -> bool:
        return not self._update_requested and not self._is_asked and now_ms < self._next_ms

    def maybe_send(self, now_ms: int) -> None:
        topics, topic_ids = self._subscriptions.metadata_topics, self._subscriptions.metadata_ids
        if self._is_asked or not (topics or topic_ids) or now_ms < self._next_ms:
            return
        self._is_asked, self._update_requested = True, False
        request = MetadataRequest(self._network.new_request_id(), topics, topic_ids)
        self._network.send(Destination.BROKER, request, now_ms + self._config.request_timeout_ms, self._handle)

    def deadlines(self) -> list[int]:
        is_needed = self._subscriptions.metadata_topics or self._subscriptions.metadata_ids
        return [self._next_ms] if is_needed and not self._is_asked else []

    def _handle(self, response: MetadataResponse | None, now_ms: int) -> None:
        self._is_asked = False
        is_complete = response is not None and self._learn(response.topics)
        if is_complete:
            self._failures = 0
            self._next_ms = 0 if self._update_requested else now_ms + self._config.metadata_max_age_ms
        else:
            self._update_requested = True
            self._next_ms = now_ms + backoff_ms(self._config, self._failures)
            self._failures += 1

    def _learn(self, topics: Iterable[TopicMetadata]) -> bool:
        """Takes an answer. Returns whether it names all topics and all leaders."""
        self.version += 1
        answered = tuple(topics)
        self._topics = {topic.topic: topic for topic in answered if topic.error is Error.NONE}
        self._unauthorized = tuple(t.topic for t in answered if t.error is Error.TOPIC_AUTHORIZATION_FAILED)
        has_leaders = all(p.leader_id != NO_NODE for topic in answered for p in topic.partitions)
        return has_leaders and not any(topic.error in _RETRIED for topic in answered)

    def raise_errors(self) -> None:
        """Raises ClientError if the last response named topics that the client may not access. Each such response
        raises once."""
        if self._unauthorized:
            topics, self._unauthorized = self._unauthorized, ()
            raise ClientError(
                Error.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{', '.join(topics)}]"
            )

    # Knowing

    def leader(self, partition: TopicPartition) -> Leader | None:
        topic, number = partition
        known = self._topics.get(topic)
        if known is None or number >= len(known.partitions):
            return None
        found = known.partitions[number]
        return None if found.leader_id == NO_NODE else Leader(found.leader_id, found.leader_epoch)

    def topic_name(self, topic_id: str) -> str | None:
        return next((name for name, topic in self._topics.items() if topic.topic_id == topic_id), None)

    def snapshot(self) -> Snapshot:
        """Returns the replica racks of the needed topics' partitions. A leader compares them with those of its last
        assignment to find out whether it must assign again."""
        knows_rack = self._config.client_rack is not None
        return {
            topic: tuple(p.replica_racks if knows_rack else frozenset() for p in self._topics[topic].partitions)
            for topic in self._subscriptions.metadata_topics
            if topic in self._topics
        }

    def cluster(self) -> dict[str, TopicPartitions]:
        """Returns the known topics in the form in which the assignors take them."""
        cluster = {}
        for name, topic in self._topics.items():
            racks = tuple(partition.replica_racks for partition in topic.partitions)
            cluster[name] = TopicPartitions(len(racks), racks if any(racks) else ())
        return cluster
