"""Goal: on a cluster of several machines' processes, with nothing but the shipped archive, every step of a pass gives
the rows of a local run."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.faults.contents import contents, differences
from tests.cluster.conftest import CLUSTER, sources
from tests.cluster.standalone import Cluster, standalone, without_ours

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_tables_are_equal(cluster: Cluster, simulated: Path, expected: dict[str, Counter[str]], tmp_path: Path) -> None:
    """Goal: the tables of a pass, and of a maintenance after it, are equal to a local run's; both workers had a part,
    and no process there knew groupledger from elsewhere."""
    knows = subprocess.run([cluster.python, "-c", "import groupledger"], cwd=tmp_path, env=without_ours(), check=False)
    assert knows.returncode == 1
    warehouse = tmp_path / "warehouse"
    cluster.submit("pipeline", *sources(simulated), "--cluster", CLUSTER, "--warehouse", warehouse)
    assert differences(contents(warehouse), expected) == []
    cluster.submit("maintain", "--warehouse", warehouse)
    assert differences(contents(warehouse), expected) == []
    # The words of each executor, by its worker.
    assert {path.parents[2].name for path in cluster.folder.glob("work-*/app-*/*/stderr")} == {"work-0", "work-1"}
