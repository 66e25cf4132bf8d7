"""Defines a partition of a topic, the pair by which Kafka names it."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        """Returns the pair as Kafka prints it."""
        return f"{self.topic}-{self.partition}"
