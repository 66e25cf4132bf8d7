"""Builds the parts of records that consumer, share and streams groups have in common.

Each of these types of group has five record types with the same keys and the same meaning. The rest is in
`groups/{consumer,share,streams}/records.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groupledger.schemas.codec.records import Record

if TYPE_CHECKING:
    from groupledger.coordinator.model.partitions import Partitions

VERSION: Final = 0


class RecordTypes(NamedTuple):
    """The names of the five record types of one type of groups."""

    epoch: str
    member: str
    target_epoch: str
    target: str
    current: str


def of_group(record_type: str, group_id: str, value: dict[str, Any] | None) -> Record:
    return Record(record_type, {"group_id": group_id}, None if value is None else VERSION, value)


def of_member(record_type: str, group_id: str, member_id: str, value: dict[str, Any] | None) -> Record:
    key = {"group_id": group_id, "member_id": member_id}
    return Record(record_type, key, None if value is None else VERSION, value)


def topic_partitions(partitions: Partitions, order: list[str]) -> list[dict[str, Any]]:
    """Returns partitions in the form of a record, with their topic ids in this order."""
    return [{"topic_id": topic, "partitions": [*partitions[topic]]} for topic in order]
