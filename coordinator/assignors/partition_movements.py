"""The partitions that the general sticky algorithm has moved so far, and between which consumers.

Before a partition of a topic moves from one consumer to another, a partition of the same topic that moved the other way
is moved back instead, because two moves would change owners for nothing. If several moved the other way, the first in a
java.util.HashSet of TopicPartition is moved back. Source: Kafka AbstractStickyAssignor.PartitionMovements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import JavaHashMap, string_hash_code

if TYPE_CHECKING:
    from groupledger.schemas.kafka.topic_partition import TopicPartition


class PartitionMovements:
    __slots__ = ("_between", "_by_topic")

    def __init__(self) -> None:
        self._between: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], JavaHashMap[int, TopicPartition]]] = {}

    def record(self, partition: TopicPartition, source: str, destination: str) -> None:
        """Records a move. If the partition had moved before, the first consumer that it left stays its source; if it
        returns to that consumer, its movement is deleted."""
        by_pair = self._by_topic.setdefault(partition.topic, {})
        before = self._between.pop(partition, None)
        if before is not None:
            by_pair[before].pop(_hash_code(partition))
            if not by_pair[before]:
                del by_pair[before]
            source = before[0]
        if source != destination:
            pair = self._between[partition] = source, destination
            by_pair.setdefault(pair, JavaHashMap()).put(_hash_code(partition), partition)

    def instead_of(self, partition: TopicPartition, source: str, destination: str) -> TopicPartition:
        """Returns the partition that has to move in place of `partition`: one of its topic that moved from
        `destination` to `source` before, or else `partition` itself."""
        if partition in self._between:
            source = self._between[partition][0]
        reverse = self._by_topic.get(partition.topic, {}).get((destination, source))
        return reverse.values()[0] if reverse else partition


def _hash_code(partition: TopicPartition) -> int:
    """Returns Kafka's TopicPartition.hashCode() as an unsigned number. It differs between partitions of a topic."""
    return (31 * (31 + partition.partition) + string_hash_code(partition.topic)) & 0xFFFF_FFFF
