"""Runs clients and servers in virtual time: events in order, processes that pause or die, a network with latency, and
counts of the requests.

A process is written as generators. A generator waits for what it yields: an integer is a time in ms, a Reply is a
response. A paused process does nothing until it wakes; then all waiting events happen at once, in order. A dead process
does nothing any more. Everything random comes from one seed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from groupledger.coordinator.simulator.random_source import RandomSource

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition

    Steps: TypeAlias = Generator["int | Reply", Any, None]

# Consumers whose round ended together were seen to send their heartbeats within 30 ms of each other ten seconds later.
WAKES_LATE_MS: Final = 2


class Reply:
    """A response that a process may wait for. Only the first value given counts."""

    __slots__ = ("_then", "is_given", "value")

    def __init__(self) -> None:
        self.is_given = False
        self.value: Any = None
        self._then: list[Callable[[Any], None]] = []

    def give(self, value: Any = None) -> None:
        if not self.is_given:
            self.is_given, self.value = True, value
            for then in self._then:
                then(value)

    def then(self, action: Callable[[Any], None]) -> None:
        if self.is_given:
            action(self.value)
        else:
            self._then.append(action)


class World:
    """The time, the scheduled events, and the counts. One way through the network takes a random time between the two
    bounds of `latency_ms`; if they are equal, runs differ only by the protocol. A waiting thread wakes up to
    `wakes_late_ms` too late, so threads that began together drift apart, as on busy hosts."""

    def __init__(self, seed: int = 1, latency_ms: tuple[int, int] = (1, 4), wakes_late_ms: int = WAKES_LATE_MS) -> None:
        self.now_ms = 0
        self.random = RandomSource("protocols", seed)
        self._latency_ms = latency_ms
        self._wakes_late_ms = wakes_late_ms
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.requests: Counter[str] = Counter()
        self.notifications = 0
        self.rounds = 0
        self.rebalances = 0
        self.trace: list[tuple[int, str, str]] = []
        self.assignments: list[tuple[int, dict[TopicPartition, str]]] = []
        self._rebalancing: dict[str, None] = {}
        self._is_counted = False

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (max(at_ms, self.now_ms), self._number, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = until_ms

    def latency_ms(self) -> int:
        return self.random.between(*self._latency_ms)

    def looks_until_ms(self, due_ms: int, every_ms: int) -> int:
        """Returns after how many milliseconds a thread notices an event that is due in `due_ms`, if it checks every
        `every_ms` and wakes a little late each time."""
        looks = -(-due_ms // every_ms)
        return looks * every_ms + self.random.between(0, looks * self._wakes_late_ms)

    def log(self, who: str, what: str) -> None:
        """Adds a line to the trace: at this time, `who` did `what`."""
        self.trace.append((self.now_ms, who, what))

    def assigns(self, owners: Mapping[TopicPartition, str]) -> None:
        """Records an assignment: the owner of each partition from now on, by instance id or else by member id."""
        self.assignments.append((self.now_ms, dict(owners)))

    def begins_to_rebalance(self, member: str) -> None:
        self._rebalancing[member] = None

    def count_round(self) -> None:
        """Counts a round. It also counts as a rebalance, unless members have been rebalancing since an earlier
        round."""
        self.rounds += 1
        self.rebalances += not self._is_counted
        self._is_counted = bool(self._rebalancing)

    def has_rebalanced(self, member: str) -> None:
        self._rebalancing.pop(member, None)
        self._is_counted = self._is_counted and bool(self._rebalancing)


class Process:
    """One program on a machine. Nothing of it runs while it is paused."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = name  # another life of the same name may begin before this one has ended
        self.is_alive = True
        self._paused_until_ms = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Runs an action after `delay_ms`, if the process is then alive; if it is paused then, the action runs when it
        wakes."""
        self.world.after(delay_ms, lambda: self._now(action))

    def _now(self, action: Callable[[], None]) -> None:
        if not self.is_alive:
            return
        if self.world.now_ms < self._paused_until_ms:
            self.world.at(self._paused_until_ms, lambda: self._now(action))
        else:
            action()

    def start(self, steps: Steps) -> None:
        """Runs a generator from now on, until it ends or the process dies."""
        self.after(0, lambda: self._step(steps, None))

    def _step(self, steps: Steps, value: Any) -> None:
        try:
            awaited = steps.send(value)
        except StopIteration:
            return
        if isinstance(awaited, int):
            self.after(awaited, lambda: self._step(steps, None))
        else:
            awaited.then(lambda answer: self.after(0, lambda: self._step(steps, answer)))

    def call(self, api: str, serve: Callable[[Reply], None]) -> Reply:
        """Sends a request and returns the reply, for which a generator may wait. `serve` is the server's work, and
        gives the reply at once or later. The network adds its latency both ways."""
        self.world.requests[api] += 1
        at_server, at_client = Reply(), Reply()
        at_server.then(lambda value: self.world.after(self.world.latency_ms(), lambda: at_client.give(value)))
        self.world.after(self.world.latency_ms(), lambda: serve(at_server))
        return at_client

    def pause(self, for_ms: int) -> None:
        self._paused_until_ms = max(self._paused_until_ms, self.world.now_ms + for_ms)

    @property
    def is_awake(self) -> bool:
        return self.is_alive and self.world.now_ms >= self._paused_until_ms

    def die(self) -> None:
        self.is_alive = False
        self.world.has_rebalanced(self.life)
