"""Starts one real broker for all tests of this folder, and reads its `__consumer_offsets` after real history.

It is of Kafka 4.2. What depends on the release is also asked of one of 4.4, which is started for these tests only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka import oracle
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker
from tests.broker import history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kafka.oracle import Position, Printed, Stored


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("broker")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("broker"), log_requests=True) as started:
        yield started


@pytest.fixture(scope="session")
def broker_4_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    directory = tmp_path_factory.mktemp("broker_4_4")
    with LocalBroker(directory, jars=JARS_OF_RELEASE["4.4"], log_requests=True) as started:
        yield started


@dataclass(frozen=True, slots=True)
class Evidence:
    """The records of one broker as each of Kafka's tools of its release reads them. Tests are about the data records in
    `uncommitted`."""

    broker: LocalBroker
    uncommitted: dict[Position, Stored]
    committed: dict[Position, Stored]
    control: dict[Position, Stored]
    printed: dict[Position, Printed]


@pytest.fixture(scope="session")
def evidence(broker: LocalBroker) -> Evidence:
    return _evidence_of(broker)


@pytest.fixture(scope="session")
def evidence_4_4(broker_4_4: LocalBroker) -> Evidence:
    return _evidence_of(broker_4_4)


def _evidence_of(broker: LocalBroker) -> Evidence:
    history.make_history(broker)
    return Evidence(
        broker=broker,
        uncommitted=oracle.read_topic(broker, OFFSETS_TOPIC, "read_uncommitted"),
        committed=oracle.read_topic(broker, OFFSETS_TOPIC, "read_committed"),
        control=oracle.read_control_records(broker, OFFSETS_TOPIC),
        printed=oracle.dump(broker, OFFSETS_TOPIC),
    )
