"""Scenarios of KIP-848 groups (`group.protocol=consumer`): members that come and go, release late, and are fenced.

In no scenario is a member fenced because it did not release its partitions in time. Java's consumer uses
max.poll.interval.ms as its rebalance timeout, and its last poll is older than the request to release: so it leaves by
itself before the coordinator fences it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.client.config import CLASSIC, CONSUMER
from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, SECOND_MS

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.scenarios.script import Script

DELAY_MS: Final = 46 * SECOND_MS  # how long a member works on its records while others wait for its partitions


def _deploy(group: Script, count: int, *topics: str, **config: Any) -> list[Application]:
    return group.deploy(count, topics, group_protocol=CONSUMER, **config)


@scenario("consumer-scale", "KIP-848: a group of two grows to five and shrinks to three.")
def scale(group: Script) -> None:
    topic = group.topic("orders", 12)
    first = _deploy(group, 2, topic)
    group.start(first)
    group.start(_deploy(group, 3, topic), 8, "scale_out")
    for minutes, application in zip((16, 20), first, strict=True):
        group.plan(minutes, "scale_in", application.close, by=application)


@scenario("consumer-slow-release", "KIP-848: a new member waits for partitions whose owner works on its records.")
def slow_release(group: Script) -> None:
    topic = group.topic("orders", 6)
    busy, *others = _deploy(group, 2, topic)
    group.start([busy, *others])
    group.plan(10, "slow_release", busy.hang, DELAY_MS, by=busy)
    group.start(_deploy(group, 1, topic), 10, "scale_out")


@scenario("consumer-crash", "KIP-848: a member is killed, and comes back after its session is over.")
def crash(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("orders", 6))
    group.start(applications)
    group.plan(10, "crash", applications[0].crash, by=applications[0])
    group.start(applications[:1], 14, "restart")


@scenario("consumer-poll-timeout", "KIP-848: nobody polls for longer than max.poll.interval.ms; the member leaves.")
def poll_timeout(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("orders", 6), max_poll_interval_ms=2 * MINUTE_MS)
    group.start(applications)
    group.plan(10, "poll_timeout", applications[0].hang, 5 * MINUTE_MS, by=applications[0])


@scenario("consumer-pause", "KIP-848: a process stands still past its session; its heartbeats are refused as it wakes.")
def pause(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("orders", 6))
    group.start(applications)
    group.plan(10, "pause", applications[0].freeze, 2 * MINUTE_MS, by=applications[0])


@scenario("consumer-restart-static", "KIP-848: static members restart within their session; one stays away for longer.")
def restart_static(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("orders", 6), is_static=True)
    group.start(applications)
    for number, application in enumerate(applications):
        group.bounce(application, 8 + 3 * number, "rolling_restart", group.source.between(5, 30))
    group.bounce(applications[0], 20, "static_away", 120)


@scenario("consumer-instance-taken", "KIP-848: a second process has the instance id of a member that is there.")
def instance_taken(group: Script) -> None:
    topic = group.topic("orders", 6)
    applications = _deploy(group, 2, topic, is_static=True)
    group.start(applications)
    (twin,) = _deploy(group, 1, topic)
    taken = applications[0].config.group_instance_id
    group.plan(10, "instance_taken", partial(twin.start, group_instance_id=taken), by=twin)


@scenario("consumer-topics", "KIP-848: members subscribe to a second topic one by one, and then the first one grows.")
def topics(group: Script) -> None:
    orders, payments = group.topic("orders", 6), group.topic("payments", 4)
    applications = _deploy(group, 3, orders)
    group.start(applications)
    for number, application in enumerate(applications):
        group.plan(8 + 2 * number, "subscription_change", application.subscribe, orders, payments, by=application)
    group.plan(18, "partitions_added", group.grow, orders, 9)


@scenario("consumer-regex", "KIP-848: members subscribe by a regular expression; a topic that it matches comes later.")
def regex(group: Script) -> None:
    group.topic("orders", 6)
    applications = _deploy(group, 3)
    for application in applications:
        application.pattern = rf"orders.*\.{group.group_id}"
    group.start(applications)
    group.plan(10, "topic_created", group.topic, "orders-eu", 4)


@scenario("consumer-failover", "KIP-848: the coordinator's broker fails; members go on with another one.")
def failover(group: Script) -> None:
    topic = group.topic("orders", 6)
    group.start(_deploy(group, 3, topic))
    group.plan(10, "coordinator_failover", group.fail_coordinator, 2 * MINUTE_MS)
    group.start(_deploy(group, 1, topic), 16, "scale_out")


@scenario("consumer-migration", "A classic group goes to KIP-848 by a rolling restart, under load.")
def migration(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], assignors=("cooperative-sticky",))
    group.start(applications)
    for number, application in enumerate(applications):
        down_s = group.source.between(5, 20)
        group.bounce(application, 8 + 4 * number, "migration", down_s, group_protocol=CONSUMER)


@scenario("consumer-migration-back", "KIP-848: a group goes back to the classic protocol by a rolling restart.")
def migration_back(group: Script) -> None:
    applications = _deploy(group, 3, group.topic("orders", 6))
    group.start(applications)
    for number, application in enumerate(applications):
        down_s = group.source.between(5, 20)
        group.bounce(application, 8 + 4 * number, "migration_back", down_s, group_protocol=CLASSIC)
    group.start(group.deploy(1, group.topics), 24, "scale_out")


@scenario("consumer-there-and-back", "A classic group of static members tries KIP-848 with one of them, and goes back.")
def there_and_back(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], is_static=True)
    group.start(applications)
    first = applications[0]
    group.bounce(first, 8, "migration", group.source.between(5, 20), group_protocol=CONSUMER)
    (other,) = _deploy(group, 1, *group.topics)
    group.start([other], 10, "scale_out")
    group.plan(12, "scale_in", other.close, by=other)
    group.bounce(first, 14, "migration_back", group.source.between(5, 20), group_protocol=CLASSIC)
    group.start(group.deploy(1, group.topics), 20, "scale_out")


MODERN = (
    *(scale, slow_release, crash, poll_timeout, pause),
    *(restart_static, instance_taken, topics, regex, failover),
    *(migration, migration_back, there_and_back),
)
