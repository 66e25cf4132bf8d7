"""What the application subscribed to and what the group gave it: Kafka's SubscriptionState.

`group_topics` are those of all members while this one leads the group: a leader watches them all.
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
        self.group_topics: tuple[str, ...] = ()
        self.partitions: dict[TopicPartition, PartitionState] = {}

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Whether that is a change."""
        before = self.topics
        self.topics = tuple(sorted(set(topics)))
        return self.topics != before

    @property
    def metadata_topics(self) -> tuple[str, ...]:
        return tuple(sorted({*self.topics, *self.group_topics}))

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self.partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """What stays keeps its position."""
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
