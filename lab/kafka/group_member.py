"""Gives kafka-python's consumer what 3.0.12 lacks as a member of a group: its assignment, also on a busy machine.

A leader that assigns while its metadata change joins once more. When the answer of that second join comes between two
polls, kafka-python takes itself for joined, never looks at the assignment, and stays in the group with no partition
(`need_rejoin` compares the metadata with those of the assignment just made, and `_join_task` is forgotten).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer

if TYPE_CHECKING:
    from collections.abc import Sequence


class GroupMember(KafkaConsumer):  # type: ignore[misc]  # no types are published
    def subscribe(self, topics: Sequence[str], **options: Any) -> None:
        """The consumer subscribes with metadata that it has, so that the second join is rare: it is a rebalance."""
        for topic in topics:
            self.partitions_for_topic(topic)
        super().subscribe(list(topics), **options)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        """The consumer polls, and asks for the answer of a join that was forgotten."""
        records = super().poll(*arguments, **options)
        coordinator = self._coordinator
        if coordinator._join_task is not None and not coordinator.need_rejoin():
            coordinator.request_rejoin()
        return records
