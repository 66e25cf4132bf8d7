"""Builds the records that a 4.2 broker writes for consumer groups of KIP-848, and their tombstones.

The topics of a target are in the order in which its assignor leaves them, because the next target can depend on it. The
topics of a member's current assignment are in the order of a default HashMap of their ids, and partitions ascend. A
broker's own order can differ in a current assignment, but nothing depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.java_hash_map import uuid_order
from groupledger.coordinator.model.groups.modern.records import (
    VERSION,
    RecordTypes,
    of_group,
    of_member,
    topic_partitions,
)
from groupledger.schemas.codec.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.groups.consumer.regex import ResolvedRegex
    from groupledger.coordinator.model.partitions import Partitions

EPOCH: Final = "consumer_group_metadata"
MEMBER: Final = "consumer_group_member_metadata"
PARTITION_METADATA: Final = "consumer_group_partition_metadata"  # only its tombstone, and only with the group's
TARGET_EPOCH: Final = "consumer_group_target_assignment_metadata"
TARGET: Final = "consumer_group_target_assignment_member"
CURRENT: Final = "consumer_group_current_member_assignment"
REGEX: Final = "consumer_group_regular_expression"
TYPES: Final = RecordTypes(epoch=EPOCH, member=MEMBER, target_epoch=TARGET_EPOCH, target=TARGET, current=CURRENT)
RECORDS: Final = frozenset({*TYPES, REGEX})


def new_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return of_group(EPOCH, group_id, {"epoch": epoch, "metadata_hash": metadata_hash})


def new_member_record(group_id: str, member: ConsumerMember) -> Record:
    classic = member.classic
    value = {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.regex,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "server_assignor": member.assignor,
        "classic_member_metadata": None
        if classic is None
        else {
            "session_timeout_ms": classic.session_timeout_ms,
            "supported_protocols": [{"name": name, "metadata": metadata} for name, metadata in classic.protocols],
        },
    }
    return of_member(MEMBER, group_id, member.member_id, value)


def new_target_record(group_id: str, member_id: str, partitions: Partitions) -> Record:
    return of_member(TARGET, group_id, member_id, {"topic_partitions": topic_partitions(partitions, [*partitions])})


def new_current_record(group_id: str, member: ConsumerMember) -> Record:
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": int(member.state),
        "assigned_partitions": _held(member, member.assigned),
        "partitions_pending_revocation": _held(member, member.pending_revocation),
    }
    return of_member(CURRENT, group_id, member.member_id, value)


def new_regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    value = {
        "topics": sorted(resolved.topics),
        "version": resolved.version,
        "timestamp_ms": resolved.timestamp_ms,
    }
    return Record(REGEX, {"group_id": group_id, "regular_expression": regex}, VERSION, value)


def new_regex_tombstone(group_id: str, regex: str) -> Record:
    return Record(REGEX, {"group_id": group_id, "regular_expression": regex}, None, None)


def group_tombstones(group_id: str, member_ids: Iterable[str] = (), regexes: Iterable[str] = ()) -> list[Record]:
    """Returns the tombstones of a group, of its members and of its resolved regular expressions. The caller has to pass
    all members and expressions that the group has."""
    order = [*member_ids]
    return [
        *(of_member(CURRENT, group_id, member_id, None) for member_id in order),
        *(of_member(TARGET, group_id, member_id, None) for member_id in order),
        of_group(TARGET_EPOCH, group_id, None),
        *(of_member(MEMBER, group_id, member_id, None) for member_id in order),
        *(new_regex_tombstone(group_id, regex) for regex in regexes),
        of_group(PARTITION_METADATA, group_id, None),
        of_group(EPOCH, group_id, None),
    ]


def _held(member: ConsumerMember, partitions: Partitions) -> list[dict[str, Any]]:
    def epochs(topic: str) -> list[int]:
        return [member.epoch_of(topic, number) for number in partitions[topic]] if member.epochs else []

    listed = topic_partitions(partitions, uuid_order(partitions))
    return [{**each, "assignment_epochs": epochs(each["topic_id"])} for each in listed]
