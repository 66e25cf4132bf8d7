"""Goal: a cluster whose brokers have all come back at other addresses is found by the servers that were given."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka.errors import KafkaError
from kafka.protocol.metadata.metadata import MetadataRequest

from groupledger.jobs.coordinator.testing import coordinator
from groupledger.jobs.kafka.brokers import answer_or_error, connect
from groupledger.jobs.process.settings import load_settings
from lab.kafka.forwarder import Forwarder

if TYPE_CHECKING:
    from groupledger.jobs.kafka.brokers import Brokers

FOUND_SECONDS_MAX = 120


def port_of(bootstrap_servers: str) -> int:
    return int(bootstrap_servers.rpartition(":")[2])


def ports(brokers: Brokers, node: int | None = None) -> list[int]:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return [broker.port for broker in brokers.send(request, node).brokers]


def ports_in_time(brokers: Brokers, node: int) -> list[int]:
    """Asks again, as each round of the monitor does."""
    deadline_s = time.monotonic() + FOUND_SECONDS_MAX
    while isinstance(found := answer_or_error(ports, brokers, node), KafkaError):
        assert time.monotonic() < deadline_s, "the brokers were not found again"
        time.sleep(0.1)
    return found


def test_all_brokers_have_moved() -> None:
    """Goal: connections that outlive all the brokers they knew ask the servers that they were given where they are now,
    again and again while nothing is there."""
    with Forwarder() as front, ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        before = port_of(first.enter_context(coordinator({}, nodes=1)).bootstrap_servers)
        front.target = before
        brokers = stack.enter_context(connect(front.address, load_settings()))
        (node,) = brokers.nodes()
        assert ports(brokers, node) == [before]
        first.close()
        for _ in range(3):
            assert isinstance(answer_or_error(ports, brokers, node), KafkaError)
        after = port_of(stack.enter_context(coordinator({}, nodes=1)).bootstrap_servers)
        assert after != before
        front.target = after
        assert ports_in_time(brokers, node) == [after]
