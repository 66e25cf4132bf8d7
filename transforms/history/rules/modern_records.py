"""Defines the parsed records of a `consumer` group (KIP-848): the contents of `OtherGroupType`, one class for each
record type.

Record types are named by the versions of their keys. One operation of the coordinator writes, in this order: 5 of each
member that came or changed (or the tombstones 8, 7 and 5 of a member that went), 16 with the topics of a regular
expression, 3 with the next epoch, 7 of each member whose target changed, 6 with the epoch of the targets, and 8 of a
member whose current assignment changed (Kafka's GroupMetadataManager;
`tests/transforms/history/rules/data/consumer_groups.jsonl` is a real broker's log). The records name topics by id;
`names` gives the names that are known, and an unknown name is given by its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.wire import consumer_group as wire
from groupledger.transforms.history.rules.events import MemberFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    TopicNames: TypeAlias = Mapping[str, str]
    """Names of topics by id."""

Units: TypeAlias = tuple[TopicPartition, ...]

AWAY = -2  # the member epoch of a static member that left for a while
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Holds the record of the group's epoch. Only `streams` groups have the last two fields: whether the broker finds
    all topics of the topology, and the settings for assigning tasks."""

    epoch: int
    metadata_hash: int
    is_topology_ready: bool | None = None
    assignment_configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """Holds the record of a member. `facts` is None in a tombstone."""

    member_id: str
    facts: MemberFacts | None


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    """Holds the epoch of the target assignment, to which the targets of all members belong; `epoch` is None in a
    tombstone."""

    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """Holds the target of a member, which are the partitions that it is to own; `units` is None in a tombstone."""

    member_id: str
    units: Units | None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """A member's current assignment. `pending` are the partitions that the member has to give up and may still hold.
    `names_assignment_epochs`: the record says in which epoch each partition was assigned to the member (Kafka 4.3 and
    later)."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Units
    pending: Units
    names_assignment_epochs: bool = False

    @property
    def is_away(self) -> bool:
        return self.member_epoch == AWAY

    @property
    def held(self) -> Units:
        """Returns the partitions that the member may process. A static member that is away still has its partitions
        assigned, but processes none."""
        return () if self.is_away else (*self.assigned, *self.pending)


@dataclass(frozen=True, slots=True)
class CurrentRecord:
    """The record of a member's current assignment; `current` is None in a tombstone."""

    member_id: str
    current: CurrentAssignment | None


@dataclass(frozen=True, slots=True)
class RegexRecord:
    """Holds the topics that match a regular expression of a subscription, sorted; `topics` is None in a tombstone."""

    regex: str
    topics: tuple[str, ...] | None


def read_epoch(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> EpochRecord | None:
    return None if is_tombstone else EpochRecord(fields["epoch"], fields["metadata_hash"])


def _member(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> MemberRecord:
    member_id = fields["member_id"]
    if is_tombstone:
        return MemberRecord(member_id, None)
    classic = fields["classic_member_metadata"]
    facts = MemberFacts(
        member_id,
        fields["instance_id"],
        fields["client_id"],
        fields["client_host"],
        None if classic is None else classic["session_timeout_ms"],
        fields["rebalance_timeout_ms"],
        fields["rack_id"],
        tuple(sorted(set(fields["subscribed_topic_names"]))),
        subscribed_regex=fields["subscribed_topic_regex"] or None,
        server_assignor=fields["server_assignor"],
        is_classic=classic is not None,
    )
    return MemberRecord(member_id, facts)


def read_target_epoch(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> TargetEpochRecord:
    return TargetEpochRecord(None if is_tombstone else fields["assignment_epoch"])


def read_target(fields: Mapping[str, Any], names: TopicNames, is_tombstone: bool) -> TargetRecord:
    return TargetRecord(fields["member_id"], None if is_tombstone else units_of(fields["topic_partitions"], names))


def _current(fields: Mapping[str, Any], names: TopicNames, is_tombstone: bool) -> CurrentRecord:
    if is_tombstone:
        return CurrentRecord(fields["member_id"], None)
    current = CurrentAssignment(
        fields["member_epoch"],
        fields["previous_member_epoch"],
        fields["state"],
        units_of(fields["assigned_partitions"], names),
        units_of(fields["partitions_pending_revocation"], names),
        any(
            topic.get("assignment_epochs")
            for topic in (*fields["assigned_partitions"], *fields["partitions_pending_revocation"])
        ),
    )
    return CurrentRecord(fields["member_id"], current)


def _regex(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> RegexRecord:
    return RegexRecord(fields["regular_expression"], None if is_tombstone else tuple(sorted(set(fields["topics"]))))


def units_of(topics: Iterable[Mapping[str, Any]], names: TopicNames) -> Units:
    """Returns the partitions that a record lists by topic, sorted, with the names of the topics; an unknown name is
    given by the topic's id."""
    found = (
        TopicPartition(names.get(each["topic_id"], each["topic_id"]), number)
        for each in topics
        for number in each["partitions"]
    )
    return tuple(sorted(set(found)))


READERS: dict[str, Callable[[Mapping[str, Any], TopicNames, bool], object]] = {
    wire.CONSUMER_GROUP_METADATA.record_type: read_epoch,
    wire.CONSUMER_GROUP_MEMBER_METADATA.record_type: _member,
    wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.record_type: read_target_epoch,
    wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type: read_target,
    wire.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type: _current,
    wire.CONSUMER_GROUP_REGULAR_EXPRESSION.record_type: _regex,
}
