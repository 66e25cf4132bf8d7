"""Writes `jobs/serve/examples.json`, an answer to each operation of the API: `python -m tools.api_examples`.

The answers come from the demo day that is shipped with groupledger; the one about a failover, which needs two
clusters, comes from a small warehouse of its own. Lists are cut to their first row, so that a reader sees the form of
an answer, not all of its rows.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.demo.shipped import unpack
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import questions
from groupledger.jobs.serve.in_process import ask
from groupledger.schemas.definitions import schema_of
from tests.jobs.ask import mirrored

FILE = Path(__file__).resolve().parent.parent / "jobs" / "serve" / "examples.json"
CLUSTER, GROUP, TOPIC = "demo", "shipping-labels", "orders.shipping-labels"
DEPLOYED = "order-archive"
SINCE, AT, END = (
    datetime(2026, 11, 25, hour, minute, tzinfo=timezone.utc) for hour, minute in ((10, 0), (11, 3), (12, 0))
)
OF_CLUSTER = f"/api/v1/clusters/{CLUSTER}"
OF_GROUP = f"{OF_CLUSTER}/groups/{GROUP}"
BOUNDS = ("observed", "replayed", "asked", "spared")
# Values of a what-if run that differ each time, such as its seconds.
WHAT_IF = {
    "setting": "static",
    "actual_setting": "cooperative-sticky, dynamic, session.timeout.ms=240000",
    "asked_setting": "cooperative-sticky, static, session.timeout.ms=240000",
    "runs": 10,
    "replay_error": 0.0,
    "rebalances": {f"{name}_{end}": 0.0 if name == "asked" else 3.0 for name in BOUNDS for end in ("low", "high")},
}
OBJECTIVES = {"on-time": {"groups": f"{GROUP}|checkout", "lag_s": 60, "target_percent": 99, "window_days": 1}}
ASKED: dict[str, tuple[str, dict[str, object]]] = {
    "clusters": ("/api/v1/clusters", {}),
    "groups": (f"{OF_CLUSTER}/groups", {"all": True}),
    "readers": (f"{OF_CLUSTER}/topics/{TOPIC}/readers", {}),
    "incidents": (f"{OF_CLUSTER}/incidents", {"severity": "info"}),
    "group": (OF_GROUP, {}),
    "owners": (f"{OF_GROUP}/owners", {"at": AT.isoformat()}),
    "owner": (f"{OF_GROUP}/owner", {"topic": TOPIC, "partition": 2, "at": AT.isoformat()}),
    "members": (f"{OF_GROUP}/members", {}),
    "timeline": (f"{OF_GROUP}/timeline", {"since": SINCE.isoformat()}),
    "rebalances": (f"{OF_GROUP}/rebalances", {"since": SINCE.isoformat()}),
    "diff": (f"{OF_GROUP}/diff", {"from": SINCE.isoformat()}),
    "incidents_of_group": (f"{OF_GROUP}/incidents", {"since": SINCE.isoformat()}),
    "why": (f"{OF_GROUP}/why", {"since": SINCE.isoformat()}),
    "what_if": (f"{OF_GROUP}/what-if", {}),
    "queries": ("/api/v1/queries", {}),
    "query": ("/api/v1/queries/rebalance-triggers", {"limit": 1}),
    "capacity": (f"{OF_GROUP}/capacity", {"members": [2, 12]}),
    "forecast": (f"{OF_GROUP}/forecast", {}),
    "audit": (f"{OF_CLUSTER}/audit", {}),
    "audit_of_group": (f"{OF_GROUP}/audit", {}),
    "deploys": (f"{OF_CLUSTER}/deploys", {"since": SINCE.isoformat()}),
    "deploys_of_group": (f"{OF_CLUSTER}/groups/{DEPLOYED}/deploys", {}),
    "deploy": (f"{OF_CLUSTER}/groups/{DEPLOYED}/deploy", {}),
    "failover": (f"/api/v1/clusters/{mirrored.EAST}/groups/{mirrored.GROUP}/failover", {"to": mirrored.WEST}),
    "objectives": (f"{OF_CLUSTER}/objectives", {"group": GROUP}),
    "inventory": (f"{OF_CLUSTER}/inventory", {"group": GROUP}),
    "lag": (f"{OF_GROUP}/lag", {"at": AT.isoformat()}),
    "lag_total": (f"{OF_GROUP}/lag/total", {}),
    "offsets": (f"{OF_GROUP}/offsets", {"at": AT.isoformat()}),
}
"""A question for each operation, by its id: path and parameters."""
MIRRORED = {"failover"}
"""The questions about two clusters, for the warehouse of `tests.jobs.ask.mirrored`; the others are about the day."""


def tool_arguments(name: str) -> dict[str, Any]:
    """Returns the arguments of an assistant's tool that ask what `ASKED` does of its operation."""
    path, parameters = ASKED[name]
    found = dict(re.findall(r"(cluster|group|topic)s/([^/]+)", path))
    if found.get("cluster") == CLUSTER:
        del found["cluster"]
    of_query = {"query": path.rpartition("/")[2]} if "queries/" in path else {}
    return found | of_query | parameters


def fill(directory: Path) -> Path:
    """Writes the shipped demo day, with an answer of what-if, as a warehouse whose day ends at END. Returns its
    path."""
    unpack(directory, END)
    row = {"cluster": CLUSTER, "run_id": "20261125-120000", "ran_at": END, "group_id": GROUP, **WHAT_IF}
    effects = pa.Table.from_pylist([row], schema_of("what_if_effects"))
    write_deltalake(str(directory / "what_if_effects"), effects, mode="append")
    return directory


def fill_both(directory: Path) -> tuple[Path, Path]:
    """Writes the day and the warehouse of two clusters, and returns their paths."""
    day, both = directory / "day", directory / "mirrored"
    day.mkdir()
    return fill(day), mirrored.fill(both)


def answers(day: Path, both: Path) -> dict[str, Any]:
    """Returns the answer to each operation, with all rows."""

    async def every() -> dict[str, Any]:
        apps = [questions(Warehouse(str(path), load_settings(objectives=OBJECTIVES))) for path in (day, both)]
        return {
            name: (await ask(apps[name in MIRRORED], path, parameters)).value
            for name, (path, parameters) in ASKED.items()
        }

    return asyncio.run(every())


def first_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: first_of(each) for name, each in value.items()}
    return [first_of(each) for each in value[:1]] if isinstance(value, list) else value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        FILE.write_text(json.dumps(first_of(answers(*fill_both(Path(directory)))), indent=1) + "\n")
    print(f"{FILE} is written")
