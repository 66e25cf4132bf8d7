"""Scenarios of streams groups (KIP-1071, `group.protocol=streams`): Kafka Streams applications of one thread each.

The topology reads a topic of orders, repartitions it by customer, and counts the orders of each customer in a store. It
has two subtopologies, a repartition topic and a changelog. Brokers create these internal topics when they see the
topology; until then the group is not ready. In the scenario in which a topic grows, the topology has neither internal
topic: a changelog would keep its number of partitions, and the group would not be ready any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.client.config import STREAMS
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.groups.streams.topology import Subtopology, TopicInfo, Topology
from groupledger.coordinator.model.messages import DeleteGroupsRequest
from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, SECOND_MS
from groupledger.coordinator.simulator.simulation import Settings

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.scenarios.script import Script

COMMIT_INTERVAL_MS: Final = 30 * SECOND_MS  # Kafka's default for Streams without exactly-once processing
DELAY_MS: Final = 40 * SECOND_MS  # how long a thread works on its records while others wait for its tasks


def filtering(orders: str) -> Topology:
    """Returns a topology without a store: one subtopology, and no internal topics."""
    return Topology(0, (Subtopology(subtopology_id="0", source_topics=(orders,)),))


def counting(orders: str, group_id: str) -> Topology:
    """Returns a topology that counts orders by customer: two subtopologies, a repartition topic and a changelog."""
    by_customer = f"{group_id}-by-customer-repartition"
    return Topology(
        0,
        (
            Subtopology(subtopology_id="0", source_topics=(orders,), repartition_sink_topics=(by_customer,)),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=(TopicInfo(by_customer),),
                state_changelog_topics=(TopicInfo(f"{group_id}-counts-changelog"),),
            ),
        ),
    )


def _deploy(group: Script, count: int, topology: Topology, **config: Any) -> list[Application]:
    return group.deploy(
        count,
        _input_topics(topology),
        group_protocol=STREAMS,
        topology=topology,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        **config,
    )


def _input_topics(topology: Topology) -> tuple[str, ...]:
    return tuple(sorted({topic for each in topology.subtopologies for topic in each.input_topics()}))


def _counting(group: Script, count: int, **config: Any) -> list[Application]:
    orders = group.topics[0] if group.topics else group.topic("orders", 6)
    return _deploy(group, count, counting(orders, group.group_id), **config)


@scenario("streams-scale", "Streams group: two threads become four, which take tasks from them, and two again.")
def scale(group: Script) -> None:
    first = _counting(group, 2)
    group.start(first)
    group.start(_counting(group, 2), 8, "scale_out")
    for minutes, application in zip((16, 20), first, strict=True):
        group.plan(minutes, "scale_in", application.close, by=application)


@scenario(
    "streams-standbys",
    "Streams group: tasks have standbys; others take over as a thread is killed.",
    settings=Settings(Config(group_streams_num_standby_replicas=1)),
)
def standbys(group: Script) -> None:
    applications = _counting(group, 3)
    group.start(applications)
    group.plan(10, "crash", applications[0].crash, by=applications[0])
    group.start(applications[:1], 16, "restart")


@scenario("streams-crash", "Streams group: a thread is killed, and comes back after its session is over.")
def crash(group: Script) -> None:
    applications = _counting(group, 3)
    group.start(applications)
    group.plan(10, "crash", applications[0].crash, by=applications[0])
    group.start(applications[:1], 14, "restart")


@scenario("streams-pause", "Streams group: a process stands still past its session; it is refused as it wakes.")
def pause(group: Script) -> None:
    applications = _counting(group, 3)
    group.start(applications)
    group.plan(10, "pause", applications[0].freeze, 2 * MINUTE_MS, by=applications[0])


@scenario("streams-slow-release", "Streams group: a new thread waits for tasks whose owner works on its records.")
def slow_release(group: Script) -> None:
    busy, *others = _counting(group, 2)
    group.start([busy, *others])
    group.plan(10, "slow_release", busy.hang, DELAY_MS, by=busy)
    group.start(_counting(group, 1), 10, "scale_out")


@scenario("streams-poll-timeout", "Streams group: a thread polls no more for max.poll.interval.ms, and leaves.")
def poll_timeout(group: Script) -> None:
    applications = _counting(group, 3, max_poll_interval_ms=2 * MINUTE_MS)
    group.start(applications)
    group.plan(10, "poll_timeout", applications[0].hang, 5 * MINUTE_MS, by=applications[0])


@scenario("streams-partitions", "Streams group: the topic of an application without a store grows.")
def partitions(group: Script) -> None:
    orders = group.topic("orders", 4)
    group.start(_deploy(group, 3, filtering(orders)))
    group.plan(10, "partitions_added", group.grow, orders, 7)


@scenario(
    "streams-topology",
    "Streams group: another topology is refused as threads restart with it, until the group is deleted.",
)
def topology(group: Script) -> None:
    orders = group.topic("orders", 4)
    applications = _deploy(group, 2, filtering(orders))
    group.start(applications)
    other = counting(orders, group.group_id)
    group.bounce(applications[0], 8, "topology_changed", 10, topology=other)
    for application in applications:
        group.plan(14, "stop", application.close, by=application)
    administrator = group.administrator()

    def delete() -> None:
        administrator.send(DeleteGroupsRequest(group.simulation.new_id(), (group.group_id,)))

    group.plan(16, "group_deleted", delete)

    def start_anew(application: Application) -> None:
        application.topics = _input_topics(other)
        application.start(topology=other)

    for application in applications:
        group.plan(18, "start", start_anew, application, by=application)


@scenario("streams-failover", "Streams group: the coordinator's broker fails; threads go on with another one.")
def failover(group: Script) -> None:
    group.start(_counting(group, 3))
    group.plan(10, "coordinator_failover", group.fail_coordinator, 2 * MINUTE_MS)
    group.start(_counting(group, 1), 16, "scale_out")


STREAMED = (scale, standbys, crash, pause, slow_release, poll_timeout, partitions, topology, failover)
