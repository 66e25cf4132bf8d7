"""The sticky algorithm for groups whose members subscribe to different topics.

1. Members keep what they own, but not partitions of topics they left or (where racks help) out of their rack.
2. What is unassigned goes, partitions with the fewest potential consumers first, to the least loaded subscriber;
   where racks help, first only to subscribers within a rack of it. Ties go by member id.
3. Until nothing improves, a partition moves to the consumer that had it in an earlier generation, or to the least
   loaded subscriber, if its consumer holds at least two more. New partitions are tried before owned ones, unless step 1
   took a partition away. If owned ones moved and the balance score is no better than before, all moves are undone.
Step 3 is only about topics with two potential consumers or more, and about consumers that could have more partitions or
hold such a topic. As in Kafka, an earlier owner gets its partition back even if it no longer subscribes to the topic,
and the assignor throws if the earlier owner has no part in step 3. In one case Kafka throws and this algorithm does
not: it leaves out a subscriber that has no part in step 3 because it is full with partitions of a topic that was
created again with fewer partitions.
Source: Kafka AbstractStickyAssignor.GeneralAssignmentBuilder; KIP-54, KIP-881.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from groupledger.coordinator.assignors.java_order import utf16_order
from groupledger.coordinator.assignors.ownership import remaining_partitions
from groupledger.coordinator.assignors.partition_movements import PartitionMovements
from groupledger.coordinator.assignors.subscriptions import AssignmentError
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.coordinator.assignors.ownership import Ownership
    from groupledger.coordinator.assignors.racks import RackInfo
    from groupledger.coordinator.assignors.subscriptions import Assignment, Subscription, TopicPartitions


def assign(
    topics: Mapping[str, TopicPartitions],
    members: Mapping[str, Subscription],
    racks: RackInfo,
    ownership: Ownership,
    previous_owners: Mapping[TopicPartition, str],
) -> Assignment:
    general = _General(topics, members, racks, previous_owners)
    general.keep_owned(ownership)
    general.assign_and_balance()
    return {consumer: general.assignment[consumer] for consumer in members}


class _General:
    """The assignment in the making.

    `assignment` holds the consumers that take part, in map order; `by_load` the same, sorted by (number of partitions
    held, member id). `owner` says who holds a partition. `balanced` is kept until the next move.
    """

    __slots__ = (
        "assignment",
        "balanced",
        "by_load",
        "most_possible",
        "movements",
        "owner",
        "partitions",
        "potential_consumers",
        "previous_owners",
        "racks",
        "revocation_required",
        "topics",
        "topics_of",
        "unassigned",
    )

    def __init__(
        self,
        topics: Mapping[str, TopicPartitions],
        members: Mapping[str, Subscription],
        racks: RackInfo,
        previous_owners: Mapping[TopicPartition, str],
    ) -> None:
        self.topics = topics
        self.racks = racks
        self.previous_owners = previous_owners
        # A topic that a subscription names twice counts twice below, as in Kafka.
        self.topics_of = {
            consumer: [topic for topic in member.topics if topic in topics] for consumer, member in members.items()
        }
        total = sum(partitions.partition_count for partitions in topics.values())
        self.most_possible = {
            consumer: total if len(own) == len(topics) else sum(topics[topic].partition_count for topic in own)
            for consumer, own in self.topics_of.items()
        }
        self.potential_consumers = Counter(chain.from_iterable(self.topics_of.values()))
        self.partitions = [
            TopicPartition(topic, partition)
            for topic in sorted(topics, key=self.fewest_consumers_first)
            for partition in range(topics[topic].partition_count)
        ]
        self.assignment: Assignment = {}
        self.by_load: list[tuple[int, bytes, str]] = []
        self.owner: dict[TopicPartition, str] = {}
        self.unassigned: list[TopicPartition] = []
        self.revocation_required = False
        self.movements = PartitionMovements()
        self.balanced: bool | None = None

    def fewest_consumers_first(self, topic: str) -> tuple[int, bytes]:
        return self.potential_consumers[topic], utf16_order(topic)

    def keep_owned(self, ownership: Ownership) -> None:
        for consumer, owned in ownership.owned.items():
            kept = [
                partition
                for partition in owned
                if partition.topic in self.topics_of[consumer] and not self.racks.mismatch(consumer, partition)
            ]
            self.revocation_required |= len(kept) < len(owned)
            self.assignment[consumer] = kept
            self.owner.update(dict.fromkeys(kept, consumer))
            insort(self.by_load, self.load_entry(consumer))
        rank = {topic: self.fewest_consumers_first(topic) for topic in self.topics}
        assigned = chain.from_iterable(self.assignment.values())
        self.unassigned = remaining_partitions(
            self.partitions, sorted(assigned, key=lambda partition: (rank[partition.topic], partition.partition))
        )

    def assign_and_balance(self) -> None:
        initializing = not self.by_load[-1][0]
        rest: Iterable[TopicPartition] = self.unassigned
        if self.racks.consumer_racks:
            rest = [tp for tp in rest if not self.give_to_least_loaded(tp, within_racks=True)]
        for partition in rest:
            self.give_to_least_loaded(partition)
        fixed = self.set_fixed_consumers_aside()
        before = {consumer: list(assigned) for consumer, assigned in self.assignment.items()}
        if not self.revocation_required:
            self.improve(self.unassigned)
        if (
            self.improve(self.partitions)
            and not initializing
            and _balance_score(self.assignment) >= _balance_score(before)
        ):
            self.assignment = before
        self.assignment |= fixed

    def give_to_least_loaded(self, partition: TopicPartition, *, within_racks: bool = False) -> bool:
        for index, (_, _, consumer) in enumerate(self.by_load):
            if partition.topic in self.topics_of[consumer] and not (
                within_racks and self.racks.mismatch(consumer, partition)
            ):
                del self.by_load[index]
                self.assignment[consumer].append(partition)
                self.owner[partition] = consumer
                insort(self.by_load, self.load_entry(consumer))
                return True
        return False

    def set_fixed_consumers_aside(self) -> Assignment:
        fixed = {
            consumer: assigned
            for consumer, assigned in self.assignment.items()
            if len(assigned) >= self.most_possible[consumer]
            and not any(self.can_move(partition) for partition in assigned)
        }
        for consumer in fixed:
            self.by_load.remove(self.load_entry(consumer))
            del self.assignment[consumer]
        return fixed

    def can_move(self, partition: TopicPartition) -> bool:
        return self.potential_consumers[partition.topic] > 1

    def improve(self, candidates: Sequence[TopicPartition]) -> bool:
        """Moves partitions until nothing improves. Returns whether any was moved."""
        movable = [partition for partition in candidates if self.can_move(partition)]
        moved = False
        modified = True
        while modified:
            modified = False
            for partition in movable:
                if self.is_balanced():
                    break
                destination = self.better_consumer(partition)
                if destination is not None:
                    self.move(partition, destination)
                    modified = moved = True
        return moved

    def better_consumer(self, partition: TopicPartition) -> str | None:
        # Kafka first looks for a better one within the rack, but then moves to the least loaded of all just the same.
        load = len(self.assignment[self.owner[partition]])
        previous = self.previous_owners.get(partition)
        if previous is not None:
            if previous not in self.assignment:
                raise AssignmentError(f"{previous!r} had {partition} in an earlier generation, but takes no part now")
            if load > len(self.assignment[previous]) + 1:
                return previous
        for least, _, consumer in self.by_load:
            if load <= least + 1:
                break
            if partition.topic in self.topics_of[consumer]:
                return consumer
        return None

    def move(self, partition: TopicPartition, destination: str) -> None:
        source = self.owner[partition]
        partition = self.movements.instead_of(partition, source, destination)
        source = self.owner[partition]
        for consumer in (source, destination):
            del self.by_load[bisect_left(self.by_load, self.load_entry(consumer))]
        self.movements.record(partition, source, destination)
        self.assignment[source].remove(partition)
        self.assignment[destination].append(partition)
        self.owner[partition] = destination
        for consumer in (source, destination):
            insort(self.by_load, self.load_entry(consumer))
        self.balanced = None

    def load_entry(self, consumer: str) -> tuple[int, bytes, str]:
        return len(self.assignment[consumer]), utf16_order(consumer), consumer

    def is_balanced(self) -> bool:
        """Returns whether no consumer could take a partition from a consumer that holds at least two more."""
        if self.balanced is None:
            self.balanced = self.by_load[0][0] >= self.by_load[-1][0] - 1 or not self.improvable()
        return self.balanced

    def improvable(self) -> bool:
        # Not `owner`: of a partition held twice (its topic came back smaller) Kafka sees the last holder in map order.
        holder_load = {partition: len(held) for held in self.assignment.values() for partition in held}
        for load, _, consumer in self.by_load:
            if load == self.most_possible[consumer]:
                continue
            held = frozenset(self.assignment[consumer])
            for topic in self.topics_of[consumer]:
                for partition in range(self.topics[topic].partition_count):
                    candidate = TopicPartition(topic, partition)
                    if holder_load[candidate] > load + 1 and candidate not in held:
                        return True
        return False


def _balance_score(assignment: Assignment) -> int:
    """Returns the sum of the differences in load over all pairs of consumers; 0 is perfect balance."""
    loads = sorted(map(len, assignment.values()))
    return sum(load * (2 * rank - len(loads) + 1) for rank, load in enumerate(loads))
