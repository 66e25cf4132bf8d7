"""The model of a KIP-848 consumer sends the same heartbeats as Java's consumer in the same life."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.client.config import CONSUMER
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
)
from groupledger.coordinator.simulator.scenarios.script import Script
from groupledger.coordinator.simulator.simulation import Settings, Simulation
from groupledger.jobs.coordinator.testing import coordinator
from lab.kafka import matrix, twins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.simulator.network import Exchange

CONFIG = Config(group_consumer_heartbeat_interval_ms=500)


def said(exchanges: Iterable[Exchange]) -> dict[str, list[tuple[Any, ...]]]:
    """Returns what the members of a group said, by the last letter of the client id: the epoch, whether all fields were
    there, and how many topics and partitions. Heartbeats that say nothing are left out, and answers, too: what is
    reported when depends on whose heartbeat comes first. So is that a member has nothing where it says at the same
    epoch what it has: it does so if it gets partitions before it knows the names of their topics."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for each in exchanges:
        asked = each.request
        if isinstance(asked, ConsumerGroupHeartbeatRequest):
            topics = None if asked.subscribed_topic_names is None else len(asked.subscribed_topic_names)
            partitions = None if asked.owned is None else sum(map(len, asked.owned.values()))
            if (topics, partitions) != (None, None):
                words = asked.member_epoch, asked.rebalance_timeout_ms > 0, topics, partitions
                before = found[each.client_id[-1]]
                if before[-1:] == [(asked.member_epoch, False, None, 0)] and words[:3] == before[-1][:3]:
                    before.pop()
                before.append(words)
    return found


def simulated(*, is_static: bool) -> list[Exchange]:
    """Returns the exchanges of the life that `lab.kafka.twins` plays with real consumers."""
    simulation = Simulation(1, Settings(CONFIG, broker_count=1))
    group = Script(simulation, "g", 0, simulation.source.source("group"), simulation.now_ms)
    group.processing_ms = 50, 100
    topic = group.topic("orders", matrix.PARTITIONS)
    a, b = group.deploy(2, [topic], group_protocol=CONSUMER, is_static=is_static)
    a.config, b.config = replace(a.config, client_id="a"), replace(b.config, client_id="b")
    administrator = group.administrator()

    def remove(instance_id: str | None) -> None:
        leaving = (LeavingMember("", group_instance_id=instance_id),)
        administrator.send(LeaveGroupRequest(simulation.new_id(), group.group_id, leaving))

    group.plan(0, "start", a.start)
    group.plan(0.5, "start", b.start)
    group.plan(1, "close", b.close)
    if is_static:
        group.plan(1.1, "start", b.start)
        group.plan(1.5, "close", b.close)
        group.plan(1.6, "remove", remove, b.config.group_instance_id)
    group.plan(2, "close", a.close)
    simulation.run(simulation.now_ms + 180_000)
    return simulation.take(is_last=True).exchanges


@pytest.fixture(scope="module")
def exchanges() -> dict[str, list[Exchange]]:
    """The exchanges of Java's consumers with the coordinator on a socket, by group."""
    cases = [matrix.Case(matrix.JAVA, matrix.CONSUMER, is_static=is_static) for is_static in (False, True)]
    with coordinator({}, rate=0, nodes=1, config=CONFIG) as kafka:
        twins.play(kafka.bootstrap_servers, cases)
        found: dict[str, list[Exchange]] = {case.group: [] for case in cases}
        for each in kafka.exchanges():
            if isinstance(each.request, ConsumerGroupHeartbeatRequest):
                found[each.request.group_id].append(each)
    return found


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_heartbeats(exchanges: dict[str, list[Exchange]], *, is_static: bool) -> None:
    """Goal: the same heartbeats, with the same fields, in the same order."""
    group = matrix.Case(matrix.JAVA, matrix.CONSUMER, is_static=is_static).group
    java, model = said(exchanges[group]), said(simulated(is_static=is_static))
    assert model == java
    assert len(java["a"]) > 4
