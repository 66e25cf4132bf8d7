"""Loads the package of scenarios and drivers by its path; tests in other folders can do the same."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def load(name: str, path: Path) -> ModuleType:
    """Import a module, or by its __init__.py a package, under a name of its own."""
    if name not in sys.modules:
        locations = [str(path.parent)] if path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


SCENARIOS = load("coordinator_scenarios", HERE / "scenarios" / "__init__.py")
FOLD = load("coordinator_fold", HERE / "fold.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        names = [f"{scenario.number:02d}-{scenario.name}" for scenario in SCENARIOS.SCENARIOS]
        metafunc.parametrize("scenario", SCENARIOS.SCENARIOS, ids=names)


@pytest.fixture
def scenarios() -> list[Any]:
    return list(SCENARIOS.SCENARIOS)


@pytest.fixture
def new_driver() -> Any:
    """Makes a driver of the coordinator; keywords are settings."""
    return SCENARIOS.CoordinatorDriver


@pytest.fixture
def driver(new_driver: Callable[..., Any]) -> Any:
    return new_driver()


@pytest.fixture
def assert_is_fold() -> Any:
    return FOLD.assert_is_fold
