"""Goal: the assignor that keeps tasks where they are gives legal targets, and moves no more than it must."""

from __future__ import annotations

from collections import Counter
from random import Random

from groupledger.coordinator.model.groups.streams.assignors import TasksToAssign, check_legal, keeping
from groupledger.schemas.words import TaskRole


def test_random_groups() -> None:
    """Goal: over lives of members that come and go, each target is legal, the active tasks are spread evenly, and each
    task has as many standbys as there are other processes for them."""
    dice = Random(1)
    for copies in (0, 1, 2):
        assign = keeping(copies)
        asked = TasksToAssign(group_id="g", processes={}, task_counts={"0": 5, "1": 3}, before={})
        for _ in range(200):
            names = dice.sample("abcdef", dice.randint(1, 6))
            processes = {name: dice.choice(("p1", "p2", "p3")) for name in names}
            asked = TasksToAssign(group_id="g", processes=processes, task_counts=asked.task_counts, before=asked.before)
            target = assign(asked)
            check_legal(target, asked)
            active = [sum(task.role == TaskRole.ACTIVE for task in tasks) for tasks in target.values()]
            assert max(active) <= -(-8 // len(names))
            standbys = Counter(task[1:] for tasks in target.values() for task in tasks if task.role == TaskRole.STANDBY)
            assert {standbys[task[1:]] for task in asked.active_tasks()} == {
                min(copies, len({*processes.values()}) - 1)
            }
            asked = TasksToAssign(group_id="g", processes=processes, task_counts=asked.task_counts, before=target)


def test_what_is_kept() -> None:
    """Goal: a member that comes takes its share from the others, which keep the rest; one that goes leaves its share to
    them."""
    assign = keeping(0)
    two = TasksToAssign(group_id="g", processes={"a": "p1", "b": "p2"}, task_counts={"0": 6}, before={})
    first = assign(two)
    three = TasksToAssign(
        group_id="g", processes={**two.processes, "c": "p3"}, task_counts=two.task_counts, before=first
    )
    second = assign(three)
    assert {name: len(tasks) for name, tasks in second.items()} == {"a": 2, "b": 2, "c": 2}
    assert second["a"] < first["a"]
    assert second["b"] < first["b"]
    again = TasksToAssign(group_id="g", processes={"b": "p2", "c": "p3"}, task_counts=two.task_counts, before=second)
    third = assign(again)
    assert second["b"] < third["b"]
    assert second["c"] < third["c"]
