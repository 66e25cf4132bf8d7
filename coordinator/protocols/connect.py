"""Models Connect's workers: a Join/Sync group that moves only the tasks that have to move, and waits for a worker that
left.

Tasks take the place of partitions. A worker continues its tasks while it joins, stops the tasks that it has to stop,
and then joins again at once. If its assignment names a delay, it joins again when the delay has passed by its own
clock. A worker's rebalances have a thread of their own, so a slow task delays nobody. Source: WorkerCoordinator,
DistributedHerder; KIP-415.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.protocols.connect_assignor import MAX_DELAY_MS, ConnectAssignment, ConnectAssignor
from groupledger.coordinator.protocols.join_sync import Release
from groupledger.coordinator.protocols.join_sync_member import JoinSyncGroup, JoinSyncMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.member import Member
    from groupledger.coordinator.protocols.world import Steps, World

WORKERS: Final = Release(session_ms=10_000, rebalance_timeout_ms=60_000)


class ConnectGroup(JoinSyncGroup):
    """A cluster of Connect workers."""

    def __init__(
        self,
        world: World,
        consumption: Consumption,
        topics: Iterable[tuple[str, int]],
        *,
        max_delay_ms: int = MAX_DELAY_MS,
    ) -> None:
        super().__init__(world, consumption, topics, release=WORKERS)
        self.max_delay_ms = max_delay_ms

    def make(self, name: str) -> Member:
        return Worker(self, name)

    def topic_grew(self) -> None:
        """Makes every worker join again, because each learns of the new tasks from the configuration topic."""
        for member in self.members.values():
            if isinstance(member, Worker):
                member.after(self.world.latency_ms(), member.join_again)


class Worker(JoinSyncMember):
    """A Connect worker. It has an assignor, which remembers what it assigned while this worker led the group."""

    group: ConnectGroup

    def __init__(self, group: ConnectGroup, name: str) -> None:
        super().__init__(group, name)
        self._assignor = ConnectAssignor(group.max_delay_ms)
        self._completed_generation = -1
        self._rejoins = 0

    def slow(self, for_ms: int) -> None:
        """Does nothing: a slow task does not delay its worker's rebalances."""

    def metadata(self) -> Any:
        return tuple(self.owned)

    def assign(self, members: Mapping[str, tuple[str | None, Any]]) -> Mapping[str, Any]:
        return self._assignor.assign(
            self.group.partitions(),
            {member_id: allocation for member_id, (_, allocation) in members.items()},
            last_completed_generation=self._completed_generation,
            generation=self.generation,
            now_ms=self.world.now_ms,
        )

    def before_join(self) -> Steps:
        yield from ()

    def assigned(self, assignment: ConnectAssignment | None) -> Steps:
        answer = assignment or ConnectAssignment(())
        self._completed_generation = self.generation
        self._rejoins += 1
        offsets = self.positions(task for task in answer.revoked if task in self.owned)
        self.give_up(answer.revoked)
        yield from self.commit(offsets)
        self.take(task for task in answer.assigned if task not in self.owned)
        if answer.revoked:
            self.join_again()
        elif answer.delay_ms:
            number = self._rejoins
            self.after(answer.delay_ms, lambda: self._delay_is_over(number))

    def _delay_is_over(self, number: int) -> None:
        if number == self._rejoins:
            self.join_again()
