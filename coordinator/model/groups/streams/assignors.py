"""Assigns the tasks of a streams group with a function that the caller gives, and checks that the result is legal.

A broker's own assignor (`sticky`) considers earlier owners, processes and standbys; it is not modelled. The coordinator
gets a function instead (`streams_assignor`). That function returns what a broker decided, or it is `in_turn` or
`keeping`, which Kafka does not have. A target is legal if every task is active once, and no process has a task twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle

from groupledger.coordinator.model.groups.streams.tasks import Task, Tasks
from groupledger.schemas.words import TaskRole


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToAssign:
    """The input of an assignor: `processes` has the process of each member, `task_counts` the number of tasks of each
    subtopology, and `before` the present target of each member."""

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
    """An assignor returned a target that no broker could have made."""


def in_turn(asked: TasksToAssign) -> dict[str, Tasks]:
    """Returns a target in which the members get the active tasks in turn, in the order of their ids. There are no
    standbys."""
    found: dict[str, set[Task]] = {name: set() for name in sorted(asked.processes)}
    for name, task in zip(cycle(found), asked.active_tasks(), strict=False):
        found[name].add(task)
    return {name: frozenset(tasks) for name, tasks in found.items()}


def keeping(copies: int) -> StreamsAssignor:
    """Returns an assignor that lets members keep their tasks, up to an equal share, and gives the other tasks to the
    members that have fewest. Each task gets `copies` standbys, if there are enough other processes."""

    def assign(asked: TasksToAssign) -> dict[str, Tasks]:
        found: dict[str, set[Task]] = {name: set() for name in sorted(asked.processes)}
        for role in (TaskRole.ACTIVE, *[TaskRole.STANDBY] * copies):
            _deal([task._replace(role=role) for task in asked.active_tasks()], found, asked)
        return {name: frozenset(tasks) for name, tasks in found.items()}

    return assign


def _deal(tasks: list[Task], found: dict[str, set[Task]], asked: TasksToAssign) -> None:
    """Gives each task to one member more, if some process does not have it yet."""
    share = -(-len(tasks) // max(len(found), 1))
    given: Counter[str] = Counter()
    left = []
    for task in tasks:
        keepers = (name for name in _without(task, found, asked) if task in asked.before.get(name, ()))
        keeper = next((name for name in keepers if given[name] < share), None)
        if keeper is None:
            left.append(task)
        else:
            found[keeper].add(task)
            given[keeper] += 1
    for task in left:
        free = _without(task, found, asked)
        if free:
            taker = min(free, key=lambda name: (given[name], name))
            found[taker].add(task)
            given[taker] += 1


def _without(task: Task, found: Mapping[str, set[Task]], asked: TasksToAssign) -> list[str]:
    """Returns the members in whose processes nobody has a task in any role."""
    having = {asked.processes[name] for name, tasks in found.items() if any(task[1:] == each[1:] for each in tasks)}
    return [name for name in found if asked.processes[name] not in having]


def check_legal(target: Mapping[str, Tasks], asked: TasksToAssign) -> None:
    """Raises IllegalTargetError if no assignor of a broker could have returned this target."""
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
