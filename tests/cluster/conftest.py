"""Starts what the tests of object stores and of clusters need, and runs `groupledger` in processes of its own.

They are not part of `make test`: `make test-cluster` fetches what they need, and runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.session import SHORT_LIVED
from lab.faults.contents import contents

if TYPE_CHECKING:
    from collections import Counter

TIMEOUT_S = 600
CLUSTER = "test"
SCENARIO = ("--scenario", "zombie-commits", "--seed", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("cluster")


def groupledger(*arguments: str | Path, code: int = 0) -> str:
    """Runs a command to its end, and returns what it printed."""
    command = [sys.executable, "-m", "groupledger.jobs.cli.main", *map(str, arguments)]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment)
    assert ended.returncode == code, ended.stderr
    return ended.stdout


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture, and the sampling rounds that go with it."""
    folder = tmp_path_factory.mktemp("log") / "simulated"
    groupledger("simulate", *SCENARIO, "--out", folder)
    return folder


def sources(simulated: Path) -> tuple[str | Path, ...]:
    """Returns the options of a pipeline over what was simulated."""
    return "--capture", simulated / "capture", "--samples", simulated


@pytest.fixture(scope="session")
def local(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse on this machine's disk, with all that a pipeline writes."""
    warehouse = tmp_path_factory.mktemp("local") / "warehouse"
    groupledger("pipeline", *sources(simulated), "--cluster", CLUSTER, "--warehouse", warehouse)
    return warehouse


@pytest.fixture(scope="session")
def expected(local: Path) -> dict[str, Counter[str]]:
    return contents(local)
