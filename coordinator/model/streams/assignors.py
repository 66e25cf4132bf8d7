"""Who is to have which task: an input of the coordinator, whose legality is checked.

A broker's own assignor (`sticky`) weighs earlier owners, processes and standbys; it is not computed here. A coordinator
is given a function instead (`streams_assignor`): one that knows what a broker decided, or `in_turn`, which is not
Kafka's. Whatever it returns has to be legal: every task is active once, and no process has a task twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle

from groupledger.coordinator.model.streams.tasks import Task, Tasks
from groupledger.schemas.words import TaskRole


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToAssign:
    """What an assignor is told: the process of each member, the number of tasks of each subtopology, and the target
    that each member had before."""

    group_id: str
    processes: Mapping[str, str]
    task_counts: Mapping[str, int]
    before: Mapping[str, Tasks]

    def active_tasks(self) -> list[Task]:
        return [
            Task(TaskRole.ACTIVE, name, number)
            for name, count in sorted(self.task_counts.items())
            for number in range(count)
        ]


StreamsAssignor = Callable[[TasksToAssign], Mapping[str, Tasks]]


class IllegalTargetError(ValueError):
    """An assignor gave tasks to members in a way that no broker would."""


def in_turn(asked: TasksToAssign) -> dict[str, Tasks]:
    """Gives the active tasks to the members in turn, in the order of their ids; there are no copies."""
    found: dict[str, set[Task]] = {name: set() for name in sorted(asked.processes)}
    for name, task in zip(cycle(found), asked.active_tasks(), strict=False):
        found[name].add(task)
    return {name: frozenset(tasks) for name, tasks in found.items()}


def check_legal(target: Mapping[str, Tasks], asked: TasksToAssign) -> None:
    """Raises IllegalTargetError for a target that no assignor of a broker could have made."""
    strangers = [name for name in target if name not in asked.processes]
    if strangers:
        raise IllegalTargetError(f"{asked.group_id}: {strangers} are no members")
    given = Counter(task for tasks in target.values() for task in tasks if task.role == TaskRole.ACTIVE)
    if given != Counter(asked.active_tasks()):
        raise IllegalTargetError(f"{asked.group_id}: the active tasks are {given}, of {dict(asked.task_counts)}")
    by_process = Counter((asked.processes[name], task[1:]) for name, tasks in target.items() for task in tasks)
    twice = [place for place, count in by_process.items() if count > 1]
    unknown = [task for tasks in target.values() for task in tasks if not _exists(task, asked)]
    if twice or unknown:
        raise IllegalTargetError(f"{asked.group_id}: {twice} are twice in a process, {unknown} are no tasks")


def _exists(task: Task, asked: TasksToAssign) -> bool:
    return 0 <= task.partition < asked.task_counts.get(task.subtopology_id, 0)
