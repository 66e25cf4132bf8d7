"""Starts a broker for each test, which the test may damage."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.kafka.local_broker import LocalBroker
from tests.fault.topic import filled_broker, make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("fault")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with filled_broker(tmp_path / "kafka") as started:
        yield started


@pytest.fixture
def password() -> str:
    return secrets.token_hex(16)


@contextmanager
def broker_with_login(folder: Path, password: str) -> Iterator[LocalBroker]:
    """A broker whose one listener for clients wants SASL."""
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{MODULE} required username="ledger" password="{password}" user_ledger="{password}";'
        ),
        "offsets.topic.num.partitions": "4",
    }
    with LocalBroker(folder, properties=properties) as broker:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        login |= {"sasl.username": "ledger", "sasl.password": password}
        make_topic(broker.bootstrap_servers, **login)
        yield broker


@pytest.fixture
def sasl_broker(tmp_path: Path, password: str) -> Iterator[LocalBroker]:
    with broker_with_login(tmp_path / "kafka", password) as broker:
        yield broker
