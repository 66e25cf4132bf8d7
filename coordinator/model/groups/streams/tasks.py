"""Tasks of a streams group (KIP-1071), and the lists of them in messages and records.

A task is one partition of a subtopology in one role: active, standby or warm-up. A member's tasks are a flat set here;
requests, responses and records have a list for each role, of subtopologies with their partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_ASSIGNMENT_EPOCH: Final = -1


class Task(NamedTuple):
    role: str
    subtopology_id: str
    partition: int


Tasks = frozenset[Task]
Held = dict[Task, int]
"""Tasks that a member has. An active task has the epoch at which it was assigned, a copy has NO_ASSIGNMENT_EPOCH."""
TaskIds = tuple[tuple[str, tuple[int, ...]], ...]
"""Tasks of one role: partitions by subtopology. A client may name a subtopology without partitions."""


class TasksByRole(NamedTuple):
    active: TaskIds = ()
    standby: TaskIds = ()
    warmup: TaskIds = ()


def tasks_of(tasks: TasksByRole) -> Tasks:
    lists = zip((TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP), tasks, strict=True)
    return frozenset(
        Task(role, subtopology_id, partition)
        for role, task_ids in lists
        for subtopology_id, partitions in task_ids
        for partition in partitions
    )


def by_role(tasks: Iterable[Task]) -> TasksByRole:
    """Groups tasks by role, and within a role by subtopology; both subtopologies and partitions are sorted."""
    found: dict[str, dict[str, list[int]]] = {TaskRole.ACTIVE: {}, TaskRole.STANDBY: {}, TaskRole.WARMUP: {}}
    for task in sorted(tasks):
        found[task.role].setdefault(task.subtopology_id, []).append(task.partition)
    return TasksByRole(*(tuple((name, tuple(numbers)) for name, numbers in each.items()) for each in found.values()))


def held_from(tasks: Iterable[Task], epoch: int) -> Held:
    """Returns the tasks as a member holds them, each active one with the epoch at which it was assigned."""
    return {task: epoch if task.role == TaskRole.ACTIVE else NO_ASSIGNMENT_EPOCH for task in tasks}
