"""Scenarios in which members come and go in good order, or change their subscription or assignor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.messages import DeleteGroupsRequest
from groupledger.coordinator.simulator.scenarios.registry import scenario

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.scenarios.script import Script

_COOPERATIVE = ("cooperative-sticky",)


@scenario("scale-out", "A group of two grows to three, then to five at once.")
def scale_out(group: Script) -> None:
    topic = group.topic("orders", 12)
    group.start(group.deploy(2, [topic]))
    group.start(group.deploy(1, [topic]), 10, "scale_out")
    group.start(group.deploy(2, [topic]), 20, "scale_out")


@scenario("scale-in", "A group of five loses one member in good order, then two more at once.")
def scale_in(group: Script) -> None:
    applications = group.deploy(5, [group.topic("orders", 12)], assignors=_COOPERATIVE)
    group.start(applications)
    for minutes, application in zip((10, 20, 20), applications, strict=False):
        group.plan(minutes, "scale_in", application.close, by=application)


@scenario("rolling-restart", "Three dynamic members are restarted one after the other: two rebalances each.")
def rolling_restart(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications)
    for number, application in enumerate(applications):
        group.bounce(application, 10 + 3 * number, "rolling_restart", group.source.between(10, 30))


@scenario("rolling-restart-static", "Three static members are restarted within their session: no rebalance at all.")
def rolling_restart_static(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], is_static=True)
    group.start(applications)
    for number, application in enumerate(applications):
        group.bounce(application, 10 + 3 * number, "rolling_restart", group.source.between(10, 30))


@scenario("subscription-change", "The members subscribe to a second topic, one after the other.")
def subscription_change(group: Script) -> None:
    topics = [group.topic("orders", 6), group.topic("payments", 4)]
    applications = group.deploy(3, topics[:1])
    group.start(applications)
    for number, application in enumerate(applications):
        group.plan(10 + 2 * number, "subscription_change", application.subscribe, *topics, by=application)


@scenario("partitions-added", "A topic grows from six to nine partitions; the leader sees it with its next metadata.")
def partitions_added(group: Script) -> None:
    topic = group.topic("orders", 6)
    group.start(group.deploy(3, [topic], assignors=_COOPERATIVE))

    def add() -> None:
        group.simulation.topics.add_partitions(topic, 9, records_per_minute=120, now_ms=group.simulation.now_ms)

    group.plan(10, "partitions_added", add)


@scenario(
    "protocol-upgrade",
    "From range to cooperative-sticky in the two rolling bounces that Kafka's guide asks for.",
    hours=0.75,
)
def protocol_upgrade(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], assignors=("range",))
    group.start(applications)
    for minutes, assignors in ((10, ("cooperative-sticky", "range")), (30, _COOPERATIVE)):
        for number, application in enumerate(applications):
            down_s = group.source.between(10, 30)
            group.bounce(application, minutes + 3 * number, "protocol_upgrade", down_s, assignors=assignors)


@scenario("group-reborn", "A group ends, is deleted by an administrator, and is born again under its name.")
def group_reborn(group: Script) -> None:
    applications = group.deploy(2, [group.topic("orders", 4)])
    group.start(applications)
    for application in applications:
        group.plan(15, "stop", application.close, by=application)
    administrator = group.administrator()

    def delete() -> None:
        administrator.send(DeleteGroupsRequest(group.simulation.new_id(), (group.group_id,)))

    group.plan(20, "group_deleted", delete)
    group.start(applications, 25)
