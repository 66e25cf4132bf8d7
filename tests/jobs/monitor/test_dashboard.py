"""Goal: the dashboard and the alert rules ask only for metrics that are served, by labels that they have."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from groupledger.jobs.monitor.activity import Activity
from groupledger.jobs.monitor.activity_metrics import GroupActivity
from groupledger.jobs.monitor.group_info import GroupInfo
from groupledger.jobs.monitor.lag_metrics import BY_PARTITION, lag_metrics
from groupledger.jobs.monitor.own_metrics import MonitorReport, incident_metrics, monitor_metrics, step_metrics
from groupledger.jobs.monitor.upkeep import Step
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import Commit, End, LagState, Round, Watermark, rollup

CASES = Path(__file__).parents[2] / "conf" / "prometheus" / "groupledger.test.yaml"
METRIC = re.compile(r"\b(?:kafka|groupledger)_\w+")
LABELS = {*BY_PARTITION, "status", "kind", "severity", "receiver", "outcome", "step", "cause", "trigger", "le"}


def served() -> set[str]:
    """The names of all samples, with the suffix that counters have."""
    state = LagState()
    state.commit("g", "t", 0, Commit(1, 0, 0, 0))
    rows = list(state.round(Round(1, {0: End(1)}, {TopicPartition("t", 0): Watermark(1, 0, 5, 5)}), {}))
    report = MonitorReport(1, lag_offsets={0: 1}, hidden_offsets={0: 1}, stalled_ms={0: 1})
    info = GroupInfo(rebalances=1, generation=1, member_count=1, idle_since_ms=1)
    metrics = [
        *lag_metrics("c", rows, rollup(rows), {"g": info}, load_settings().metrics, 0, GroupActivity(Activity(0))),
        *monitor_metrics("c", report),
        *incident_metrics("c", {("g", "rebalance_storm", "warning"): 1}, {("chat", "sent"): 1}),
        *step_metrics("c", {"history": Step(1, 1)}),
    ]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"{each.name}{suffix}" for each in metrics for suffix in suffixes.get(each.type, ("",))}


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
