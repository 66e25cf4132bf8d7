"""Defines the fold's input: the events of one group, in the order of the log.

A group-level event is one record. Nearly all records are commits, so these come summed up: one `CommitSums` for each
topic and partition between two group-level events or ends of batches. A commit after a tombstone of an offset begins a
new summary, so in each summary all commits come before all tombstones; apart from that, the result does not depend on
where the summaries are cut. `Coverage` says how completely the log is known from an offset on
(`schemas.tables.coverage`)."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.schemas.codec.connect_protocol import decode_connect_assignment
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.instants import known_ms
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.coverage.rules.stretches import Stretch

CONSUMER = "consumer"
CONNECT = "connect"


SESSION_DEFAULT_MS = 45_000  # of groups of KIP-848's kind, where the broker's setting counts and no record has it


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Holds a member without its partitions. `topics` is sorted, and None if the subscription can't be read.
    `session_timeout_ms` is None if the broker's own setting counts (KIP-848). `is_classic`: the member speaks the
    classic protocol, in a group of any type. Members of share groups have no `rebalance_timeout_ms`. Members of streams
    groups have a process and the epoch of the topology that they run, and no topics of their own."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    subscription_error: str | None = None
    assignment_error: str | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    is_classic: bool = True
    process_id: str | None = None
    topology_epoch: int | None = None

    @property
    def identity(self) -> str:
        """Returns the identity that a member has over restarts: the instance id of a static member, or else the member
        id."""
        is_static = self.group_instance_id is not None
        return f"instance {self.group_instance_id}" if is_static else f"member {self.member_id}"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Holds a member of a classic group. `owned` are the partitions that it reported as owned when it joined.
    `assigned` are those that it owns after the record; None if they can't be read."""

    facts: MemberFacts
    owned: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] | None = ()


@dataclass(frozen=True, slots=True)
class GroupEvent:
    kafka_offset: int
    kafka_timestamp_ms: int

    @property
    def first_kafka_offset(self) -> int:
        return self.kafka_offset

    @property
    def last_kafka_offset(self) -> int:
        return self.kafka_offset


@dataclass(frozen=True, slots=True)
class GroupRecord(GroupEvent):
    """A `group_metadata` record. `current_state_timestamp_ms` is None before value version 2.

    `owners` has, by unit (partition, connector or task), the members that own it, sorted; these are several if an
    assignor gave a unit to several members. `scheduled_delay_ms` is how long a Connect group's leader leaves the tasks
    of a lost worker unassigned; other groups, and Connect's eager protocol, have no such delay.
    """

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int | None
    members: tuple[GroupMember, ...]
    scheduled_delay_ms: int | None = None
    owners: dict[TopicPartition, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    is_ownership_known: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owners: dict[TopicPartition, tuple[str, ...]] = {}
        shared: dict[TopicPartition, list[str]] = {}
        for member in self.members:
            alone = (member.facts.member_id,)
            for unit in member.assigned or ():
                if unit in owners:
                    shared.setdefault(unit, list(owners[unit])).append(member.facts.member_id)
                else:
                    owners[unit] = alone
        owners.update({unit: tuple(sorted(member_ids)) for unit, member_ids in shared.items()})
        object.__setattr__(self, "owners", owners)
        object.__setattr__(self, "is_ownership_known", all(member.assigned is not None for member in self.members))


@dataclass(frozen=True, slots=True)
class GroupTombstone(GroupEvent):
    """The tombstone of a `group_metadata` record."""


@dataclass(frozen=True, slots=True)
class OtherGroupType(GroupEvent):
    """Holds a record of another type of group: `consumer` (KIP-848), `share` or `streams`.

    Only the group's own metadata record has an epoch; `is_group_tombstone` says that the record is the tombstone of
    that one. `is_tombstone` is True for any tombstone, also a member's or a topology's. `content` is the record as the
    module `content` parses it.
    """

    group_type: str
    group_epoch: int | None = None
    is_group_tombstone: bool = False
    is_tombstone: bool = False
    content: object = None


@dataclass(frozen=True, slots=True)
class CommitSums:
    """Sums up the offset commits of one partition in a stretch of the log.

    `first_kafka_offset` and `last_kafka_offset` include tombstones; `is_removed` says that the last record is a
    tombstone. The other fields are about commits only, and are None if there is no commit. Timestamps are those of the
    records.
    """

    topic: str
    partition: int
    first_kafka_offset: int
    last_kafka_offset: int
    commit_count: int
    first_commit_timestamp_ms: int | None = None
    last_commit_timestamp_ms: int | None = None
    first_committed_offset: int | None = None
    last_committed_offset: int | None = None
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """Marks where a stretch of coverage begins: how completely the log is known from `from_offset` on, until the next
    mark. `is_state_lost` says that a group may have ended before the mark without a record of that. `has_all_records`
    says that the stretch is compacted but has all its records, whatever is missing before it
    (`transforms.coverage.rules.stretches`)."""

    from_offset: int
    completeness: str
    is_state_lost: bool = False
    has_all_records: bool = False

    @property
    def hides_ends(self) -> bool:
        return self.completeness == Completeness.UNKNOWN or self.is_state_lost


def mark_of(stretch: Stretch) -> Coverage:
    """Returns the mark that comes before the records of a stretch."""
    has_all_records = stretch.completeness == Completeness.COMPACTED and stretch.proof is not None
    return Coverage(stretch.from_offset, stretch.completeness, stretch.is_state_lost, has_all_records)


Event: TypeAlias = GroupRecord | GroupTombstone | OtherGroupType | CommitSums | Coverage


def group_record(kafka_offset: int, kafka_timestamp_ms: int, record_json: str) -> GroupRecord:
    """Returns the event for a `group_metadata` row of `coordinator_records` that is not a tombstone."""
    fields = json.loads(record_json)
    state_timestamp_ms = fields["current_state_timestamp_ms"]
    return GroupRecord(
        kafka_offset,
        kafka_timestamp_ms,
        fields["generation"],
        fields["protocol_type"],
        fields["protocol"],
        fields["leader"],
        known_ms(state_timestamp_ms),
        tuple(_member(member, fields["protocol_type"]) for member in fields["members"]),
        _scheduled_delay_ms(fields["members"]) if fields["protocol_type"] == CONNECT else None,
    )


def _member(fields: Mapping[str, Any], protocol_type: str) -> GroupMember:
    topics = rack_id = None
    error = fields.get("assignment_error")
    owned: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] | None = None
    if protocol_type == CONSUMER:
        subscription, assignment = fields.get("consumer_subscription"), fields.get("consumer_assignment")
        if subscription is not None:
            topics, rack_id = tuple(sorted(set(subscription["topics"]))), subscription["rack_id"]
            owned = _units(subscription["owned_partitions"], "topic", "partitions")
        if error is None:
            assigned = () if assignment is None else _units(assignment["assigned_partitions"], "topic", "partitions")
    elif protocol_type == CONNECT:
        try:
            owned, assigned = _connect_ownership(fields)
        except (DecodeError, binascii.Error) as broken:
            error = f"allocation: {broken}"
    facts = MemberFacts(
        fields["member_id"],
        fields["group_instance_id"],
        fields["client_id"],
        fields["client_host"],
        fields["session_timeout_ms"],
        fields["rebalance_timeout_ms"],
        rack_id,
        topics,
        fields.get("subscription_error"),
        error,
    )
    return GroupMember(facts, owned, assigned)


def _connect_ownership(
    fields: Mapping[str, Any],
) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...] | None]:
    """Returns the connectors and tasks that a worker reported as running, and those that it runs after the record.

    From version 1 on an assignment is a change to the allocation that the worker reported, so a single record is
    enough. Version 0 lists all of it.
    """
    metadata, assignment = fields.get("connect_metadata"), fields.get("connect_assignment")
    allocated: tuple[TopicPartition, ...] = ()
    if metadata is not None and metadata["allocation"]:
        allocation = decode_connect_assignment(base64.b64decode(metadata["allocation"])).fields
        allocated = _units(allocation["assignment"], "connector", "tasks")
    if fields.get("assignment_error") is not None:
        return allocated, None
    if assignment is not None and assignment["version"] == 0:
        return allocated, _units(assignment["assignment"], "connector", "tasks")
    if metadata is None:
        return allocated, None
    if assignment is None:
        return allocated, allocated
    revoked = set(_units(assignment["revoked"], "connector", "tasks"))
    kept = tuple(unit for unit in allocated if unit not in revoked)
    return allocated, tuple(dict.fromkeys((*kept, *_units(assignment["assignment"], "connector", "tasks"))))


def _scheduled_delay_ms(members: Iterable[Mapping[str, Any]]) -> int | None:
    """Returns the delay that the leader sent all workers with their assignments."""
    assignments = [each["connect_assignment"] for each in members if each.get("connect_assignment") is not None]
    return max((each["delay_ms"] for each in assignments if each["version"] > 0), default=None)


def _units(wire: Iterable[Mapping[str, Any]] | None, name: str, numbers: str) -> tuple[TopicPartition, ...]:
    """Returns each pair once, though a client may name one twice."""
    return tuple(dict.fromkeys(TopicPartition(each[name], number) for each in wire or () for number in each[numbers]))
