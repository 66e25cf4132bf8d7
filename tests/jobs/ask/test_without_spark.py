"""Goal: a question is answered by a process of its own that never imports Spark."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ARCHIVE = max((Path(__file__).parents[2] / "data" / "warehouses").glob("*.tar.gz"))
AT = "2026-01-05T00:30:00Z"
# Prints what of Spark was imported, which is nothing, behind what the command says.
RUN = """
import sys
from groupledger.jobs.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print({"pyspark", "py4j", "delta"} & {*sys.modules}, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a warehouse of an earlier release."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (found,) = folder.glob("*/warehouse")
    return found


@pytest.mark.parametrize(
    "question",
    [
        f"owner {{group}} {{topic}} 0 --at {AT}",
        f"owner {{group}} nowhere 0 --at {AT}",
        f"owner nobody nowhere 0 --at {AT}",
        "group {group}",
        "rebalances",
        "rebalances --group {group} --json",
        "readers {topic}",
        "committers",
        "idle --fraction 0",
        f"offsets {{group}} --at {AT}",
        f"diff {{group}} --from {AT}",
        "why {group} --since 2026-01-05T00:00:00Z",
        "groups",
        "groups zomb* --all --json",
        "lag",
        f"lag --group {{group}} --at {AT}",
        "lag --by group",
        "incidents",
        "incidents --group {group} --severity info --since 2026-01-05T00:10:00Z --json",
    ],
)
def test_a_question(warehouse: Path, question: str) -> None:
    """Goal: no question starts or imports Spark."""
    named = {"{group}": "zombie-commits-0000", "{topic}": "orders.zombie-commits-0000"}
    words = [named.get(word, word) for word in question.split()]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words, "--warehouse", str(warehouse), "--cluster", "east"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1:] == ["set()"], done.stderr
    assert done.returncode == 0
