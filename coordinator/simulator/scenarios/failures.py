"""Scenarios in which something breaks: processes, their pace, or a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.messages import JoinGroupResponse
from groupledger.coordinator.simulator.application import Application
from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import SECOND_MS, Script

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_POLL_INTERVAL_MS = 300_000
_TWO_HOURS_MS = 7_200_000


@scenario("crash", "A process dies without a word: its session expires. It comes back ten minutes later.")
def crash(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications)
    group.plan(10, "crash", applications[1].crash, by=applications[1])
    group.start(applications[1:2], 20)


@scenario("long-gc", "A process stops for longer than its session, wakes up, and learns that it is no longer a member.")
def long_gc(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], enable_auto_commit=False)
    group.start(applications)
    pause_ms = applications[0].config.session_timeout_ms + group.source.between(15, 40) * SECOND_MS
    group.plan(10, "long_gc", applications[0].freeze, pause_ms, by=applications[0])


@scenario(
    "slow-processing", "A batch takes longer than max.poll.interval.ms: the client leaves, and joins again later."
)
def slow_processing(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], assignors=("cooperative-sticky",))
    group.start(applications)
    duration_ms = _MAX_POLL_INTERVAL_MS + group.source.between(30, 120) * SECOND_MS
    group.plan(10, "slow_processing", applications[2].hang, duration_ms, by=applications[2])


@scenario("flapping-member", "One member restarts again and again: a storm of rebalances for the two others.")
def flapping_member(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications)
    minutes = 10.0
    for _ in range(group.source.between(8, 12)):
        group.bounce(applications[1], minutes, "flapping", group.source.between(5, 20))
        minutes += group.source.between(60, 120) / 60


@scenario(
    "leader-loss", "The leader dies; later a leader dies between its join and its sync: a generation without record."
)
def leader_loss(group: Script) -> None:
    applications = group.deploy(4, [group.topic("orders", 8)])
    group.start(applications[:3])

    def lose(step: Callable[[Application], None]) -> None:
        leader = group.leader()
        if leader is None:
            group.simulation.at(group.simulation.now_ms + SECOND_MS, lose, step)
        else:
            leader.planted = "leader_loss"
            step(leader)

    group.plan(10, "leader_loss", lose, Application.crash)
    group.plan(20, "leader_loss_in_rebalance", lose, _crash_as_leader)
    group.start(applications[3:], 20.1)


def _crash_as_leader(application: Application) -> None:
    """Crashes the application as soon as it learns again that it leads the group."""
    application.crashes_when = lambda response: isinstance(response, JoinGroupResponse) and bool(response.members)


@scenario(
    "stuck-consumer", "One member meets a record that it can't read: it polls, heartbeats, commits, and stands still."
)
def stuck_consumer(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications)

    def set_stuck(*, is_stuck: bool) -> None:
        applications[0].is_stuck = is_stuck

    group.plan(10, "stuck", lambda: set_stuck(is_stuck=True), by=applications[0])
    group.plan(25, "unstuck", lambda: set_stuck(is_stuck=False), by=applications[0])


@scenario(
    "coordinator-failover",
    "The coordinator's broker crashes in the middle of a rebalance, and takes its partitions back later.",
)
def coordinator_failover(group: Script) -> None:
    applications = group.deploy(4, [group.topic("orders", 8)])
    group.start(applications[:3])

    def fail() -> None:
        broker = group.simulation.brokers.coordinator_of(group.group_id)
        if broker is not None:
            group.simulation.crash_broker(broker, down_ms=300 * SECOND_MS)

    group.plan(10, "start", applications[3].start, by=applications[3])
    group.plan(10 + 1 / 60, "coordinator_failover", fail)


@scenario(
    "rebalance-stuck",
    "A member with a max.poll.interval.ms of two hours hangs in its processing as another one joins: the group waits.",
    hours=1.5,
)
def rebalance_stuck(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], max_poll_interval_ms=_TWO_HOURS_MS)
    group.start(applications[:2])
    group.plan(10, "hang", applications[0].hang, _TWO_HOURS_MS // 2)  # which stops all of them
    group.start(applications[2:], 10.5)


@scenario("slow-rebalance", "The same with Kafka's default: a member joins a rebalance after four of its five minutes.")
def slow_rebalance(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications[:2])
    group.plan(10, "hang", applications[0].hang, _MAX_POLL_INTERVAL_MS * 4 // 5)
    group.start(applications[2:], 10.5)


ABOUT_REBALANCES = (rebalance_stuck, slow_rebalance)
