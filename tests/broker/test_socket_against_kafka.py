"""The coordinator on a socket serves the versions of a real broker, and real clients do the same there as on a
broker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka.protocol.metadata.api_versions import ApiVersionsRequest

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.apis import SERVED
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.schemas.kafka.api_keys import ApiKey
from lab.kafka import matrix, twins
from lab.kafka.connection import Connection

if TYPE_CHECKING:
    from lab.kafka.local_broker import LocalBroker

# A 4.2 broker says that it takes the first versions of Produce, since librdkafka asks for them, and refuses them.
ALSO_OFFERED = {ApiKey.PRODUCE: 0}
CASES = (
    matrix.Case(matrix.JAVA, "cooperative-sticky"),
    matrix.Case(matrix.JAVA, "range", is_static=True),
    matrix.Case(matrix.JAVA, matrix.CONSUMER),
    matrix.Case(matrix.LIBRDKAFKA, "range"),
    matrix.Case(matrix.LIBRDKAFKA, matrix.CONSUMER, is_static=True),
    matrix.Case(matrix.KAFKA_PYTHON, "cooperative-sticky"),
)
# test_history_matrix.py has some of these cases on the same broker.
TWINS = (
    matrix.Case(matrix.LIBRDKAFKA, "roundrobin", prefix="twin-"),
    matrix.Case(matrix.LIBRDKAFKA, matrix.CONSUMER, prefix="twin-"),
    matrix.Case(matrix.JAVA, "cooperative-sticky", prefix="twin-"),
)
PERIODS = {False: 8, True: 8}


def test_versions(broker: LocalBroker) -> None:
    """Every API is served in the versions of a 4.2 broker, the first and the last alike; telemetry, which real clients
    do without here, is not offered by a broker without a receiver either."""
    with closing(Connection(broker.bootstrap_servers)) as connection:
        answer = connection.call(ApiVersionsRequest(version=3, client_software_name="a", client_software_version="1"))
    offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    served = {api: (ALSO_OFFERED.get(api, one.min_version), one.max_version) for api, one in SERVED.items()}
    assert served == {api: offered[api] for api in SERVED}
    assert not {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} & offered.keys()


@pytest.mark.slow
def test_real_clients() -> None:
    """Java's client, librdkafka and kafka-python scale, are killed, stand still, restart and are removed; after each
    step they own exactly what they own on a broker, where test_history_matrix.py plays the same."""
    config = Config(
        group_min_session_timeout_ms=1_000,
        group_initial_rebalance_delay_ms=500,
        group_consumer_session_timeout_ms=matrix.SESSION_MS,
        group_consumer_heartbeat_interval_ms=matrix.HEARTBEAT_MS,
    )
    with coordinator({}, rate=30, config=config) as kafka:
        played = matrix.play(kafka.bootstrap_servers, CASES)
    assert [each.case for each in played] == list(CASES)
    assert all(len(each.periods) >= PERIODS[each.case.is_static] for each in played)


def test_the_same_life_on_both(broker: LocalBroker) -> None:
    """Goal: groups of librdkafka's and Java's consumers have the same generations, members, assignments and commits on
    a broker and at the socket, and Java's ask the same; `bench.twins` has all clients and protocols."""
    assert twins.differences(broker, TWINS) == []
