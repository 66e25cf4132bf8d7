"""The scenarios of the classic protocol as tests, and drivers that play them against the coordinator."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.scenarios import SCENARIOS, CoordinatorDriver
from tests.coordinator import fold


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        names = [f"{scenario.number:02d}-{scenario.name}" for scenario in SCENARIOS]
        metafunc.parametrize("scenario", SCENARIOS, ids=names)


@pytest.fixture
def scenarios() -> list[Any]:
    return list(SCENARIOS)


@pytest.fixture
def new_driver() -> Any:
    """Makes a driver of the coordinator; keywords are settings."""
    return CoordinatorDriver


@pytest.fixture
def driver(new_driver: Callable[..., Any]) -> Any:
    return new_driver()


@pytest.fixture
def assert_is_fold() -> Any:
    return fold.assert_is_fold
