"""Provides the coordinator as a pytest fixture. If groupledger is installed, pytest finds this plugin by the entry
point `groupledger`.

The plugin imports nothing else of groupledger until a test uses the fixture, so other tests are not slowed down.
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
    """Yields a function that starts a coordinator, with the arguments of `testing.coordinator`. It ends with the
    test."""
    from groupledger.jobs.coordinator.testing import coordinator

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> TestCoordinator:
            return stack.enter_context(coordinator(*arguments, **options))

        yield start
