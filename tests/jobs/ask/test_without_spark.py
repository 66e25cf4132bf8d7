"""Goal: a question is answered by a process of its own in an installation that has no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.lag_answers import lag_rows
from groupledger.jobs.ask.lag_changes import rows_again
from groupledger.schemas.instants import instant_of_ms
from groupledger.transforms.lag.rules import LagRules
from lab.warehouses.releases import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules import LagRow

pytestmark = pytest.mark.slow

ARCHIVE = min((Path(__file__).parents[2] / "data" / "warehouses").glob("*.tar.gz"))
AT = "2026-01-05T00:30:00Z"
GROUP = "zombie-commits-0000"
# Runs a command where the packages of the extra `spark` are not installed, and prints what it imports that no question
# needs. Of these pandas, for which pyarrow is quick to ask, takes 0.2 s, pydantic with the settings 0.1 s.
RUN = """
import sys

class NotInstalled:
    names = {"pyspark", "delta", "py4j", "kafka", "great_expectations", "pandas", "numpy", "prometheus_client"}
    slow = {"pandas", "pyarrow.dataset", "pydantic", "yaml", "rich.table", "zoneinfo", "fastapi", "jinja2"}

    def find_spec(self, name, path=None, target=None):
        if name in self.slow:
            print("needless import:", name, file=sys.stderr)
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from groupledger.jobs.cli.main import main
from lab.warehouses.releases import unpacked
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a warehouse of an earlier release."""
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("release")) / "warehouse"


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
        "records --limit 3",
        "records --group {group} --json",
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
        "sql --named lag-now",
    ],
)
def test_a_question(warehouse: Path, question: str) -> None:
    """Goal: no question needs Spark, NumPy or pandas, nor waits for a library that it does not use."""
    named = {"{group}": GROUP, "{topic}": f"orders.{GROUP}"}
    done = without_spark(*[named.get(word, word) for word in question.split()], warehouse=warehouse)
    assert_answered(done)
    assert "needless import" not in done.stderr


def test_by_other_settings(warehouse: Path) -> None:
    """Goal: the one question that reads the settings whatever is given needs nothing else."""
    done = without_spark("lag", "--group", GROUP, "--since", AT, warehouse=warehouse)
    assert_answered(done)
    imported = {line.removeprefix("needless import: ") for line in done.stderr.splitlines() if "needless" in line}
    assert imported == {"pydantic", "yaml", "zoneinfo"}


def assert_answered(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stdout or "unknown" in done.stderr or "Not known" in done.stderr, done.stderr
    assert "not installed" not in done.stderr
    assert "a fault of groupledger" not in done.stderr


def without_spark(*words: str, warehouse: Path) -> subprocess.CompletedProcess[str]:
    place = () if words[0] == "coordinator" else ("--warehouse", str(warehouse))
    cluster = () if words[0] in {"sql", "coordinator"} else ("--cluster", "east")
    command = [sys.executable, "-c", RUN, *words, *place, *cluster]
    return subprocess.run(command, capture_output=True, text=True, check=False)


SPARK = "run `pip install 'groupledger[spark]'`, then `groupledger setup`"


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("history", SPARK),
        ("monitor --bootstrap-servers x:1", SPARK),
        ("validate", SPARK),
        ("forget --group x --dry-run", SPARK),
        ("coordinator --topics orders:1", "run `pip install 'groupledger[coordinator]'`"),
        ("quality", "run `pip install 'groupledger[quality]'`"),
    ],
)
def test_what_is_not_installed(warehouse: Path, command: str, remedy: str) -> None:
    """Goal: a command that needs Spark or Great Expectations says in a sentence how to install it."""
    done = without_spark(*command.split(), warehouse=warehouse)
    assert done.returncode == 2
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor(warehouse: Path) -> None:
    """Goal: the doctor of a machine and a warehouse imports nothing that only writing needs."""
    done = without_spark("doctor", "--json", warehouse=warehouse)
    checks = {check["about"]: check["state"] for check in map(json.loads, done.stdout.splitlines())}
    assert checks["Python"] == checks["warehouse"] == checks["groups"] == "good", done.stderr


def without_time_lag(rows: Iterable[LagRow]) -> list[LagRow]:
    return [replace(row, lag_seconds=None, lag_seconds_lower_bound=None, lag_seconds_method="") for row in rows]


@pytest.mark.parametrize(("cluster", "group"), [("east", GROUP), ("west", "group-reborn-0000")])
def test_lag_computed_again(warehouse: Path, cluster: str, group: str) -> None:
    """Goal: the rows of `lag`, which Spark wrote in that release, come out again, from whichever round on: in the last
    case most of the inputs lie before the rounds that are folded. That release left the time lag null where it knew a
    lower bound only."""
    tables = ClusterRows(str(warehouse), cluster)
    table = without_time_lag(lag_rows(tables.rows("lag")))
    rounds = sorted({row.sampled_at_ms for row in table})
    for since_ms in (rounds[0], rounds[len(rounds) // 2], rounds[-1]):
        expected = [row for row in table if row.sampled_at_ms >= since_ms]
        assert without_time_lag(rows_again(tables, group, instant_of_ms(since_ms), None, LagRules())) == expected
        if since_ms < rounds[-1]:
            all_but_last = [row for row in expected if row.sampled_at_ms < rounds[-1]]
            until = instant_of_ms(rounds[-1])
            again = rows_again(tables, group, instant_of_ms(since_ms), until, LagRules())
            assert without_time_lag(again) == all_but_last
