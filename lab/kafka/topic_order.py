"""Sorts the topics of classic assignments before they are compared.

A broker keeps the partitions of a KIP-848 member in hash maps by the topics' random ids, whose order depends on how
each map grew. A classic member of such a group, or of a group that became classic again, gets its assignment with the
topics in that order, which is also in descriptions and in the group's record. No client and no later step of the
coordinator depends on that order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupledger.coordinator.model.messages import DescribeGroupsResponse, SyncGroupResponse
from groupledger.schemas.codec.consumer_protocol import decode_assignment, encode_assignment
from groupledger.schemas.codec.errors import DecodeError
from lab.kafka.paired_play import comparable_record


def answer_by_topic(answer: Any) -> Any:
    """Returns an answer with the topics of its assignments sorted by name."""
    if isinstance(answer, SyncGroupResponse):
        return replace(answer, assignment=_by_topic(answer.assignment))
    if isinstance(answer, DescribeGroupsResponse):
        groups = tuple(
            replace(
                group,
                members=tuple(replace(each, assignment=_by_topic(each.assignment)) for each in group.members),
            )
            for group in answer.groups
        )
        return replace(answer, groups=groups)
    return answer


def comparable_by_topic(record: Any) -> Any:
    """Returns a record for comparison, with the topics of its members' assignments sorted by name."""
    kind, key, version, value = comparable_record(record)
    if kind == "group_metadata" and value is not None:
        members = [{**each, "assignment": _by_topic(each["assignment"])} for each in value["members"]]
        value = {**value, "members": members}
    return kind, key, version, value


def _by_topic(assignment: bytes) -> bytes:
    """Returns an assignment with its topics in order; other bytes are returned unchanged."""
    try:
        message = decode_assignment(assignment)
    except DecodeError:
        return assignment
    topics = sorted(message.fields["assigned_partitions"], key=lambda each: each["topic"] or "")
    return encode_assignment(replace(message, fields={**message.fields, "assigned_partitions": topics}))
