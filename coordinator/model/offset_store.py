"""Stores the committed offsets of one `__consumer_offsets` partition, each as its record describes it.

The store has committed offsets and, by producer, pending offsets of open transactions. Only `apply` and
`end_transaction` change them, so the store always agrees with its log. When the marker of a transaction commits it,
each pending offset becomes the committed one, unless a newer record (by log offset) has been stored meanwhile. A
tombstone removes both kinds. Offsets are stored by group, topic and partition in Kafka's TimelineHashMap, because its
order is the order of tombstones.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from groupledger.coordinator.java_hash_map import TimelineHashMap
from groupledger.coordinator.model.messages import NO_PRODUCER_ID
from groupledger.schemas.codec.records import Record


class StoredOffset(NamedTuple):  # a tuple, because one is built with every commit
    """The value of an offset_commit record, and the offset of that record in the log."""

    record_offset: int
    value: Mapping[str, Any]


Value = TypeVar("Value")


class PartitionMap(Generic[Value]):
    """Values by group, topic and partition. A group or topic is removed with its last value."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: TimelineHashMap[str, TimelineHashMap[str, TimelineHashMap[int, Value]]]
        self.groups = TimelineHashMap()

    def get(self, group_id: str, topic: str, partition: int) -> Value | None:
        topics = self.groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, value: Value) -> None:
        topics = self.groups.get(group_id)
        if topics is None:
            topics = TimelineHashMap()
            self.groups.put(group_id, topics)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = TimelineHashMap()
            topics.put(topic, partitions)
        partitions.put(partition, value)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition)
        if not partitions:
            topics.pop(topic)
        if not topics:
            self.groups.pop(group_id)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, Value]]:
        topics = self.groups.get(group_id)
        for topic, partitions in [] if topics is None else topics.items():
            for partition, value in partitions.items():
                yield topic, partition, value


class OffsetStore:
    __slots__ = ("committed", "open_transactions", "pending")

    def __init__(self) -> None:
        self.committed: PartitionMap[StoredOffset] = PartitionMap()
        self.pending: TimelineHashMap[int, PartitionMap[StoredOffset]] = TimelineHashMap()
        # Which producers have a pending offset, by partition: the same offsets the other way round.
        self.open_transactions: PartitionMap[tuple[int, ...]] = PartitionMap()

    def apply(self, record: Record, record_offset: int, producer_id: int) -> None:
        """Applies one offset_commit record; `producer_id` is that of its batch."""
        key = (record.key["group_id"], record.key["topic"], record.key["partition"])
        value = record.value
        if value is None:
            self.committed.remove(*key)
            for open_producer_id in self.open_transactions.get(*key) or ():
                self.pending[open_producer_id].remove(*key)
            self.open_transactions.remove(*key)
            return
        offset = StoredOffset(record_offset, value)
        if producer_id == NO_PRODUCER_ID:
            self.committed.put(*key, offset)
            return
        pending = self.pending.get(producer_id)
        if pending is None:
            pending = PartitionMap()
            self.pending.put(producer_id, pending)
        pending.put(*key, offset)
        producer_ids = self.open_transactions.get(*key) or ()
        if producer_id not in producer_ids:
            self.open_transactions.put(*key, (*producer_ids, producer_id))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Applies a marker: the producer's pending offsets in this partition become committed ones if `committed`, or
        are dropped."""
        pending = self.pending.pop(producer_id)
        if pending is None:
            return
        for group_id in pending.groups:
            for topic, partition, offset in pending.of_group(group_id):
                key = (group_id, topic, partition)
                others = tuple(other for other in self.open_transactions.get(*key) or () if other != producer_id)
                if others:
                    self.open_transactions.put(*key, others)
                else:
                    self.open_transactions.remove(*key)
                existing = self.committed.get(*key)
                if committed and (existing is None or offset.record_offset > existing.record_offset):
                    self.committed.put(*key, offset)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return self.open_transactions.get(group_id, topic, partition) is not None
