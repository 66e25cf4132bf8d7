"""Connect's assignor by itself, round by round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupledger.coordinator.protocols.connect_assignor import ConnectAssignor
from groupledger.schemas.kafka.topic_partition import TopicPartition

D = 300_000
TASKS = [TopicPartition("connector", number) for number in range(6)]


class Rounds:
    """A leader and workers that do what they are asked."""

    def __init__(self, max_delay_ms: int = D) -> None:
        self.assignor = ConnectAssignor(max_delay_ms)
        self.held: dict[str, list[TopicPartition]] = {}
        self.generation = 0

    def round(self, now_ms: int, *workers: str, configured: list[TopicPartition] | None = None) -> int:
        """Plays one round and returns its delay."""
        self.held = {worker: self.held.get(worker, []) for worker in workers}
        self.generation += 1
        assigned = self.assignor.assign(
            TASKS if configured is None else configured,
            self.held,
            last_completed_generation=self.generation - 1 if self.generation > 1 else -1,
            generation=self.generation,
            now_ms=now_ms,
        )
        for worker, each in assigned.items():
            kept = [task for task in self.held[worker] if task not in each.revoked]
            self.held[worker] = [*kept, *each.assigned]
        (delay_ms,) = {each.delay_ms for each in assigned.values()}
        return delay_ms

    def counts(self) -> list[int]:
        return [len(tasks) for tasks in self.held.values()]


def test_delays() -> None:
    """Goal: the delay runs from the first loss: D, half of it at half time, a quarter when the worker is back at three
    quarters, and none when it is over."""
    rounds = Rounds()
    assert rounds.round(0, "a", "b", "c") == 0
    assert rounds.counts() == [2, 2, 2]
    lost = rounds.held["c"]
    assert rounds.round(1_000, "a", "b") == D
    assert rounds.round(1_000 + D // 2, "a", "b") == D // 2
    assert rounds.round(1_000 + 3 * D // 4, "a", "b", "c") == D // 4
    assert rounds.counts() == [2, 2, 0]
    assert rounds.round(1_000 + D, "a", "b", "c") == 0
    assert rounds.counts() == [2, 2, 2]
    assert sorted(rounds.held["c"]) == sorted(lost)


def test_two_that_come_share() -> None:
    """Goal: workers that are empty during the delay take the lost tasks in turn."""
    rounds = Rounds()
    rounds.round(0, "a", "b", "c")
    rounds.round(1_000, "a", "b")
    rounds.round(2_000, "a", "b", "d", "e")
    rounds.round(1_000 + D, "a", "b", "d", "e")
    assert rounds.counts() == [2, 2, 1, 1]


def test_another_leader_assigns_at_once() -> None:
    """Goal: a leader's memory dies with it: its successor takes lost tasks for new ones."""
    rounds = Rounds()
    rounds.round(0, "a", "b", "c")
    rounds.assignor = ConnectAssignor(D)
    assert rounds.round(1_000, "b", "c") == 0
    assert rounds.counts() == [3, 3]


def test_no_delay() -> None:
    """Goal: without a delay lost tasks are assigned at once."""
    rounds = Rounds(max_delay_ms=0)
    rounds.round(0, "a", "b", "c")
    assert rounds.round(1_000, "a", "b") == 0
    assert rounds.counts() == [3, 3]


@given(st.lists(st.sets(st.sampled_from("abcde"), min_size=1), min_size=1, max_size=6), st.integers(0, 12))
def test_it_settles(memberships: list[set[str]], count: int) -> None:
    """Goal: whatever came before, rounds without a change end with every task at one worker, evenly."""
    configured = [TopicPartition("connector", number) for number in range(count)]
    rounds, now_ms = Rounds(), 0
    for members in memberships:
        now_ms += 10_000
        rounds.round(now_ms, *sorted(members), configured=configured)
    for _ in range(10):
        now_ms += D
        rounds.round(now_ms, *sorted(memberships[-1]), configured=configured)
    assert sorted(task for tasks in rounds.held.values() for task in tasks) == configured
    assert max(rounds.counts()) - min(rounds.counts()) <= 1
