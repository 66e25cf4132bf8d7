"""The fixture that other projects' tests get from the installed plugin: this file imports nothing for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.coordinator.testing import TestCoordinator


def test_two_coordinators(kafka_coordinator: Callable[..., TestCoordinator]) -> None:  # pytest's way
    """A test may start several, each on ports of its own."""
    first, second = kafka_coordinator({"orders": 1}), kafka_coordinator({"orders": 1, "payments": 2}, nodes=1)
    assert not set(first.bootstrap_servers.split(",")) & set(second.bootstrap_servers.split(","))
    assert first.group("billing") is second.group("billing") is None
    assert second.topic_id("payments") != second.topic_id("orders")
