"""Checks the rules that hold from one record to the next in groups of KIP-848's kind: `consumer`, `share` and `streams`
groups.

Such a group has three epochs, each after the one before: the group's own, that of the target assignment, which the
coordinator computes for the group's epoch, and that of each member, which follows the target (Kafka
GroupMetadataManager, CurrentAssignmentBuilder).

    the group's epoch      never goes back before the group's tombstone
    the target's epoch     is not ahead of the group's
    a member's epoch       is not ahead of the target's
    a member's state       is `unrevoked` only while it has something to give up. Members of share groups have no state;
                           a static member that is away, or has just replaced another, keeps the earlier state
    a partition, or task   is held by one member: it is given to the next when the one before has given it up, and stays
                           with a static member that is away. Members of share groups hold partitions together, and
                           standby and warm-up tasks are copies, and there may be several

Only records that were read in one complete stretch are compared, with each other and with the newest record of each key
in a compacted stretch before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import Completeness, FindingKind, GroupType, MemberState, TaskRole
from groupledger.transforms.history.rules.modern_records import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    CurrentRecord,
    EpochRecord,
    TargetEpochRecord,
)
from groupledger.transforms.history.rules.streams_records import CurrentTasks, CurrentTasksRecord
from groupledger.transforms.replay.rules.finding import Contradiction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.transforms.history.rules.events import Coverage, OtherGroupType
    from groupledger.transforms.history.rules.modern_records import CurrentAssignment

STATES = {STABLE: MemberState.STABLE, UNREVOKED: MemberState.UNREVOKED, UNRELEASED: MemberState.UNRELEASED}
# A partition, or the subtopology and partition of an active task.
Held: TypeAlias = TopicPartition | tuple[str, int]


@dataclass(slots=True)
class NewestState:
    """Holds what the newest records of a group say. None and missing entries are not known. `holders` has, by unit, the
    members that hold it, in the order in which they got it; `held` has the units by member."""

    group_type: str | None = None
    epoch: int | None = None
    target_epoch: int | None = None
    holders: dict[Held, list[str]] = field(default_factory=dict)
    held: dict[str, list[Held]] = field(default_factory=dict)

    def take(self, member_id: str, held: list[Held]) -> None:
        self.held[member_id] = held
        for each in held:
            self.holders.setdefault(each, []).append(member_id)

    def release(self, member_id: str) -> None:
        for each in self.held.pop(member_id, ()):
            self.holders[each].remove(member_id)


class ModernGroup:
    """Goes through the events of one group, and checks each of its records."""

    def __init__(self) -> None:
        self._is_complete = False
        self._standing = NewestState()

    def enter(self, mark: Coverage) -> None:
        """Notes that a new stretch of coverage begins, which holds for the records that follow."""
        self._is_complete = mark.completeness == Completeness.COMPLETE
        if not self._is_complete or mark.hides_ends:
            self._standing = NewestState()

    def end(self) -> None:
        """Takes in that the group has ended, or is of another type from here on."""
        self._standing = NewestState()

    def contradictions(self, event: OtherGroupType) -> Iterator[Contradiction]:
        if event.group_type != self._standing.group_type or event.is_group_tombstone:
            self._standing = NewestState(event.group_type)
        found = [*self._finding(event.content)]
        if self._is_complete:
            yield from found

    def _finding(self, record: object) -> Iterator[Contradiction]:
        if isinstance(record, EpochRecord):
            yield from self._epoch(record.epoch)
        elif isinstance(record, TargetEpochRecord):
            yield from self._target_epoch(record.epoch)
        elif isinstance(record, CurrentRecord | CurrentTasksRecord):
            self._standing.release(record.member_id)
            if record.current is not None:
                yield from self._step(record.member_id, record.current)

    def _epoch(self, epoch: int) -> Iterator[Contradiction]:
        before, self._standing.epoch = self._standing.epoch, epoch
        if before is not None and epoch < before:
            # It is unknown which of the two is wrong, so neither is counted as a fault.
            self._standing = NewestState(self._standing.group_type)
            yield Contradiction(
                FindingKind.GENERATION_DECREASED,
                f"The group's epoch goes back from {before} to {epoch}, and no tombstone lies between.",
                evidence={"previous_epoch": before},
            )

    def _target_epoch(self, epoch: int | None) -> Iterator[Contradiction]:
        of_group = self._standing.epoch
        if epoch is not None and of_group is not None and epoch > of_group:
            yield Contradiction(
                FindingKind.ILLEGAL_TRANSITION,
                f"The target assignment is of epoch {epoch}, and the group has only come to epoch {of_group}.",
                evidence={"target_epoch": epoch, "group_epoch": of_group},
            )
        self._standing.target_epoch = epoch

    def _step(self, member_id: str, current: CurrentAssignment | CurrentTasks) -> Iterator[Contradiction]:
        target_epoch = self._standing.target_epoch
        if target_epoch is not None and current.member_epoch > target_epoch:
            yield Contradiction(
                FindingKind.ILLEGAL_TRANSITION,
                f"{member_id} is at epoch {current.member_epoch}, and the target assignment only of {target_epoch}.",
                member_id,
                evidence={"member_epoch": current.member_epoch, "target_epoch": target_epoch},
            )
        if self._standing.group_type != GroupType.SHARE:
            yield from _state(member_id, current)
            yield from self._take(member_id, current)

    def _take(self, member_id: str, current: CurrentAssignment | CurrentTasks) -> Iterator[Contradiction]:
        held = _held_by(current)
        self._standing.take(member_id, held)
        twice = [(each, [*self._standing.holders[each]]) for each in held if len(self._standing.holders[each]) > 1]
        if twice:
            (name, number), holders = twice[0]
            is_task = isinstance(current, CurrentTasks)
            what = f"The active task {name}_{number}" if is_task else f"{name}-{number}"
            yield Contradiction(
                FindingKind.PARTITION_WITH_TWO_OWNERS,
                f"{what} is given to {member_id} while {holders[0]} still has it.",
                holders[0],
                None if is_task else name,
                number,
                {"owners": [[*each, members] for each, members in twice]},
            )


def _held_by(current: CurrentAssignment | CurrentTasks) -> list[Held]:
    """Returns the units that no other member may hold at the same time, sorted."""
    if isinstance(current, CurrentTasks):
        tasks = {*current.tasks, *current.pending}
        return sorted((task.subtopology, task.partition) for task in tasks if task.role == TaskRole.ACTIVE)
    return sorted({*current.assigned, *current.pending})


def _state(member_id: str, current: CurrentAssignment | CurrentTasks) -> Iterator[Contradiction]:
    if current.member_epoch > 0 and current.state in STATES and (current.state == UNREVOKED) != bool(current.pending):
        state = STATES[current.state]
        amount = f"{len(current.pending)} partitions" if current.pending else "nothing"
        yield Contradiction(
            FindingKind.ILLEGAL_RECORD,
            f"No coordinator writes this record: {member_id} is {state}, and has {amount} to give up.",
            member_id,
            evidence={"state": state, "pending": [list(each) for each in current.pending]},
        )
