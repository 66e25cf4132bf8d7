"""Lets static members of streams groups go away and come back, as a broker does since 4.4."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.modern.epochs import AWAY
from groupledger.coordinator.model.groups.streams.records import (
    new_streams_current_record,
    new_streams_member_record,
    new_streams_target_record,
)
from groupledger.coordinator.model.groups.streams.tasks import held_from

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.groups.streams.member import StreamsMember
    from groupledger.coordinator.model.operation import Operation


def go_away(group: StreamsGroup, member: StreamsMember, operation: Operation) -> None:
    """Writes that a static member will be back. It keeps its tasks until its session ends."""
    away = replace(member, epoch=AWAY, pending_revocation={}, assigned=held_from(member.assigned, 0))
    operation.records.append(new_streams_current_record(group.group_id, away))


def take_place(group: StreamsGroup, member: StreamsMember, member_id: str, operation: Operation) -> StreamsMember:
    """Replaces a static member by one with the id `member_id`, which gets its tasks and target, and returns that one.
    It is at epoch 0. Timers of the former id run on, but find no member."""
    joining = replace(member, member_id=member_id, epoch=0, previous_epoch=0)
    operation.records += [
        *group.member_tombstones(member.member_id),
        new_streams_member_record(group.group_id, joining),
        new_streams_target_record(group.group_id, member_id, group.target.get(member.member_id, ())),
        new_streams_current_record(group.group_id, joining),
    ]
    return joining
