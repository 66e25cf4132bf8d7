"""Models a share group (KIP-932): its members, the target of each, and which partitions can be assigned.

The group changes only by applying records: `apply` takes those of types 10 to 15, when they are appended and when a log
is loaded. A group without members is Empty, any other is Stable: a share group never waits for a member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import uuid_order
from groupledger.coordinator.model.groups.modern.group import ModernGroup
from groupledger.coordinator.model.groups.modern.states import EMPTY, STABLE
from groupledger.coordinator.model.groups.share.member import ShareMember
from groupledger.coordinator.model.groups.share.partition_states import PartitionStates
from groupledger.coordinator.model.groups.share.records import STATES, TYPES, share_group_tombstones
from groupledger.coordinator.model.partitions import all_partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from groupledger.coordinator.model.partitions import Partitions
    from groupledger.schemas.codec.records import Record


class ShareGroup(ModernGroup[ShareMember, "Partitions"]):
    __slots__ = ("metadata_hash", "states")
    group_type = "share"
    record_types = TYPES

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        super().__init__(group_id, first_epoch)
        self.metadata_hash = 0
        self.states: PartitionStates | None = None

    @property
    def state(self) -> str:
        return STABLE if len(self.members) else EMPTY

    def topics_with(self, member: ShareMember) -> frozenset[str]:
        """Returns the topics to which the group would subscribe if `member` replaced the member with its id."""
        others = (each.topics for each in self.members.values() if each.member_id != member.member_id)
        return frozenset().union(*others, member.topics)

    def has_ungiven(self) -> bool:
        """Returns whether a new target is due, because in a subscribed topic the initialized partitions differ from the
        assigned ones."""
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

    def tombstones(self) -> list[Record]:
        return share_group_tombstones(self.group_id)

    def _apply_epoch(self, value: Mapping[str, Any]) -> None:
        super()._apply_epoch(value)
        self.metadata_hash = value["metadata_hash"]

    def _apply_other(self, record: Record) -> None:
        if record.record_type == STATES:
            self.states = None if record.value is None else PartitionStates.from_record(record.value)

    def _target_of(self, value: Mapping[str, Any]) -> Partitions:
        found = all_partitions_of(value["topic_partitions"])
        return {topic: found[topic] for topic in uuid_order(found)}

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id=member_id)
