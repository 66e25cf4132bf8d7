"""A partition of a topic: the pair that names it everywhere, in Kafka as here."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        """Returns the pair as Kafka prints it."""
        return f"{self.topic}-{self.partition}"
