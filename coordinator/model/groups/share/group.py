"""A share group (KIP-932): its members, the target of each, and which partitions can be given to them.

Nothing changes but by applying records: `apply` takes those of types 10 to 15, when they are appended and when a log is
loaded. Without members a group is Empty, with some it is Stable: it never waits for anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import TimelineHashMap, uuid_order
from groupledger.coordinator.model.groups.modern.epochs import NO_EPOCH
from groupledger.coordinator.model.groups.modern.states import EMPTY, STABLE
from groupledger.coordinator.model.groups.share.member import ShareMember
from groupledger.coordinator.model.groups.share.partition_states import PartitionStates
from groupledger.coordinator.model.groups.share.records import CURRENT, EPOCH, MEMBER, STATES, TARGET, TARGET_EPOCH
from groupledger.coordinator.model.partitions import all_partitions_of

if TYPE_CHECKING:
    from groupledger.coordinator.model.partitions import Partitions
    from groupledger.schemas.codec.records import Record


class ShareGroup:
    __slots__ = ("epoch", "group_id", "members", "metadata_hash", "states", "target", "target_epoch", "targeted_at_ms")

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = first_epoch
        self.metadata_hash = 0
        self.target_epoch = first_epoch
        self.targeted_at_ms = 0
        self.members: TimelineHashMap[str, ShareMember] = TimelineHashMap()
        self.target: dict[str, Partitions] = {}
        self.states: PartitionStates | None = None

    @property
    def state(self) -> str:
        return STABLE if len(self.members) else EMPTY

    def topics_with(self, member: ShareMember) -> frozenset[str]:
        """Returns what the members subscribe to, with one of them as it is given."""
        others = (each.topics for each in self.members.values() if each.member_id != member.member_id)
        return frozenset().union(*others, member.topics)

    def has_ungiven(self) -> bool:
        """Whether some topic that members subscribe to is initialized otherwise than it is given to them, so that a new
        target is due."""
        if self.states is None:
            return False
        given: dict[str, set[int]] = {}
        for target in self.target.values():
            for topic, numbers in target.items():
                given.setdefault(topic, set()).update(numbers)
        subscribed = frozenset().union(*(each.topics for each in self.members.values()))
        return any(
            each.name in subscribed and given.get(topic) != {*each.partitions}
            for topic, each in self.states.initialized.items()
        )

    def apply(self, record: Record) -> None:
        value = record.value
        if record.record_type == EPOCH and value is not None:
            self.epoch, self.metadata_hash = value["epoch"], value["metadata_hash"]
        elif record.record_type == TARGET_EPOCH:
            self.target_epoch = NO_EPOCH if value is None else value["assignment_epoch"]
            self.targeted_at_ms = 0 if value is None else value.get("assignment_timestamp_ms", 0)
        elif record.record_type == STATES:
            self.states = None if value is None else PartitionStates.from_record(value)
        elif record.record_type == TARGET:
            if value is None:
                self.target.pop(record.key["member_id"], None)
            else:
                found = all_partitions_of(value["topic_partitions"])
                self.target[record.key["member_id"]] = {topic: found[topic] for topic in uuid_order(found)}
        elif record.record_type in (MEMBER, CURRENT):
            self._apply_to_member(record)

    def _apply_to_member(self, record: Record) -> None:
        member_id, value = record.key["member_id"], record.value
        before = self.members.get(member_id)
        member = before or ShareMember(member_id=member_id)
        if record.record_type == CURRENT:
            if value is not None or before is not None:
                self.members.put(member_id, member.with_assignment(value))
        elif value is not None:
            self.members.put(member_id, member.with_subscription(value))
        else:
            self.members.pop(member_id)
