"""The records that a 4.2 broker writes for classic groups, and their tombstones.

Contents as in Kafka's GroupCoordinatorRecordHelpers: group metadata v3; offset commit v4, or v1 where the request
brought an explicit retention, since only that version has a place for the expiry.
"""

from collections.abc import Mapping
from typing import Any

from groupledger.coordinator.model.group import Group
from groupledger.coordinator.model.messages import OffsetToCommit
from groupledger.schemas.codec.records import Record

NO_EXPIRY = -1

_GROUP_METADATA_VERSION = 3
_OFFSET_COMMIT_VERSION = 4
_OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1


def new_group_metadata_record(group: Group, assignments: Mapping[str, bytes]) -> Record:
    """Returns the record of a group as it is now, with these assignments by member id."""
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
    """Returns the record of a group's creation, at generation 0, whatever the group has become since."""
    return _group_metadata_record(group, protocol_type="", generation=0, protocol=None, leader=None, members=[])


def new_group_metadata_tombstone_record(group_id: str) -> Record:
    return Record("group_metadata", {"group_id": group_id}, None, None)


def new_offset_commit_record(
    group_id: str, offset: OffsetToCommit, commit_timestamp_ms: int, expire_timestamp_ms: int
) -> Record:
    version = _OFFSET_COMMIT_VERSION
    if expire_timestamp_ms != NO_EXPIRY:
        version = _OFFSET_COMMIT_VERSION_WITH_EXPIRY
    value = {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata or "",
        "commit_timestamp_ms": commit_timestamp_ms,
        "expire_timestamp_ms": expire_timestamp_ms,
        "topic_id": offset.topic_id,
    }
    key = {"group_id": group_id, "topic": offset.topic, "partition": offset.partition}
    return Record("offset_commit", key, version, value)


def new_offset_commit_tombstone_record(group_id: str, topic: str, partition: int) -> Record:
    key = {"group_id": group_id, "topic": topic, "partition": partition}
    return Record("offset_commit", key, None, None)


def _group_metadata_record(group: Group, **value: Any) -> Record:
    value["current_state_timestamp_ms"] = group.current_state_timestamp_ms
    return Record("group_metadata", {"group_id": group.group_id}, _GROUP_METADATA_VERSION, value)
