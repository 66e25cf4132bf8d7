"""Builds the records that a 4.2 broker writes for share groups, and their tombstones: types 10 to 15.

The topics of a target are in the order in which its assignor left them. Those of a member's current assignment, and
those of the partitions' states, are in the order of a default HashMap of their ids. Partitions ascend. A broker's own
order can differ, but nothing depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.java_hash_map import uuid_order
from groupledger.coordinator.model.groups.modern.records import RecordTypes, of_group, of_member, topic_partitions

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.share.member import ShareMember
    from groupledger.coordinator.model.groups.share.partition_states import ByTopic, PartitionStates
    from groupledger.coordinator.model.partitions import Partitions
    from groupledger.schemas.codec.records import Record

MEMBER: Final = "share_group_member_metadata"
EPOCH: Final = "share_group_metadata"
TARGET_EPOCH: Final = "share_group_target_assignment_metadata"
TARGET: Final = "share_group_target_assignment_member"
CURRENT: Final = "share_group_current_member_assignment"
STATES: Final = "share_group_state_partition_metadata"
TYPES: Final = RecordTypes(epoch=EPOCH, member=MEMBER, target_epoch=TARGET_EPOCH, target=TARGET, current=CURRENT)
RECORDS: Final = frozenset({*TYPES, STATES})
STABLE: Final = 0  # the only state of a member


def new_share_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return of_group(EPOCH, group_id, {"epoch": epoch, "metadata_hash": metadata_hash})


def new_share_member_record(group_id: str, member: ShareMember) -> Record:
    value = {
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
    }
    return of_member(MEMBER, group_id, member.member_id, value)


def new_share_target_record(group_id: str, member_id: str, partitions: Partitions) -> Record:
    return of_member(TARGET, group_id, member_id, {"topic_partitions": topic_partitions(partitions, [*partitions])})


def new_share_current_record(group_id: str, member: ShareMember) -> Record:
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": STABLE,
        "assigned_partitions": topic_partitions(member.assigned, uuid_order(member.assigned)),
    }
    return of_member(CURRENT, group_id, member.member_id, value)


def new_share_states_record(group_id: str, states: PartitionStates) -> Record:
    value = {
        "initializing_topics": _named(states.initializing),
        "initialized_topics": _named(states.initialized),
        "deleting_topics": [
            {"topic_id": topic_id, "topic_name": states.deleting[topic_id]} for topic_id in uuid_order(states.deleting)
        ],
    }
    return of_group(STATES, group_id, value)


def share_group_tombstones(group_id: str) -> list[Record]:
    """Returns the tombstones of a share group that has no members."""
    return [of_group(record_type, group_id, None) for record_type in (TARGET_EPOCH, STATES, EPOCH)]


def _named(topics: ByTopic) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "topic_name": topics[topic_id].name, "partitions": [*topics[topic_id].partitions]}
        for topic_id in uuid_order(topics)
    ]
