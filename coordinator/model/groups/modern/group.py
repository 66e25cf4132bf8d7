"""The base class of consumer, share and streams groups: two epochs, members, and the target of each.

Such a group changes only by applying records, when they are appended and when a log is loaded. Each type of group adds
the records that only it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from groupledger.coordinator.java_hash_map import TimelineHashMap
from groupledger.coordinator.model.groups.modern.epochs import NO_EPOCH
from groupledger.coordinator.model.groups.modern.records import RecordTypes, of_group, of_member
from groupledger.coordinator.model.groups.modern.states import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from groupledger.schemas.codec.records import Record


class ModernMember(Protocol):
    """A member of a group of one of these types. It is immutable: each record makes a new one."""

    @property
    def member_id(self) -> str: ...

    def with_subscription(self, value: Mapping[str, Any]) -> Self: ...

    def with_assignment(self, value: Mapping[str, Any] | None) -> Self: ...


Member = TypeVar("Member", bound=ModernMember)
Target = TypeVar("Target")


class ModernGroup(Generic[Member, Target]):
    __slots__ = ("epoch", "group_id", "members", "target", "target_epoch", "targeted_at_ms")

    group_type: ClassVar[str]
    record_types: ClassVar[RecordTypes]

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = first_epoch
        self.target_epoch = first_epoch
        self.targeted_at_ms = 0
        self.members: TimelineHashMap[str, Member] = TimelineHashMap()
        self.target: dict[str, Target] = {}

    @property
    def state(self) -> str:
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        return self.state == EMPTY

    def tombstones(self) -> list[Record]:
        """Returns the tombstones of this group, which must have no members."""
        raise NotImplementedError

    def member_tombstones(self, member_id: str) -> list[Record]:
        types = self.record_types
        return [of_member(each, self.group_id, member_id, None) for each in (types.current, types.target, types.member)]

    def new_target_epoch_record(self, epoch: int, targeted_at_ms: int = 0) -> Record:
        """Returns the record of the target's epoch. `targeted_at_ms` is 0 for a 4.2 broker, which writes no time, and
        for a target that was not computed."""
        value = {"assignment_epoch": epoch, "assignment_timestamp_ms": targeted_at_ms}
        return of_group(self.record_types.target_epoch, self.group_id, value)

    def apply(self, record: Record) -> None:
        types, value = self.record_types, record.value
        if record.record_type == types.epoch:
            if value is not None:
                self._apply_epoch(value)
        elif record.record_type == types.target_epoch:
            self.target_epoch = NO_EPOCH if value is None else value["assignment_epoch"]
            self.targeted_at_ms = 0 if value is None else value.get("assignment_timestamp_ms", 0)
        elif record.record_type == types.target:
            if value is None:
                self.target.pop(record.key["member_id"], None)
            else:
                self.target[record.key["member_id"]] = self._target_of(value)
        elif record.record_type in (types.member, types.current):
            self._apply_to_member(record)
        else:
            self._apply_other(record)

    def _apply_epoch(self, value: Mapping[str, Any]) -> None:
        self.epoch = value["epoch"]

    def _apply_to_member(self, record: Record) -> None:
        member_id, value = record.key["member_id"], record.value
        before = self.members.get(member_id)
        member = self._new_member(member_id) if before is None else before
        if record.record_type == self.record_types.current:
            if value is not None or before is not None:
                self._replace(before, member.with_assignment(value))
        elif value is not None:
            self._replace(before, member.with_subscription(value))
        elif before is not None:
            self._remove(before)

    def _apply_other(self, record: Record) -> None:
        """Applies a record of a type that other types of groups do not have."""

    def _target_of(self, value: Mapping[str, Any]) -> Target:
        raise NotImplementedError

    def _new_member(self, member_id: str) -> Member:
        raise NotImplementedError

    def _replace(self, before: Member | None, after: Member) -> None:  # noqa: ARG002  # subclasses count by it
        self.members.put(after.member_id, after)

    def _remove(self, member: Member) -> None:
        self.members.pop(member.member_id)
