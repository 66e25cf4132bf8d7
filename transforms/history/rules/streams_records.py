"""Defines the parsed records of a `streams` group (KIP-1071), in the terms of `modern_records`.

Members are assigned tasks instead of partitions: a subtopology and a partition number, as active, standby or warm-up
task. The topology has a record of its own, after that of the member that sent it. While topics are missing, the group's
record has -1 as the epoch of the validated topology. Tasks name no topics: the topology says which topics their
subtopology reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from groupledger.schemas.wire import streams_group as wire
from groupledger.schemas.words import TaskRole
from groupledger.transforms.history.rules.events import MemberFacts
from groupledger.transforms.history.rules.modern_records import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    EpochRecord,
    MemberRecord,
    read_target_epoch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.transforms.history.rules.modern_records import TopicNames

# Kafka numbers the states of these members from 1.
_STATES = {1: STABLE, 2: UNREVOKED, 3: UNRELEASED}
_UNKNOWN = 127
_ROLES = {"active_tasks": TaskRole.ACTIVE, "standby_tasks": TaskRole.STANDBY, "warmup_tasks": TaskRole.WARMUP}


class Task(NamedTuple):
    subtopology: str
    partition: int
    role: str


Tasks: TypeAlias = tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class TopologyRecord:
    """Holds the topology's epoch and its subtopologies, in the columns of `stream_topologies`; `epoch` is None in a
    tombstone."""

    epoch: int | None
    subtopologies: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TargetTasksRecord:
    """Holds the tasks that a member is to run; `tasks` is None in a tombstone."""

    member_id: str
    tasks: Tasks | None


@dataclass(frozen=True, slots=True)
class CurrentTasks:
    """The tasks that a member runs. `pending` are those that it has to give up and may still run."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    tasks: Tasks
    pending: Tasks


@dataclass(frozen=True, slots=True)
class CurrentTasksRecord:
    """The record of a member's current tasks; `current` is None in a tombstone."""

    member_id: str
    current: CurrentTasks | None


def _epoch(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> EpochRecord | None:
    if is_tombstone:
        return None
    configs = sorted((each["key"], each["value"]) for each in fields["last_assignment_configs"] or ())
    return EpochRecord(
        fields["epoch"],
        fields["metadata_hash"],
        is_topology_ready=fields["validated_topology_epoch"] >= 0,
        assignment_configs=tuple(configs),
    )


def _member(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> MemberRecord:
    member_id = fields["member_id"]
    if is_tombstone:
        return MemberRecord(member_id, None)
    facts = MemberFacts(
        member_id,
        fields["instance_id"],
        fields["client_id"],
        fields["client_host"],
        None,
        fields["rebalance_timeout_ms"],
        fields["rack_id"],
        is_classic=False,
        process_id=fields["process_id"],
        topology_epoch=fields["topology_epoch"],
    )
    return MemberRecord(member_id, facts)


def _target(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> TargetTasksRecord:
    return TargetTasksRecord(fields["member_id"], None if is_tombstone else _tasks(fields, ""))


def _current(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> CurrentTasksRecord:
    if is_tombstone:
        return CurrentTasksRecord(fields["member_id"], None)
    current = CurrentTasks(
        fields["member_epoch"],
        fields["previous_member_epoch"],
        _STATES.get(fields["state"], _UNKNOWN),
        _tasks(fields, ""),
        _tasks(fields, "_pending_revocation"),
    )
    return CurrentTasksRecord(fields["member_id"], current)


def _tasks(fields: Mapping[str, Any], ending: str) -> Tasks:
    found = {
        Task(each["subtopology_id"], number, role)
        for name, role in _ROLES.items()
        for each in fields[f"{name}{ending}"]
        for number in each["partitions"]
    }
    return tuple(sorted(found))


def _topology(fields: Mapping[str, Any], _names: TopicNames, is_tombstone: bool) -> TopologyRecord:
    if is_tombstone:
        return TopologyRecord(None)
    parts = sorted(fields["subtopologies"], key=lambda part: str(part["subtopology_id"]))
    return TopologyRecord(
        fields["epoch"],
        tuple(
            {
                "subtopology": part["subtopology_id"],
                "source_topics": sorted(part["source_topics"]),
                "source_topic_regex": sorted(part["source_topic_regex"]),
                "repartition_source_topics": sorted(each["name"] for each in part["repartition_source_topics"]),
                "repartition_sink_topics": sorted(part["repartition_sink_topics"]),
                "changelog_topics": sorted(each["name"] for each in part["state_changelog_topics"]),
            }
            for part in parts
        ),
    )


READERS = {
    wire.STREAMS_GROUP_METADATA.record_type: _epoch,
    wire.STREAMS_GROUP_MEMBER_METADATA.record_type: _member,
    wire.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA.record_type: read_target_epoch,
    wire.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type: _target,
    wire.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type: _current,
    wire.STREAMS_GROUP_TOPOLOGY.record_type: _topology,
}
