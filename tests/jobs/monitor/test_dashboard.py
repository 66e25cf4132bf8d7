"""Goal: the dashboard and the alert rules ask only for metrics that are served, by labels that they have."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from groupledger.jobs.monitor.metric_list import METRICS
from tools.surface import served_metrics

CASES = Path(__file__).parents[2] / "conf" / "prometheus" / "groupledger.test.yaml"
METRIC = re.compile(r"\b(?:kafka|groupledger)_\w+")
LABELS = {label for each in METRICS for label in each.labels} | {"le"}


def served() -> set[str]:
    """The names of all samples, with the suffixes of histograms."""
    suffixes = {"histogram": ("_bucket", "_sum", "_count")}
    return {f"{each.name}{suffix}" for each in METRICS for suffix in suffixes.get(each.type, ("",))}


def test_list_is_what_is_served() -> None:
    """Goal: the list has every metric, with its type, its labels and a help of its own; the JVM's need one."""
    found = {
        f"{each.name}_total" if each.type == "counter" else each.name: (
            each.type,
            {label for sample in each.samples for label in sample.labels} - {"le"},
            each.documentation,
        )
        for each in served_metrics()
    }
    listed = {each.name: (each.type, {*each.labels}, each.help) for each in METRICS}
    assert found.keys() == {name for name in listed if not name.startswith("jvm_")}
    for name, (kind, labels, text) in found.items():
        assert (kind, text) == (listed[name][0], listed[name][2])
        assert labels in (listed[name][1], set())  # without a sample there are no labels to see
    assert len({each.help for each in METRICS}) == len(METRICS)


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


def test_the_cases_expect_the_words_of_the_rules() -> None:
    """Goal: a rule whose words change without its case is found without promtool."""
    words = {rule["alert"]: rule["annotations"] for rule in rules()}
    played = yaml.safe_load(CASES.read_text())["tests"]
    for case in (each for group in played for each in group["alert_rule_test"]):
        for expected in case["exp_alerts"]:
            said = {name: filled(text, expected["exp_labels"]) for name, text in words[case["alertname"]].items()}
            known = {name: text for name, text in said.items() if "{{" not in text}
            assert known.items() <= expected["exp_annotations"].items()


def filled(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


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
