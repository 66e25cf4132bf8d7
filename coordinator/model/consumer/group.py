"""A consumer group of KIP-848: three epochs, its members, and the target that each is to reach.

Nothing changes but by applying records: `apply` takes those of types 3 and 5 to 8, when they are appended and when a
log is loaded. The state of the group follows from them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import HashOrder, TimelineHashMap, uuid_order
from groupledger.coordinator.model.consumer.member import NO_EPOCH, ConsumerMember, MemberState, partitions_of
from groupledger.coordinator.model.consumer.records import CURRENT, EPOCH, MEMBER, TARGET, TARGET_EPOCH

if TYPE_CHECKING:
    from groupledger.coordinator.model.consumer.member import Partitions
    from groupledger.schemas.codec.records import Record

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"


class ConsumerGroup:
    __slots__ = (
        "_holders",
        "_votes",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "static_members",
        "target",
        "target_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: TimelineHashMap[str, ConsumerMember] = TimelineHashMap()
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Partitions] = {}
        self._holders: dict[tuple[str, int], str] = {}
        self._votes: TimelineHashMap[str, int] = TimelineHashMap()

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reached = (
            each.state is MemberState.STABLE and each.epoch == self.target_epoch for each in self.members.values()
        )
        return STABLE if all(reached) else RECONCILING

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """Returns what a member is to have. A static one that has just taken the place of another has its target."""
        before = None if instance_id is None else self.static_members.get(instance_id)
        return self.target.get(member_id if before is None else before, {})

    def is_held(self, topic_id: str, partition: int) -> bool:
        """Whether some member has a partition, or has still to give it up."""
        return (topic_id, partition) in self._holders

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(member.topics for member in self.members.values()))

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def others(self, member: ConsumerMember) -> list[ConsumerMember]:
        """Returns the members but one, and but the one whose place it takes."""
        return [
            each
            for each in self.members.values()
            if each.member_id != member.member_id
            and (each.instance_id is None or each.instance_id != member.instance_id)
        ]

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str | None:
        """Returns the assignor that most members ask for, with the vote of a member as it was and as it will be. Of two
        it is the first in the order of the map of votes, of which a broker makes a copy for that."""
        if before is None or after is None:
            return max(self._votes, key=self._votes.__getitem__, default=None)
        votes = Counter(dict(self._votes.items()))
        order = HashOrder(room=int(len(votes) / 0.75 + 1) if votes else 16)
        for name in self._votes:
            order.put(name)
        if before.assignor is not None and before.assignor in votes:
            votes[before.assignor] -= 1
            if not votes[before.assignor]:
                order.remove(before.assignor)
        if after.assignor is not None:
            votes[after.assignor] += 1
            order.compute(after.assignor)
        return max((str(name) for name in order), key=votes.__getitem__, default=None)

    def add(self, member: ConsumerMember) -> None:
        """Adds a member that no record told of yet; the order of the members hangs on how often they are put."""
        self._replace(None, member)

    def apply(self, record: Record) -> None:
        value = record.value
        if record.record_type == EPOCH and value is not None:
            self.epoch, self.metadata_hash = value["epoch"], value["metadata_hash"]
        elif record.record_type == TARGET_EPOCH:
            self.target_epoch = NO_EPOCH if value is None else value["assignment_epoch"]
        elif record.record_type == TARGET:
            if value is None:
                self.target.pop(record.key["member_id"], None)
            else:
                found = partitions_of(value["topic_partitions"])
                self.target[record.key["member_id"]] = {topic: found[topic] for topic in uuid_order(found)}
        elif record.record_type in (MEMBER, CURRENT):
            self._apply_to_member(record)

    def _apply_to_member(self, record: Record) -> None:
        member_id, value = record.key["member_id"], record.value
        before = self.members.get(member_id)
        member = before or ConsumerMember(member_id=member_id)
        if record.record_type == CURRENT:
            if value is not None or before is not None:
                self._replace(before, member.with_assignment(value))
        elif value is not None:
            self._replace(before, member.with_subscription(value))
        elif before is not None:
            self._replace(before, before.with_assignment(None))
            self._vote(before.assignor, -1)
            self.members.pop(member_id)
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]

    def _vote(self, assignor: str | None, difference: int) -> None:
        if assignor is not None:
            count = (self._votes.get(assignor) or 0) + difference
            if count:
                self._votes.put(assignor, count)
            else:
                self._votes.pop(assignor)

    def _replace(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        for held in () if before is None else (before.assigned, before.pending_revocation):
            for topic, numbers in held.items():
                for number in numbers:
                    if self._holders.get((topic, number)) == after.member_id:
                        del self._holders[topic, number]
        for held in (after.assigned, after.pending_revocation):
            for topic, numbers in held.items():
                for number in numbers:
                    self._holders[topic, number] = after.member_id
        self._vote(None if before is None else before.assignor, -1)
        self._vote(after.assignor, 1)
        self.members.put(after.member_id, after)
        if after.instance_id is not None:
            self.static_members[after.instance_id] = after.member_id
