"""Provides the coordinator as a pytest fixture. Where groupledger is installed, pytest finds it by its entry point
`groupledger`.

It imports nothing of groupledger until a test uses the fixture, so that other tests of the project are not slowed down.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.coordinator.testing import TestCoordinator


@pytest.fixture
def kafka_coordinator() -> Iterator[Callable[..., TestCoordinator]]:
    """Starts coordinators, which end with the test; the arguments are those of `testing.coordinator`."""
    from groupledger.jobs.coordinator.testing import coordinator

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> TestCoordinator:
            return stack.enter_context(coordinator(*arguments, **options))

        yield start
