"""The base class of groups that can have static members: consumer groups, and streams groups since 4.4.

A static member has an instance id. Another process that joins under the same instance id replaces it, and gets its
target, when the member has said that it is away.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from groupledger.coordinator.model.groups.modern.group import ModernGroup, ModernMember


class _WithInstance(ModernMember, Protocol):
    @property
    def instance_id(self) -> str | None: ...


Member = TypeVar("Member", bound=_WithInstance)
Target = TypeVar("Target")


class GroupWithStaticMembers(ModernGroup[Member, Target]):
    __slots__ = ("static_members",)

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        super().__init__(group_id, first_epoch)
        self.static_members: dict[str, str] = {}

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def recorded_target(self, member_id: str, instance_id: str | None) -> Target | None:
        """Returns the target of a member, or None if it has none. A static member that has just replaced another gets
        the target of the member that it replaced."""
        before = None if instance_id is None else self.static_members.get(instance_id)
        return self.target.get(member_id if before is None else before)

    def others(self, member: Member) -> list[Member]:
        """Returns the members other than `member` and the static member that it replaces."""
        return [
            each
            for each in self.members.values()
            if each.member_id != member.member_id
            and (each.instance_id is None or each.instance_id != member.instance_id)
        ]

    def members_with(self, member: Member) -> dict[str, Member]:
        """Returns the members by id, as if `member` was there, which may replace a static member."""
        kept = {each.member_id for each in self.others(member)}
        known = {each.member_id: each for each in self.members.values()} | {member.member_id: member}
        return {name: each for name, each in known.items() if each is member or name in kept}

    def _remove(self, member: Member) -> None:
        super()._remove(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _replace(self, before: Member | None, after: Member) -> None:
        super()._replace(before, after)
        if after.instance_id is not None:
            self.static_members[after.instance_id] = after.member_id
