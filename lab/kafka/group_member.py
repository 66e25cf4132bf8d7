"""Corrects kafka-python's consumer, which on a busy machine may stay in its group without an assignment (3.0.12).

A leader whose metadata changes while it assigns joins once more. If the answer to that second join comes between two
polls, kafka-python believes that it has joined, never looks at the assignment, and stays in the group without a
partition (`need_rejoin` compares the metadata with those of the assignment just made, and `_join_task` is forgotten).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer

if TYPE_CHECKING:
    from collections.abc import Sequence


class GroupMember(KafkaConsumer):  # type: ignore[misc]  # no types are published
    def subscribe(self, topics: Sequence[str], **options: Any) -> None:
        """Subscribes after fetching the metadata of the topics. So the second join, which is a rebalance, is rare."""
        for topic in topics:
            self.partitions_for_topic(topic)
        super().subscribe(list(topics), **options)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        """Polls, and joins again if kafka-python has forgotten the answer to a join."""
        records = super().poll(*arguments, **options)
        coordinator = self._coordinator
        if coordinator._join_task is not None and not coordinator.need_rejoin():
            coordinator.request_rejoin()
        return records
