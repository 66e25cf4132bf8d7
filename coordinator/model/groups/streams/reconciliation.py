"""Moves a member of a streams group from its current tasks to its target, one heartbeat at a time.

A member keeps the tasks that are also in its target. While it still holds tasks to give up, it stays in its epoch.
Afterwards it advances by at least one epoch, and to the target's epoch once it gets those tasks of its target that are
free. An active task is free when no member has it active and the member's process has no copy of it; a copy is free
when the member's process does not have the task in any role. Every step sets the previous epoch, even a step that
leaves the epoch as it is. Source: responses of a 4.2 broker (`lab.kafka.streams_differential`).
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
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.groups.streams.tasks import Held, Task, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsReconciliation:
    """The inputs of a member's next step. `owned` are the tasks that it reports, or None if it reports none."""

    group: StreamsGroup
    target_epoch: int
    target: Tasks
    owned: Tasks | None

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
        if surplus and self._still_owns(surplus):
            state = StreamsMemberState.UNREVOKED_TASKS
        else:
            wanted = [task for task in self.target if task not in kept]
            free = [task for task in wanted if self._is_free(task, member.process_id)]
            is_whole = len(free) == len(wanted)
            state = StreamsMemberState.STABLE if is_whole else StreamsMemberState.UNRELEASED_TASKS
            epoch, surplus = self.target_epoch, {}
            kept |= held_from(free, self.target_epoch)
        return replace(
            member,
            state=state,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=surplus,
        )

    def _is_free(self, task: Task, process_id: str) -> bool:
        active, *copies = (
            self.group.processes_with(task._replace(role=role))
            for role in (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP)
        )
        if any(process_id in processes for processes in copies):
            return False
        return not active if task.role == TaskRole.ACTIVE else process_id not in active
