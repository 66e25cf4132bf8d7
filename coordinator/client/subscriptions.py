"""Holds the topics that an application subscribes to, and the partitions that it owns, as Kafka's SubscriptionState
does.

While this member leads the group, `group_topics` are the topics of all members, because a leader watches them all. A
`pattern` (SubscriptionPattern) is a regular expression that the broker resolves. The client learns the ids of the
matching topics from its assignment, and then requests their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.client.fetch_state import FetchState, PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.schemas.kafka.topic_partition import TopicPartition


class Subscriptions:
    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ()
        self.pattern = ""
        self.assigned_ids: tuple[str, ...] = ()
        self.group_topics: tuple[str, ...] = ()
        self.partitions: dict[TopicPartition, PartitionState] = {}

    def subscribe(self, topics: Iterable[str], pattern: str = "") -> bool:
        """Replaces the topics and the pattern. Returns whether they have changed."""
        before = self.topics, self.pattern
        self.topics, self.pattern = tuple(sorted(set(topics))), pattern
        return (self.topics, self.pattern) != before

    @property
    def is_subscribed(self) -> bool:
        return bool(self.topics or self.pattern)

    @property
    def metadata_topics(self) -> tuple[str, ...]:
        return tuple(sorted({*self.topics, *self.group_topics}))

    @property
    def metadata_ids(self) -> tuple[str, ...]:
        return self.assigned_ids if self.pattern else ()

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self.partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Sets the owned partitions. Those that were owned before keep their position."""
        self.partitions = {
            partition: self.partitions.get(partition) or PartitionState() for partition in sorted(set(partitions))
        }

    def mark_pending_revocation(self) -> None:
        for state in self.partitions.values():
            state.pending_revocation = True

    def in_state(self, fetch_state: FetchState) -> tuple[TopicPartition, ...]:
        return tuple(partition for partition, state in self.partitions.items() if state.fetch_state is fetch_state)

    def askable(self, fetch_state: FetchState, now_ms: int) -> dict[TopicPartition, PartitionState]:
        return {partition: state for partition, state in self.partitions.items() if state.may_ask(fetch_state, now_ms)}
