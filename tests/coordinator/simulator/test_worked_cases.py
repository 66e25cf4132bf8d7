"""Goal: the two cases that every book about consumer groups draws come out exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.client.events import Joined, Revoked
from groupledger.coordinator.simulator.application import Application
from groupledger.coordinator.simulator.scenarios.script import Script
from groupledger.coordinator.simulator.simulation import Simulation

if TYPE_CHECKING:
    from groupledger.coordinator.client.events import ConsumerEvent


@pytest.fixture
def group() -> Script:
    simulation = Simulation(1)
    return Script(simulation, "g", 0, simulation.source.source("group"), simulation.now_ms)


def run_until(group: Script, minutes: float) -> None:
    group.simulation.run(group.began_at_ms + round(minutes * 60_000))


def test_three_members_one_leaves_another_joins(group: Script) -> None:
    """Goal: generation 1 with three members; one leaves: generation 2; another joins: generation 3."""
    applications = group.deploy(4, [group.topic("orders", 6)])
    group.start(applications[:3])
    run_until(group, 2)
    leaver = next(application for application in applications if application is not group.leader())
    group.plan(2, "leave", leaver.close, by=leaver)
    group.plan(4, "join", applications[3].start, by=applications[3])
    run_until(group, 6)
    truth = group.simulation.recorder.truth
    names = {tenure.member_id: tenure.client_id for tenure in truth.members}
    rosters = [(row.generation, {names[member_id] for member_id in row.member_ids}) for row in truth.generations]
    first = {application.client_id for application in applications[:3]}
    second = first - {leaver.client_id}
    assert rosters == [(0, set()), (1, first), (2, second), (3, second | {applications[3].client_id})]
    assert [(cause.trigger, cause.changes) for cause in truth.causes] == [
        ("joined", ("group_started",)),
        ("left", ("member_left",)),
        ("joined", ("member_joined",)),
    ]
    assert all(row.revision == 0 and row.kafka_offset is not None for row in truth.generations)


def test_third_member_under_cooperative_sticky(group: Script) -> None:
    """Goal: P1-P3 and P4-P6; of each one partition is revoked in the first round while the others are kept; the second
    round gives these two to the newcomer.
    """
    topic = group.topic("orders", 6)
    deployed = group.deploy(3, [topic], Watched, assignors=("cooperative-sticky",))
    first, second, third = (application for application in deployed if isinstance(application, Watched))
    group.start([first])
    group.start([second], 1)
    run_until(group, 3)
    assert (owned(first), owned(second)) == ([0, 1, 2], [3, 4, 5])
    for application in (first, second):
        application.events.clear()
    before = len(group.simulation.recorder.truth.causes)
    group.start([third], 3)
    run_until(group, 5)

    assert rounds(first) == [("revoked", [2]), (4, [0, 1]), (5, [0, 1])]
    assert rounds(second) == [("revoked", [5]), (4, [3, 4]), (5, [3, 4])]
    assert rounds(third) == [(4, []), (5, [2, 5])]
    truth = group.simulation.recorder.truth
    assert [(cause.to_generation, cause.changes) for cause in truth.causes[before:]] == [
        (4, ("member_joined",)),
        (5, ("cooperative_follow_up",)),
    ]
    intervals = {
        (row.partition, row.from_generation, row.to_generation, row.client_id[-1])
        for row in truth.owners
        if row.to_generation > 2
    }
    kept = {(0, 1, 5, "1"), (1, 1, 5, "1"), (3, 3, 5, "2"), (4, 3, 5, "2")}
    moved = {(2, 1, 3, "1"), (5, 3, 3, "2"), (2, 5, 5, "3"), (5, 5, 5, "3")}
    assert intervals == kept | moved


class Watched(Application):
    """An application that keeps its consumer's events."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.events: list[ConsumerEvent] = []

    def _notice(self, event: ConsumerEvent) -> None:
        self.events.append(event)
        super()._notice(event)


def owned(application: Application) -> list[int]:
    assert application.consumer is not None
    return [partition for _, partition in application.consumer.assignment]


def rounds(application: Watched) -> list[tuple[str | int, list[int]]]:
    """What a consumer learned, in order: partitions revoked, and all that it owns from a generation on."""
    reported: list[tuple[str | int, list[int]]] = []
    for event in application.events:
        if isinstance(event, Revoked):
            reported.append(("revoked", [partition for _, partition in event.partitions]))
        elif isinstance(event, Joined):
            reported.append((event.generation_id, [partition for _, partition in event.assignment]))
    return reported
