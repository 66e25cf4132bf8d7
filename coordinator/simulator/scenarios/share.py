"""Scenarios of share groups (KIP-932): members that come and go, and share the partitions of a topic.

Members fetch and acknowledge no records here, because `__consumer_offsets` shows only a share group's own records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.config import SHARE
from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.scenarios.script import Script


def _deploy(group: Script, count: int, *topics: str, **config: Any) -> list[Application]:
    return group.deploy(count, topics, group_protocol=SHARE, **config)


@scenario("share-scale", "Share group: two members become five, more than there are partitions, and three again.")
def scale(group: Script) -> None:
    topic = group.topic("jobs", 4)
    first = _deploy(group, 2, topic)
    group.start(first)
    group.start(_deploy(group, 3, topic), 8, "scale_out")
    for minutes, application in zip((16, 20), first, strict=True):
        group.plan(minutes, "scale_in", application.close, by=application)


@scenario("share-crash", "Share group: a member is killed, and comes back after its session is over.")
def crash(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("jobs", 6))
    group.start(applications)
    group.plan(10, "crash", applications[0].crash, by=applications[0])
    group.start(applications[:1], 14, "restart")


@scenario(
    "share-pause", "Share group: a process stands still past its session; it is refused as it wakes, and rejoins."
)
def pause(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("jobs", 6))
    group.start(applications)
    group.plan(10, "pause", applications[0].freeze, 2 * MINUTE_MS, by=applications[0])


@scenario("share-topics", "Share group: members subscribe to a second topic one by one, and then the first one grows.")
def topics(group: Script) -> None:
    jobs, mails = group.topic("jobs", 6), group.topic("mails", 4)
    applications = _deploy(group, 3, jobs)
    group.start(applications)
    for number, application in enumerate(applications):
        group.plan(8 + 2 * number, "subscription_change", application.subscribe, jobs, mails, by=application)
    group.plan(18, "partitions_added", group.grow, jobs, 9)


@scenario("share-failover", "Share group: the coordinator's broker fails; members go on with another one.")
def failover(group: Script) -> None:
    topic = group.topic("jobs", 6)
    group.start(_deploy(group, 3, topic))
    group.plan(10, "coordinator_failover", group.fail_coordinator, 2 * MINUTE_MS)
    group.start(_deploy(group, 1, topic), 16, "scale_out")


SHARED = (scale, crash, pause, topics, failover)
