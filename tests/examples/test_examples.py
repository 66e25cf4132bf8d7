"""Goal: the examples of examples/ run over the demo's day, and agree with the ledger."""

from __future__ import annotations

import ast
import inspect
import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import groupledger
from groupledger.jobs.ask import api
from groupledger.jobs.demo.shipped import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs/python.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "ledger.ipynb"
MODELS = sorted(EXAMPLES.glob("models/*.sql"))
END = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
WITH_SPARK = "spark"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("examples")
    unpack(directory, END)
    return directory


def run_cells(names: dict[str, Any], *, with_spark: bool) -> int:
    """Runs the cells of the notebook that need Spark, or those that don't, in order. Returns how many."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    chosen = [cell for cell in cells if (WITH_SPARK in cell["metadata"].get("tags", [])) == with_spark]
    for cell in chosen:
        exec(compile(ast.parse("".join(cell["source"])), str(NOTEBOOK), "exec"), names)  # noqa: S102 - our own file
    return len(chosen)


def test_the_notebook(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPLEDGER_WAREHOUSE", str(warehouse))
    names: dict[str, Any] = {}
    assert run_cells(names, with_spark=False) == 5
    assert {"shipping-labels", "loyalty-points"} <= {*names["in_trouble"]}
    assert "max.poll.interval.ms, max.poll.records" in {setting for *_, setting in names["diagnoses"]}
    assert sum(count for _, count, _ in names["triggers"]) > 100
    assert sum(row["n"] for row in names["by_kind"]) == len(groupledger.Ledger(warehouse).incidents(severity="info"))


def test_the_notebook_on_spark(spark: SparkSession, warehouse: Path) -> None:
    names: dict[str, Any] = {"spark": spark, "WAREHOUSE": str(warehouse)}
    assert run_cells(names, with_spark=True) == 1
    counted = groupledger.Ledger(warehouse).sql("SELECT leave_cause, count(*) AS n FROM members GROUP BY leave_cause")
    assert names["departures"] == {row["leave_cause"]: row["n"] for row in counted.to_pylist()}


def test_the_program_of_the_page(
    warehouse: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the program of docs/python.md runs as it is printed, except for the place of the warehouse."""
    monkeypatch.setattr(api, "now_ms", lambda: round(END.timestamp() * 1_000))
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(program.replace("/data/ledger", str(warehouse)), str(PAGE), "exec"), {})  # noqa: S102 - our own file
    printed = capsys.readouterr().out
    assert "checkout ok " in printed
    assert "max.poll.interval.ms, max.poll.records" in printed


def test_the_questions_of_the_page() -> None:
    """Goal: docs/python.md has every question, with the arguments and the result that it really has."""
    row = re.compile(r"^\| `(\w+)\((.*?)\)` \| (?:`(\w+)`|an Arrow (table))", re.MULTILINE)
    described = {name: (arguments, *results) for name, arguments, *results in row.findall(PAGE.read_text())}
    questions = {name: each for name, each in vars(groupledger.Ledger).items() if not name.startswith("_")}
    assert described.keys() == questions.keys()
    for name, question in questions.items():
        arguments, kind, table = described[name]
        names: dict[str, Any] = {}
        exec(f"def described(self, {arguments}): ...", names)  # noqa: S102 - our own file
        found, real = (inspect.signature(each).parameters.values() for each in (names["described"], question))
        assert [(each.name, each.kind, each.default) for each in found] == [
            (each.name, each.kind, each.default) for each in real
        ]
        assert re.search(rf"\b{kind or table}\b", question.__annotations__["return"], re.IGNORECASE)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_a_model(warehouse: Path, model: Path) -> None:
    """Goal: each model has rows, one for each key that its page names, and loses none on the way."""
    ledger = groupledger.Ledger(warehouse)
    rows = ledger.sql(model.read_text()).to_pylist()
    keys, counted, table = {
        "lag_by_hour": (("group_id", "hour"), "rounds", "(SELECT DISTINCT group_id, sampled_at FROM lag)"),
        "rebalance_cost": (("group_id", "day"), "rebalances", "rebalances WHERE NOT is_hole"),
        "who_owned_what": (("group_id", "topic", "partition", "client_host"), "times", "assignments"),
    }[model.stem]
    assert rows
    assert len({tuple(row[key] for key in keys) for row in rows}) == len(rows)
    (total,) = ledger.sql(f"SELECT count(*) AS n FROM {table}").to_pylist()  # noqa: S608 - our own words
    assert sum(row[counted] for row in rows) == total["n"]
