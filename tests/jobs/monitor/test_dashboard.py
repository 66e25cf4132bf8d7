"""Goal: the dashboard and the alert rules ask only for metrics that are served, by labels that they have."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from groupledger.jobs.monitor.lag_metrics import BY_PARTITION
from tools.surface import served_metrics

CASES = Path(__file__).parents[2] / "conf" / "prometheus" / "groupledger.test.yaml"
METRIC = re.compile(r"\b(?:kafka|groupledger)_\w+")
LABELS = {*BY_PARTITION, "status", "kind", "severity", "receiver", "outcome", "step", "cause", "trigger", "le"}
LABELS |= {"objective", "burning", "window", "state"}


def served() -> set[str]:
    """The names of all samples, with the suffix that counters have."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"{each.name}{suffix}" for each in served_metrics() for suffix in suffixes.get(each.type, ("",))}


def asked(text: str) -> set[str]:
    return set(METRIC.findall(text))


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        resources.files("groupledger.conf").joinpath("grafana/consumer-groups.json").read_text()
    )
    return found


def rules() -> list[dict[str, Any]]:
    text = resources.files("groupledger.conf").joinpath("prometheus/groupledger.rules.yaml").read_text()
    found: list[dict[str, Any]] = yaml.safe_load(text)["groups"][0]["rules"]
    return found


def test_dashboard_asks_for_what_is_served() -> None:
    """Goal: no panel stays empty because of a name."""
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    expressions += [
        variable["definition"] for variable in dashboard()["templating"]["list"] if "definition" in variable
    ]
    assert asked(" ".join(expressions)) <= served()
    labels = {name for text in expressions for name in re.findall(r"(\w+)(?:=~|!=|=)\"", text)}
    assert labels <= LABELS


def test_rules_ask_for_what_is_served() -> None:
    """Goal: no rule is silent because of a name."""
    expressions = [rule["expr"] for rule in rules()]
    assert asked(" ".join(expressions)) <= served()


def test_the_rules_are_played() -> None:
    """Goal: the cases for promtool are about metrics that are served, and every rule fires in one of them."""
    played = yaml.safe_load(CASES.read_text())["tests"]
    series = " ".join(each["series"] for case in played for each in case["input_series"])
    assert asked(series) <= served()
    assert set(re.findall(r"(\w+)=\"", series)) <= {*LABELS, "instance"}
    fired = {each["alertname"] for case in played for each in case["alert_rule_test"] if each["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules()}


def test_panels_do_not_overlap() -> None:
    """Goal: a panel is a rectangle of its own within the 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
