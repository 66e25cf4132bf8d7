"""Defines a scenario in which everything that can happen to a group happens in any order, and often at the same time.

The simulator's own scenarios show one thing each, with the group at rest in between. Here members come, go and change
during a rebalance, leaders die before their sync, and brokers fail in the middle.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from groupledger.coordinator.model.messages import JoinGroupResponse, LeaveGroupRequest, LeavingMember
from groupledger.coordinator.simulator.scenarios import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.messages import Response
    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.scenarios.script import Script

STEPS = 14
APART_S = (1, 150)  # from one step to the next: from well within a rebalance to well after it
MEMBERS = 4
ASSIGNORS = (("range",), ("cooperative-sticky",), ("sticky",), ("range", "cooperative-sticky"))
WHAT = (
    *("start", "start", "start", "close", "close", "crash", "freeze", "hang", "crash_before_sync", "subscribe"),
    *("subscribe", "add_partitions", "admin_removal", "coordinator_failover"),
)


def play(group: Script) -> None:
    source = group.source.source("mixed")
    topics = [group.topic("orders", 6), group.topic("payments", 3)]
    assignors = ASSIGNORS[source.between(0, len(ASSIGNORS) - 1)]
    is_static = source.between(0, 2) == 0
    applications = group.deploy(MEMBERS, topics[:1], assignors=assignors, is_static=is_static)
    group.start(applications[: source.between(1, MEMBERS)])
    minutes = 2.0
    for _ in range(STEPS):
        minutes += source.between(*APART_S) / 60
        what = WHAT[source.between(0, len(WHAT) - 1)]
        application = applications[source.between(0, MEMBERS - 1)]
        group.plan(minutes, what, partial(befall, group, application, what, source.between(5, 360)), by=application)


def befall(group: Script, application: Application, what: str, seconds: int) -> None:
    orders, payments = group.topics
    steps: dict[str, Callable[[], object]] = {
        "start": application.start,
        "close": application.close,
        "crash": application.crash,
        "freeze": lambda: application.freeze(seconds * 1_000 // 3),
        "hang": lambda: application.hang(seconds * 1_000),
        "crash_before_sync": lambda: crash_before_sync(application),
        "subscribe": lambda: application.subscribe(*((orders,) if len(application.topics) > 1 else (orders, payments))),
        "add_partitions": lambda: add_partitions(group, orders),
        "admin_removal": lambda: remove(group, application),
        "coordinator_failover": lambda: fail_over(group),
    }
    steps[what]()


MIXED = Scenario(name="mixed", summary=__doc__ or "", play=play, hours=0.75)


def crash_before_sync(application: Application) -> None:
    def is_answered(response: Response) -> bool:
        return isinstance(response, JoinGroupResponse) and bool(response.members)

    application.crashes_when = is_answered


def add_partitions(group: Script, topic: str) -> None:
    topics = group.simulation.topics
    count = len(topics.by_name[topic].partitions)
    topics.add_partitions(topic, count + 1, records_per_minute=120, now_ms=group.simulation.now_ms)


def remove(group: Script, application: Application) -> None:
    """Removes a static member by its instance id, as Kafka's tools do, and a dynamic one by its member id."""
    instance_id = application.config.group_instance_id
    member_id = application.consumer.member_id if application.consumer is not None and instance_id is None else ""
    leaving = LeavingMember(member_id, instance_id, "removed by an administrator")
    group.administrator().send(LeaveGroupRequest(group.simulation.new_id(), group.group_id, (leaving,)))


def fail_over(group: Script) -> None:
    broker = group.simulation.brokers.coordinator_of(group.group_id)
    if broker is not None:
        group.simulation.crash_broker(broker, down_ms=120_000)
