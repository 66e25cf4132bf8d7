"""Starts a broker for each test, which the test may damage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.kafka.local_broker import LocalBroker
from tests.fault.topic import PARTITIONS, fill, make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("fault")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker with some hundred records in four partitions of `__consumer_offsets`."""
    properties = {"offsets.topic.num.partitions": str(PARTITIONS), "log.retention.check.interval.ms": "200"}
    with LocalBroker(tmp_path / "kafka", properties=properties) as started:
        make_topic(started.bootstrap_servers)
        fill(started.bootstrap_servers, 400)
        yield started
