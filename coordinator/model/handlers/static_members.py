"""Checks who may use the instance id of a static member, in consumer groups and, since 4.4, in streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.errors import RefusedError
from groupledger.coordinator.model.groups.modern.epochs import AWAY
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.groups.modern.static_members import GroupWithStaticMembers, Member, Target
    from groupledger.coordinator.model.groups.streams.member import StreamsMember
    from groupledger.coordinator.model.operation import Operation


def member_of_instance(
    group: GroupWithStaticMembers[Member, Target], instance_id: str, member_id: str, operation: Operation
) -> Member:
    """Returns the member with this instance id. Raises RefusedError if no member has the instance id, or if a member
    with another id than `member_id` has it."""
    member = group.static_member(instance_id)
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    if member.member_id != member_id:
        words = {"group_id": group.group_id, "member_id": member_id, "group_instance_id": instance_id}
        operation.log("instance_id_fenced", **words, previous_member_id=member.member_id)
        raise RefusedError(Error.FENCED_INSTANCE_ID)
    return member


def check_away(group_id: str, member: ConsumerMember | StreamsMember, member_id: str, operation: Operation) -> None:
    """Raises RefusedError if a static member has not said that it is away, so that `member_id` can't replace it."""
    if member.epoch != AWAY:
        words = {"group_id": group_id, "member_id": member_id, "group_instance_id": member.instance_id}
        operation.log("instance_id_owned", **words, previous_member_id=member.member_id)
        raise RefusedError(Error.UNRELEASED_INSTANCE_ID)
