"""Implements Connect's incremental cooperative assignor, which the leader of the workers runs (KIP-415).

The assignor remembers the last assignment, and so knows which tasks were lost with a worker. These tasks stay
unassigned for a while, in which the worker may come back. Only tasks are modelled (connectors are assigned in the same
way, separately). The memory is lost with the leader, whose successor assigns lost tasks at once. Source:
IncrementalCooperativeAssignor (3.7 and later), KIP-415, KAFKA-12495.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition

MAX_DELAY_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """The assignment of one worker: new tasks, tasks to stop, and after how many milliseconds all workers join again
    (0: no delay)."""

    assigned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    delay_ms: int = 0


@dataclass(slots=True)
class ConnectAssignor:
    """The assignor of one leader. Its fields are its memory: the last assignment, the last revocations, and the delay
    that is running."""

    max_delay_ms: int = MAX_DELAY_MS
    previous: dict[TopicPartition, None] = field(default_factory=dict)
    previous_revocation: dict[TopicPartition, None] = field(default_factory=dict)
    previous_members: tuple[str, ...] = ()
    previous_generation: int = -1
    candidates: dict[str, None] = field(default_factory=dict)
    scheduled_ms: int = 0
    delay_ms: int = 0
    revoked_in_previous: bool = False
    successive_revocations: int = 0

    def assign(
        self,
        configured: Iterable[TopicPartition],
        allocations: Mapping[str, Iterable[TopicPartition]],
        *,
        last_completed_generation: int,
        generation: int,
        now_ms: int,
    ) -> dict[str, ConnectAssignment]:
        """Returns the assignment of each worker in one generation. `configured` are all tasks, in order. `allocations`
        are the tasks that each worker reports."""
        wanted = dict.fromkeys(configured)
        current = {worker: list(tasks) for worker, tasks in sorted(allocations.items())}
        holders = Counter(task for tasks in current.values() for task in tasks)
        self._remember(holders, last_completed_generation)
        deleted = {task for task in [*self.previous, *holders] if task not in wanted}
        lost = [task for task in self.previous if task not in holders and task in wanted]
        created = [task for task in wanted if task not in self.previous and task not in holders]
        unwanted = deleted | {task for task, count in holders.items() if count > 1}
        created += [task for task in wanted if holders[task] > 1]
        revoked = {worker: [task for task in tasks if task in unwanted] for worker, tasks in current.items()}
        loads = {worker: [task for task in tasks if task not in unwanted] for worker, tasks in current.items()}
        created += self._of_lost(lost, loads, now_ms)
        for worker, tasks in self._balancing(len(wanted), loads, now_ms).items():
            revoked[worker] += tasks
            loads[worker] = [task for task in loads[worker] if task not in tasks]
        for task in created:
            loads[min(loads, key=lambda worker: (len(loads[worker]), worker))].append(task)
        self._keep(loads, revoked, lost, generation)
        return {
            worker: ConnectAssignment(
                tuple(task for task in tasks if task not in current[worker]), tuple(revoked[worker]), self.delay_ms
            )
            for worker, tasks in loads.items()
        }

    def _remember(self, holders: Mapping[TopicPartition, int], last_completed_generation: int) -> None:
        """Clears the memory if another worker led meanwhile, or if a revocation was not carried out."""
        if self.previous_generation != last_completed_generation:
            self.previous = {}
        if any(task in holders for task in self.previous_revocation):
            self.previous = dict.fromkeys(holders)
        self.previous_revocation = {}

    def _of_lost(
        self, lost: list[TopicPartition], loads: dict[str, list[TopicPartition]], now_ms: int
    ) -> list[TopicPartition]:
        """Returns the lost tasks that are dealt out like new ones, having dealt those whose delay is over to workers
        that came meanwhile; the rest waits."""
        if not lost and not self.revoked_in_previous:
            self._no_delay()
            return []
        all_are_present = all(member in loads for member in self.previous_members)
        if (self.scheduled_ms == 0 and all_are_present) or self.max_delay_ms == 0:
            return lost
        if 0 < self.scheduled_ms <= now_ms:
            takers = [worker for worker in self.candidates if worker in loads]
            for number, task in enumerate(lost if takers else ()):
                loads[takers[number % len(takers)]].append(task)
            self._no_delay()
            self.revoked_in_previous = False
            return [] if takers else lost
        self.candidates.update(dict.fromkeys(worker for worker, tasks in loads.items() if not tasks))
        is_running = now_ms < self.scheduled_ms
        self.delay_ms = min(self.scheduled_ms - now_ms, self.max_delay_ms) if is_running else self.max_delay_ms
        self.scheduled_ms = now_ms + self.delay_ms
        return []

    def _no_delay(self) -> None:
        self.candidates = {}
        self.scheduled_ms = self.delay_ms = 0

    def _balancing(
        self, total: int, loads: Mapping[str, list[TopicPartition]], now_ms: int
    ) -> dict[str, list[TopicPartition]]:
        """Returns the tasks that workers give up so that others get their share; twice in a row only after a delay that
        grows."""
        if self.delay_ms > 0:
            self.revoked_in_previous = False
            return {}
        found = _above_their_share(total, loads)
        if not found:
            self.revoked_in_previous = False
            self.successive_revocations = 0
            return {}
        if self.revoked_in_previous:
            self.successive_revocations += 1
            self.delay_ms = min(40**self.successive_revocations, self.max_delay_ms)
            if self.delay_ms:
                self.scheduled_ms = now_ms + self.delay_ms
                return {}
        self.revoked_in_previous = True
        return found

    def _keep(
        self,
        loads: Mapping[str, list[TopicPartition]],
        revoked: Mapping[str, list[TopicPartition]],
        lost: list[TopicPartition],
        generation: int,
    ) -> None:
        self.previous_revocation = dict.fromkeys(task for tasks in revoked.values() for task in tasks)
        self.previous = dict.fromkeys([*(task for tasks in loads.values() for task in tasks), *lost])
        self.previous_members = tuple(loads)
        self.previous_generation = generation


def _above_their_share(total: int, loads: Mapping[str, list[TopicPartition]]) -> dict[str, list[TopicPartition]]:
    """Returns the tasks of each worker beyond an even share, taken from the front."""
    each, more = divmod(total, len(loads))
    sizes = Counter(len(tasks) for tasks in loads.values())
    is_even = sizes[each + 1] == more and sizes[each] == len(loads) - more
    if is_even or not any(loads.values()):
        return {}
    found = {}
    for worker, tasks in loads.items():
        if len(tasks) > each:
            share = each + (more > 0)
            more -= more > 0
            if len(tasks) > share:
                found[worker] = tasks[: len(tasks) - share]
    return found
