"""Runs the coordinator for a test, causes events at its consumers on request, and reports what they did.

    with coordinator({"orders": 12}) as kafka:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, ...})
        ...
        kafka.expire("billing", "app-2")          # while a batch is being processed
        assert kafka.committed("billing") == ...

Only `until` waits: for the given condition, and it fails after a time limit.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.faults import Fault
from groupledger.jobs.coordinator.server import Clock, Listen, running
from groupledger.jobs.coordinator.service import Service
from groupledger.jobs.coordinator.world import World
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.simulator.network import Exchange
    from groupledger.jobs.coordinator.server import Running

UNTIL_SECONDS = 60.0
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group as its coordinator sees it. `generation` is the epoch of a consumer group of KIP-848; `members` has the
    client id of each member by its member id."""

    state: str
    generation: int
    members: dict[str, str]


class TestCoordinator:
    """A running coordinator for a test."""

    __test__ = False  # pytest takes it for a class of tests otherwise

    def __init__(self, running_coordinator: Running) -> None:
        self._running = running_coordinator
        self._exchanges: list[Exchange] = []

    @property
    def bootstrap_servers(self) -> str:
        return self._running.bootstrap_servers

    # Actions

    def expire(self, group: str, client_id: str | None = None) -> None:
        """Ends the sessions of the group's members with this client id, or of all its members if it is None."""
        self._running.call(lambda service: service.expire(group, client_id))

    def rebalance(self, group: str) -> None:
        """Begins a rebalance, as if the group's leader had asked for one."""
        self._running.call(lambda service: service.rebalance(group))

    def move(self, group: str) -> None:
        """Moves the group to another node, which loads it from the log."""
        self._running.call(lambda service: service.move(group))

    def fault(self, **fields: Any) -> None:
        """Adds a fault with the fields of a script: `fault(request="OFFSET_COMMIT", do="answer", error="...")`."""
        planned = Fault.model_validate(fields)
        self._running.call(lambda service: service.plan(planned))

    # State

    def topic_id(self, topic: str) -> str:
        """Returns the id of an existing topic, as Kafka prints it."""
        found: str = self._running.call(lambda service: service.world.topics.by_name[topic].topic_id)
        return found

    def connection_count(self) -> int:
        found: int = self._running.call(lambda service: len(service.connections))
        return found

    def group(self, group: str) -> GroupSeen | None:
        """Returns the group's current state; None if there is no such group."""

        def look(service: Service) -> GroupSeen | None:
            classic, consumers = service.group(group), service.consumer_group(group)
            if classic is not None:
                return GroupSeen(classic.state.value, classic.generation_id, _client_ids(classic))
            return None if consumers is None else GroupSeen(consumers.state, consumers.epoch, _client_ids(consumers))

        seen: GroupSeen | None = self._running.call(look)
        return seen

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Returns the group's committed offsets."""

        def look(service: Service) -> dict[TopicPartition, int]:
            return {TopicPartition(topic, partition): offset for topic, partition, offset in service.committed(group)}

        found: dict[TopicPartition, int] = self._running.call(look)
        return found

    def exchanges(self) -> list[Exchange]:
        """Returns every request about a group so far, with its response, in the order of the responses."""
        self._exchanges += self._running.call(lambda service: service.take()).exchanges
        return list(self._exchanges)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = UNTIL_SECONDS) -> Any:
        """Calls `condition` until its result is true, and returns that result. Raises AssertionError after `seconds`;
        `what` is the name of the condition in the error."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds:g} s for {what}")
            time.sleep(_LOOK_EVERY_S)
        return found


def _client_ids(group: Group | ConsumerGroup) -> dict[str, str]:
    return {member.member_id: member.client_id for member in group.members.values()}


def _say_nothing(_: str) -> None:
    """A test looks for itself."""


@contextmanager
def coordinator(
    topics: Mapping[str, int],
    *,
    rate: float = 100.0,
    nodes: int = 2,
    seed: int = 1,
    config: Config | None = None,
    listen: str = "127.0.0.1:0",
) -> Iterator[TestCoordinator]:
    """Runs a coordinator on this machine until the context ends, on free ports unless `listen` has one. `topics` gives
    the number of partitions by topic name, and `rate` is the records per second of each topic. If `config` is None, the
    first rebalance of a group has no initial delay."""
    clock = Clock()
    chosen = config or Config(group_initial_rebalance_delay_ms=0)
    world = World(chosen, seed, nodes, clock.now_ms(), topics, rate, is_recorded=True)
    with running(Service(world, say=_say_nothing), clock, Listen(listen), _say_nothing) as started:
        yield TestCoordinator(started)
