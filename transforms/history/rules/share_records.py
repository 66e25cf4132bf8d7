"""Defines the parsed records of a `share` group (KIP-932), in the terms of `modern_records`.

Members, epochs, targets and current assignments are read as in a `consumer` group, with two differences: a partition
may be assigned to several members, and no member waits for another, so members have no states. One more record lists
the partitions that can be shared: the broker first creates a state for each partition, and assigns only those that have
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.wire import share_group as wire
from groupledger.transforms.history.rules.events import MemberFacts
from groupledger.transforms.history.rules.modern_records import (
    STABLE,
    CurrentAssignment,
    CurrentRecord,
    MemberRecord,
    read_epoch,
    read_target,
    read_target_epoch,
    units_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.transforms.history.rules.modern_records import TopicNames, Units


@dataclass(frozen=True, slots=True)
class ShareableRecord:
    """Holds the partitions that have a state, so that they can be assigned to members; `units` is None in a
    tombstone."""

    units: Units | None


def _member(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> MemberRecord:
    member_id = fields["member_id"]
    if is_tombstone:
        return MemberRecord(member_id, None)
    facts = MemberFacts(
        member_id,
        None,
        fields["client_id"],
        fields["client_host"],
        None,
        None,
        fields["rack_id"],
        tuple(sorted(set(fields["subscribed_topic_names"]))),
        is_classic=False,
    )
    return MemberRecord(member_id, facts)


def _current(fields: Mapping[str, Any], names: TopicNames, is_tombstone: bool) -> CurrentRecord:
    if is_tombstone:
        return CurrentRecord(fields["member_id"], None)
    assigned = units_of(fields["assigned_partitions"], names)
    epochs = fields["member_epoch"], fields["previous_member_epoch"]
    return CurrentRecord(fields["member_id"], CurrentAssignment(*epochs, STABLE, assigned, ()))


def _shareable(fields: Mapping[str, Any], names: TopicNames, is_tombstone: bool) -> ShareableRecord:
    return ShareableRecord(None if is_tombstone else units_of(fields["initialized_topics"], names))


READERS = {
    wire.SHARE_GROUP_METADATA.record_type: read_epoch,
    wire.SHARE_GROUP_MEMBER_METADATA.record_type: _member,
    wire.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA.record_type: read_target_epoch,
    wire.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type: read_target,
    wire.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type: _current,
    wire.SHARE_GROUP_STATE_PARTITION_METADATA.record_type: _shareable,
}
