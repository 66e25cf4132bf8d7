"""The sticky algorithm for groups whose members all subscribe to the same topics.

With P partitions and C members, each member gets P // C, the minimum, and P % C members get one more, the maximum.
1. Members keep partitions that they own (and can read within their rack, where racks help). A member that owns more
   keeps the maximum as long as larger shares are left, in map order, and the minimum after that.
2. Where racks help, each partition goes to a member within a rack of it: in a circle over those under the minimum,
   else to the first of those at exactly the minimum that may still get one more.
3. The rest goes round in a circle to those under the minimum, then one each to those at the minimum.
Source: Kafka AbstractStickyAssignor.ConstrainedAssignmentBuilder; KIP-881.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupledger.coordinator.assignors.java_order import utf16_order
from groupledger.coordinator.assignors.ownership import remaining_partitions
from groupledger.coordinator.assignors.subscriptions import AssignmentError
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.coordinator.assignors.ownership import Ownership
    from groupledger.coordinator.assignors.racks import RackInfo
    from groupledger.coordinator.assignors.subscriptions import Assignment, TopicPartitions

_LOST_PARTITIONS: Final = "members still claim partitions that their topics no longer have"


def assign(
    topics: Mapping[str, TopicPartitions], racks: RackInfo, ownership: Ownership
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Returns the assignment, and the partitions that change hands, each with its new owner."""
    return _Constrained(topics, racks, ownership).build()


class _Constrained:
    """The assignment in the making. `under_minimum` and `at_minimum` are the members that may still get more."""

    __slots__ = (
        "assignment",
        "at_minimum",
        "doubly_claimed",
        "larger_shares",
        "maximum",
        "minimum",
        "order",
        "racks",
        "released",
        "topics",
        "transferring",
        "under_minimum",
    )

    def __init__(self, topics: Mapping[str, TopicPartitions], racks: RackInfo, ownership: Ownership) -> None:
        self.topics = topics
        self.order = {topic: rank for rank, topic in enumerate(sorted(topics, key=utf16_order))}
        self.racks = racks
        self.doubly_claimed = ownership.doubly_claimed
        partition_count = sum(partitions.partition_count for partitions in topics.values())
        self.minimum, self.larger_shares = divmod(partition_count, len(ownership.owned))
        self.maximum = self.minimum + (self.larger_shares > 0)
        self.assignment: Assignment = {consumer: [] for consumer in ownership.owned}
        self.under_minimum: list[str] = []
        self.at_minimum: list[str] = []
        self.released: dict[TopicPartition, str] = {}
        self.transferring: dict[TopicPartition, str] = {}
        for consumer, owned in ownership.owned.items():
            self.keep_owned(consumer, owned)

    def build(self) -> tuple[Assignment, dict[TopicPartition, str]]:
        kept = sorted(
            (partition for partitions in self.assignment.values() for partition in partitions),
            key=lambda partition: (self.order[partition.topic], partition.partition),
        )
        unassigned = remaining_partitions(
            (
                TopicPartition(topic, partition)
                for topic in self.order
                for partition in range(self.topics[topic].partition_count)
            ),
            kept,
        )
        self.under_minimum.sort(key=utf16_order)
        self.at_minimum.sort(key=utf16_order)
        if self.racks.consumer_racks:
            unassigned = self.assign_within_racks(self.racks.rarest_first(unassigned))
        self.assign_round_robin(unassigned)
        return self.assignment, self.transferring

    def keep_owned(self, consumer: str, owned: Sequence[TopicPartition]) -> None:
        mismatched = [partition for partition in owned if self.racks.mismatch(consumer, partition)]
        self.released.update(dict.fromkeys(mismatched, consumer))
        keepable = sorted(
            set(owned).difference(mismatched, self.doubly_claimed),
            key=lambda partition: (partition.partition, self.order[partition.topic]),
        )
        if len(keepable) < self.minimum:
            share = len(keepable)
            self.under_minimum.append(consumer)
        elif self.larger_shares and len(keepable) >= self.maximum:
            share = self.maximum
            self.use_larger_share()
        else:
            share = self.minimum
            if self.larger_shares:
                self.at_minimum.append(consumer)
        self.assignment[consumer] += keepable[:share]
        self.released.update(dict.fromkeys(keepable[share:], consumer))

    def use_larger_share(self) -> None:
        self.larger_shares -= 1
        if not self.larger_shares:
            self.at_minimum.clear()

    def assign_within_racks(self, unassigned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assigns each partition to a member in a rack of its replicas, and returns the partitions for which no such
        member has room."""
        rest: list[TopicPartition] = []
        turn = 0
        for partition in unassigned:
            index = self.racks.next_match(partition, self.under_minimum, turn)
            if index >= 0:
                count = self.give(partition, consumer := self.under_minimum[index])
                if count == self.minimum:
                    del self.under_minimum[index]
                    if self.larger_shares:
                        self.at_minimum.append(consumer)
                else:
                    index += 1
                turn = index % len(self.under_minimum) if self.under_minimum else 0
                continue
            index = self.racks.next_match(partition, self.at_minimum, 0)
            if index >= 0:
                self.give(partition, self.at_minimum.pop(index))
                self.use_larger_share()
            else:
                rest.append(partition)
        return rest

    def assign_round_robin(self, unassigned: Sequence[TopicPartition]) -> None:
        turn = 0
        for partition in unassigned:
            if not self.under_minimum:
                if not self.at_minimum:
                    raise AssignmentError(f"no member has room for {partition}: {_LOST_PARTITIONS}")
                self.give(partition, self.at_minimum.pop(0))
                continue
            turn %= len(self.under_minimum)
            consumer = self.under_minimum[turn]
            if self.give(partition, consumer) == self.minimum:
                del self.under_minimum[turn]
                self.at_minimum.append(consumer)
            else:
                turn += 1

    def give(self, partition: TopicPartition, consumer: str) -> int:
        """Assigns a partition, and returns how many partitions the consumer then has."""
        released_by = self.released.get(partition, consumer)
        if released_by != consumer or partition in self.doubly_claimed:
            self.transferring[partition] = consumer
        assigned = self.assignment[consumer]
        assigned.append(partition)
        return len(assigned)
