"""Builds the records that a 4.2 broker writes for classic groups.

The contents are those of Kafka's GroupCoordinatorRecordHelpers: group metadata v3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.codec.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.model.groups.classic.group import Group

_GROUP_METADATA_VERSION = 3


def new_group_metadata_record(group: Group, assignments: Mapping[str, bytes]) -> Record:
    """Returns the record of a group in its present state, with these assignments by member id."""
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "session_timeout_ms": member.session_timeout_ms,
            "subscription": member.metadata(group.protocol_name),
            "assignment": assignments[member.member_id],
        }
        for member in group.members.values()
    ]
    return _group_metadata_record(
        group,
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        members=members,
    )


def new_empty_group_metadata_record(group: Group) -> Record:
    """Returns the record that a broker writes when a group is created: generation 0 without members, whatever the
    group's present state."""
    return _group_metadata_record(group, protocol_type="", generation=0, protocol=None, leader=None, members=[])


def _group_metadata_record(group: Group, **value: Any) -> Record:
    value["current_state_timestamp_ms"] = group.current_state_timestamp_ms
    return Record("group_metadata", {"group_id": group.group_id}, _GROUP_METADATA_VERSION, value)
