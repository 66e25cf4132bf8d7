"""Lists what users rely on, a line each, and writes the list to `tests/data/surface.txt`: `python -m tools.surface`.

    command     each command, its arguments, options and their environment variables
    table       each column of each Delta table, with its type
    metric      each metric, with its type and the labels of its samples
    setting     each setting of `conf`
    http        each path that `serve` answers, with its parameters, and each field of its JSON
    python      each name of the package, with the parameters of its methods and the fields of its rows

`tests/test_surface.py` compares the list with the file. A line that is new is added by this command. A line that goes
breaks somebody's script: docs/upgrades.md says what has to happen first.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import BaseModel

import groupledger
from groupledger.jobs.cli.main import main as command_line
from groupledger.jobs.ingest.stream import Totals
from groupledger.jobs.monitor.activity import Activity
from groupledger.jobs.monitor.activity_metrics import GroupActivity
from groupledger.jobs.monitor.group_info import GroupInfo
from groupledger.jobs.monitor.lag_metrics import Summed, lag_metrics
from groupledger.jobs.monitor.objectives import objective_metrics
from groupledger.jobs.monitor.own_metrics import (
    MonitorReport,
    behind_metrics,
    incident_metrics,
    ingest_metrics,
    monitor_metrics,
    source_metrics,
    step_metrics,
)
from groupledger.jobs.monitor.upkeep import LastRun
from groupledger.jobs.process.settings import Settings, load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import questions
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import Commit, End, LagState, Round, Watermark, rollup
from groupledger.transforms.objectives.rules.burn import BURN_WINDOWS, MinuteCounts, standing
from groupledger.transforms.objectives.rules.minutes import Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

ROOT = Path(__file__).resolve().parent.parent
SURFACE = ROOT / "tests" / "data" / "surface.txt"


def surface() -> list[str]:
    """Returns all lines, in order."""
    lines = [*commands(command_line, ""), *tables(), *metrics(), *settings(Settings, ""), *http(), *python()]
    return sorted(set(lines))


def commands(command: click.Command, path: str) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            variable = f" {parameter.envvar}" if parameter.envvar else ""
            yield f"command{path} {'/'.join(sorted([*parameter.opts, *parameter.secondary_opts]))}{variable}"
        else:
            yield f"command{path} {parameter.make_metavar(click.Context(command))}"
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield f"command{path} {name}"
            yield from commands(each, f"{path} {name}")


def tables() -> Iterator[str]:
    defined = json.loads((ROOT / "schemas" / "tables.json").read_text())
    for name, table in defined.items():
        for column in table["columns"]:
            yield from columns(f"table {name}.{column['name']}", column["type"])


def columns(path: str, type_: Any) -> Iterator[str]:
    """Yields a line for a column, or for each field of a struct or of an array of them."""
    while isinstance(type_, dict) and type_["type"] == "array":
        path, type_ = f"{path}[]", type_["elementType"]
    if isinstance(type_, dict) and type_["type"] == "struct":
        for field in type_["fields"]:
            yield from columns(f"{path}.{field['name']}", field["type"])
    else:
        yield f"{path} {type_ if isinstance(type_, str) else type_['type']}"


def metrics() -> Iterator[str]:
    for each in served_metrics():
        labels = sorted({label for sample in each.samples for label in sample.labels})
        yield f"metric {each.name} {each.type} {','.join(labels)}"


def served_metrics() -> list[Metric]:
    """Returns the metrics that the monitor serves for a cluster in which everything is known."""
    state = LagState()
    state.commit("g", "t", 0, Commit(1, 0, 0, 0))
    rows = list(state.round(Round(1, {0: End(1)}, {TopicPartition("t", 0): Watermark(1, 0, 5, 5)}), {}))
    report = MonitorReport(1, lag_offsets={0: 1}, hidden_offsets={0: 1}, stalled_ms={0: 1})
    objective = Objective(name="o", lag_s=60, target_percent=99, window_days=1)
    whole = MinuteCounts(1_440)
    known = standing(objective, whole, dict.fromkeys(BURN_WINDOWS, whole))
    info = GroupInfo(rebalances=1, generation=1, member_count=1, idle_since_ms=1)
    return [
        *lag_metrics(
            "c", Summed(rows, rollup(rows)), {"g": info}, load_settings().metrics, 0, GroupActivity(Activity(0))
        ),
        *monitor_metrics("c", report),
        *incident_metrics("c", {("g", "rebalance_storm", "warning"): 1}, {("chat", "sent"): 1}),
        *step_metrics("c", {"history": LastRun(1, 1)}, {"history": 1}, ("history",)),
        *source_metrics("c", {"topic": 1}, 1),
        *behind_metrics("c", {"topic": 1}),
        *ingest_metrics("c", Totals(phases_ms={"addBatch": 1})),
        *objective_metrics("c", [(objective, "g", known)]),
    ]


def settings(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"setting {path}{name}"
        for each in sections(field.annotation):
            yield from settings(each, f"{path}{name}.")


def sections(annotation: Any) -> list[type[BaseModel]]:
    """Returns the models in a type, such as those of a list or of a mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for argument in getattr(annotation, "__args__", ()) for each in sections(argument)]


def http() -> Iterator[str]:
    described = questions(Warehouse(".", load_settings())).openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"http {method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                yield f"http {method.upper()} {path} {parameter['in']} {parameter['name']}"
    for name, schema in described["components"]["schemas"].items():
        for field in schema.get("properties", ()):
            yield f"http {name}.{field}"


def python() -> Iterator[str]:
    for name in groupledger.__all__:
        yield f"python {name}"
        value = getattr(groupledger, name)
        for field in fields(value) if is_dataclass(value) else ():
            yield f"python {name}.{field.name} {field.type}"
    for name, method in inspect.getmembers(groupledger.Ledger, inspect.isfunction):
        if name == "__init__" or not name.startswith("_"):
            yield f"python Ledger.{name}{inspect.signature(method)}"


if __name__ == "__main__":
    SURFACE.write_text("".join(f"{line}\n" for line in surface()))
