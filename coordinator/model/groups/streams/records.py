"""Builds the records that a broker writes for streams groups, and their tombstones: types 17 and 19 to 23.

Subtopologies and partitions are sorted in them, except in the record of a topology, which has them as the member sent
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groupledger.coordinator.model.groups.modern.records import RecordTypes, of_group, of_member
from groupledger.coordinator.model.groups.streams.tasks import by_role
from groupledger.coordinator.model.groups.streams.topology import as_record
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.model.groups.streams.member import StreamsMember
    from groupledger.coordinator.model.groups.streams.tasks import Held, Task
    from groupledger.coordinator.model.groups.streams.topology import KeyValue, Topology
    from groupledger.schemas.codec.records import Record

EPOCH: Final = "streams_group_metadata"
MEMBER: Final = "streams_group_member_metadata"
TARGET_EPOCH: Final = "streams_group_target_assignment_metadata"
TARGET: Final = "streams_group_target_assignment_member"
CURRENT: Final = "streams_group_current_member_assignment"
TOPOLOGY: Final = "streams_group_topology"
TYPES: Final = RecordTypes(epoch=EPOCH, member=MEMBER, target_epoch=TARGET_EPOCH, target=TARGET, current=CURRENT)
RECORDS: Final = frozenset({*TYPES, TOPOLOGY})
NOT_VALIDATED: Final = -1
_ROLES: Final = (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP)


class GroupWords(NamedTuple):
    """The content of the group's record apart from the epoch."""

    metadata_hash: int = 0
    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: tuple[KeyValue, ...] = ()


def new_streams_epoch_record(group_id: str, epoch: int, words: GroupWords) -> Record:
    value = {
        "epoch": epoch,
        "metadata_hash": words.metadata_hash,
        "validated_topology_epoch": words.validated_topology_epoch,
        "last_assignment_configs": as_record(words.assignment_configs),
        "stored_description_topology_epoch": -1,
        "failed_description_topology_epoch": -1,
    }
    return of_group(EPOCH, group_id, value)


def new_streams_topology_record(group_id: str, topology: Topology) -> Record:
    return of_group(TOPOLOGY, group_id, as_record(topology))


def new_streams_member_record(group_id: str, member: StreamsMember) -> Record:
    value = {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": as_record(member.user_endpoint),
        "client_tags": as_record(member.client_tags),
    }
    return of_member(MEMBER, group_id, member.member_id, value)


def new_streams_target_record(group_id: str, member_id: str, tasks: Iterable[Task]) -> Record:
    value = {
        f"{role}_tasks": [{"subtopology_id": name, "partitions": [*numbers]} for name, numbers in tasks]
        for role, tasks in zip(_ROLES, by_role(tasks), strict=True)
    }
    return of_member(TARGET, group_id, member_id, value)


def new_streams_current_record(group_id: str, member: StreamsMember) -> Record:
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": int(member.state),
        **_task_fields(member.assigned, ""),
        **_task_fields(member.pending_revocation, "_pending_revocation"),
    }
    return of_member(CURRENT, group_id, member.member_id, value)


def streams_group_tombstones(group_id: str) -> list[Record]:
    """Returns the tombstones of a streams group that has no members."""
    return [of_group(record_type, group_id, None) for record_type in (TARGET_EPOCH, EPOCH, TOPOLOGY)]


def _task_fields(held: Held, suffix: str) -> dict[str, Any]:
    epochs = {task[1:]: epoch for task, epoch in held.items() if task.role == TaskRole.ACTIVE}
    return {
        f"{role}_tasks{suffix}": [
            {
                "subtopology_id": name,
                "partitions": [*numbers],
                "assignment_epochs": [epochs[name, each] for each in numbers] if role == TaskRole.ACTIVE else [],
            }
            for name, numbers in tasks
        ]
        for role, tasks in zip(_ROLES, by_role(held), strict=True)
    }
