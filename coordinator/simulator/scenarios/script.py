"""Gives a scenario its tools: one group, its topics and applications, and a plan of actions on them.

Times are minutes from the beginning of the group, which a run shifts a little for each group. Each planned action is a
row of the truth. The client that the action concerns carries the action's name, which is from then on the root cause of
all its refusals.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.config import ConsumerConfig
from groupledger.coordinator.simulator.application import Application, RawClient
from groupledger.coordinator.simulator.topics import RETENTION_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groupledger.coordinator.simulator.random_source import RandomSource
    from groupledger.coordinator.simulator.simulation import Simulation

MINUTE_MS = 60_000
SECOND_MS = 1_000
RECORDS_PER_MINUTE = 120  # of each partition, unless a scenario says otherwise
_START_WITHIN_MS = 2_000  # applications of one deployment start together, but not at once


class Script:
    def __init__(
        self, simulation: Simulation, group_id: str, number: int, source: RandomSource, began_at_ms: int
    ) -> None:
        self.simulation = simulation
        self.group_id = group_id
        self.number = number
        self.source = source
        self.began_at_ms = began_at_ms
        self.delay_ms = 0  # of all actions after the first minute
        self.topics: list[str] = []
        self.applications: list[Application] = []
        self.pace: dict[str, Any] = {}  # settings of all consumers, unless a scenario has its own
        self.processing_ms = (1_000, 5_000)
        simulation.group_ids.append(group_id)

    # The world

    def topic(
        self,
        name: str,
        partitions: int,
        records_per_minute: int = RECORDS_PER_MINUTE,
        retention_ms: int = RETENTION_MS,
    ) -> str:
        """Creates a topic that only this group reads, and returns its name. The topic exists from now on, or from the
        beginning of the group if that is later."""
        full_name = f"{name}.{self.group_id}"
        self.simulation.topics.create(
            full_name,
            partitions,
            records_per_minute=records_per_minute,
            now_ms=max(self.began_at_ms, self.simulation.now_ms),
            source=self.source.source("topic", name),
            retention_ms=retention_ms,
        )
        self.topics.append(full_name)
        return full_name

    def produce(self, percent: int) -> None:
        """Sets the production to all topics of the group, from now on, to `percent` per cent of the usual rate."""
        for topic in self.topics:
            self.simulation.topics.produce(topic, RECORDS_PER_MINUTE * percent // 100, self.simulation.now_ms)

    def grow(self, topic: str, partitions: int) -> None:
        """Adds partitions to a topic until it has `partitions`."""
        self.simulation.topics.add_partitions(
            topic, partitions, records_per_minute=RECORDS_PER_MINUTE, now_ms=self.simulation.now_ms
        )

    def fail_coordinator(self, down_ms: int) -> None:
        """Crashes the broker that coordinates the group now, for `down_ms`."""
        broker = self.simulation.brokers.coordinator_of(self.group_id)
        if broker is not None:
            self.simulation.crash_broker(broker, down_ms)

    def deploy(
        self, count: int, topics: Sequence[str], kind: type[Application] = Application, **config: Any
    ) -> list[Application]:
        """Returns `count` new applications that are not yet started, each with a client id and host of its own.
        `is_static` among the settings makes them static members."""
        is_static = config.pop("is_static", False)
        deployed = []
        for number in range(len(self.applications), len(self.applications) + count):
            instance_id = f"{self.group_id}-{number}" if is_static else None
            host = f"/10.{self.source.between(0, 255)}.{self.source.between(0, 255)}.{number + 1}"
            settings = ConsumerConfig(
                group_id=self.group_id,
                client_id=f"consumer-{self.group_id}-{number + 1}",
                client_host=host,
                group_instance_id=instance_id,
                **{**self.pace, **config},
            )
            source = self.source.source("application", number)
            application = kind(self.simulation, settings, tuple(topics), source, processing_ms=self.processing_ms)
            deployed.append(application)
            self.applications.append(application)
        return deployed

    def administrator(self) -> RawClient:
        source = self.source.source("administrator")
        return RawClient(self.simulation, self.group_id, "admin", "/10.0.0.9", source)

    # The plan

    def plan(
        self, minutes: float, action: str, step: Callable[..., object], *arguments: Any, by: Application | None = None
    ) -> None:
        """Schedules an action: at that time `step` is called, and the truth gets a row with the name `action`. `by` is
        the application that the action concerns, if it concerns one."""
        self.simulation.at(self._time_ms(minutes), self._act, action, step, arguments, by)

    def _time_ms(self, minutes: float) -> int:
        delay_ms = self.delay_ms if minutes >= 1 else 0
        return self.began_at_ms + delay_ms + round(minutes * MINUTE_MS)

    def _act(
        self, action: str, step: Callable[..., object], arguments: tuple[Any, ...], by: Application | None
    ) -> None:
        self.simulation.recorder.act(
            self.simulation.now_ms, self.group_id, action, None if by is None else by.client_id
        )
        if by is not None:
            by.planted = action
        step(*arguments)

    def start(self, applications: Sequence[Application], minutes: float = 0, action: str = "start") -> None:
        for application in applications:
            delay = self.source.between(0, _START_WITHIN_MS) / MINUTE_MS
            self.plan(minutes + delay, action, application.start, by=application)

    def bounce(self, application: Application, minutes: float, action: str, down_s: int, **changes: Any) -> None:
        """Closes an application in good order, and starts it again after `down_s` seconds, with `changes` of its
        configuration."""
        self.plan(minutes, action, application.close, by=application)
        self.simulation.at(self._time_ms(minutes) + down_s * SECOND_MS, partial(application.start, **changes))

    # The group as its coordinator knows it

    def leader(self) -> Application | None:
        """Returns the application whose member leads the group now. Returns None if the group has no coordinator or no
        leader, or if the leader does not run."""
        brokers = self.simulation.brokers
        broker = brokers.coordinator_of(self.group_id)
        group = None if broker is None else brokers.coordinators[broker].group(self.group_id)
        for application in self.applications:
            consumer = application.consumer
            if group is not None and consumer is not None and consumer.member_id == group.leader_id:
                return application
        return None

    def committed(self) -> list[tuple[str, int, int]]:
        """Returns (topic, partition, offset) of each committed offset that the group's coordinator stores."""
        brokers = self.simulation.brokers
        partition = brokers.partition_for(self.group_id)
        shard = brokers.coordinators[brokers.leaders[partition]].shard(partition)
        if shard is None:
            return []
        return sorted(
            (topic, number, stored.value["offset"])
            for topic, number, stored in shard.offsets.committed.of_group(self.group_id)
        )
