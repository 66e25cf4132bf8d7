"""Moves a member of a streams group from its current tasks to its target, one heartbeat at a time.

A member keeps the tasks that are also in its target. While it still holds tasks to give up, it stays in its epoch.
Afterwards it advances by at least one epoch, and to the target's epoch once it gets those tasks of its target that are
free. An active task is free when no member has it active and the member's process has no copy of it; a copy is free
when the member's process does not have the task in any role. Every step sets the previous epoch, even a step that
leaves the epoch as it is. Source: responses of brokers of 4.2 and 4.4 (`lab.kafka.streams_differential`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.coordinator.model.errors import RefusedError
from groupledger.coordinator.model.groups.streams.member import StreamsMember, StreamsMemberState
from groupledger.coordinator.model.groups.streams.tasks import held_from
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Container

    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.groups.streams.tasks import Held, Task, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsReconciliation:
    """The inputs of a member's next step. `owned` are the tasks that it reports, or None if it reports none.
    `changes_roles` says that a task can change its role within a member, as since 4.4. Then a copy that the member
    itself has does not keep the task from it."""

    group: StreamsGroup
    target_epoch: int
    target: Tasks
    owned: Tasks | None
    changes_roles: bool = False

    def step(self, member: StreamsMember) -> StreamsMember:
        """Returns the member after the step. It is unchanged if it has to wait or has reached its target. Raises
        RefusedError if its recorded state is unknown and it does not report that it has no tasks."""
        if member.is_reconciled_to(self.target_epoch):
            return member
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            return member if self._still_owns(member.pending_revocation) else self._next(member, member.epoch + 1)
        if member.state is StreamsMemberState.UNKNOWN and (self.owned is None or self.owned):
            raise RefusedError(Error.FENCED_MEMBER_EPOCH)
        return self._next(member, member.epoch)

    def _still_owns(self, tasks: Held) -> bool:
        return self.owned is None or not self.owned.isdisjoint(tasks)

    def _next(self, member: StreamsMember, epoch: int) -> StreamsMember:
        kept = {task: given for task, given in member.assigned.items() if task in self.target}
        surplus = {task: given for task, given in member.assigned.items() if task not in self.target}
        wanted = [task for task in self.target if task not in kept]
        free = [task for task in wanted if self._is_free(task, member)]
        is_whole = len(free) == len(wanted)
        if self.changes_roles:
            kept, surplus = self._with_changed_roles(member, free, kept, surplus)
        if surplus and self._still_owns(surplus):
            state = StreamsMemberState.UNREVOKED_TASKS
        else:
            state = StreamsMemberState.STABLE if is_whole else StreamsMemberState.UNRELEASED_TASKS
            epoch, surplus = self.target_epoch, {}
            kept = {task: given for task, given in kept.items() if not _becomes_active(task, free)}
            kept |= held_from(free, self.target_epoch)
        return replace(
            member,
            state=state,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=surplus,
        )

    def _with_changed_roles(
        self, member: StreamsMember, free: list[Task], kept: Held, surplus: Held
    ) -> tuple[Held, Held]:
        """Returns `kept` and `surplus` with the tasks whose role changes: a member gets a copy of its own task at once,
        need not give up one copy for another, and keeps a copy until it has the task active."""
        places = {task[1:] for task in member.assigned}
        copies = [task for task in free if task.role != TaskRole.ACTIVE and task[1:] in places]
        turned = {task[1:] for task in copies}
        rising = [task for task in surplus if _becomes_active(task, self.target)]
        stay = {task for task in surplus if task.role != TaskRole.ACTIVE and (task in rising or task[1:] in turned)}
        kept = kept | held_from([*copies, *rising], self.target_epoch)
        return kept, {task: given for task, given in surplus.items() if task not in stay}

    def _is_free(self, task: Task, member: StreamsMember) -> bool:
        if task.role == TaskRole.ACTIVE and self.group.processes_with(task):
            return False
        roles = (task._replace(role=role) for role in (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP))
        return not any(
            member.process_id in self.group.processes_with(each)
            for each in roles
            if not (self.changes_roles and each in member.assigned)
        )


def _becomes_active(task: Task, tasks: Container[Task]) -> bool:
    """Whether a copy of a task is to become the active task."""
    return task.role != TaskRole.ACTIVE and task._replace(role=TaskRole.ACTIVE) in tasks
