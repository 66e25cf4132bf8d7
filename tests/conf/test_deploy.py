"""Goal: what is shipped for deployment is whole in itself, and says the same as what it was made from."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from groupledger.jobs.cli.monitor import METRICS_PORT

CONF = resources.files("groupledger.conf")
TOP = Path(__file__).parents[2]
PORT = re.compile(r"(?:--metrics-port[ =]|(?:containerPort|name: metrics, port): |EXPOSE |127\.0\.0\.1:)(\d+)")
OTHERS = {8080}  # of `serve`


def test_the_rules_of_the_chart() -> None:
    """Goal: the chart has the alert rules themselves. A packaged chart can't follow a link out of its folder, so it has
    a copy: after a change, copy `conf/prometheus/groupledger.rules.yaml` over it."""
    shipped = CONF.joinpath("deploy/chart/groupledger.rules.yaml").read_text()
    (group,) = yaml.safe_load(shipped)["groups"]
    assert {"GroupledgerGone", "ConsumerGroupStopped"} <= {rule["alert"] for rule in group["rules"]}
    assert shipped == CONF.joinpath("prometheus/groupledger.rules.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "times"),
    [("README.md", 1), ("conf/deploy/Dockerfile", 2), ("conf/deploy/chart/templates/monitor.yaml", 3)],
)
def test_one_port_for_metrics(name: str, times: int) -> None:
    """Goal: wherever the port of the metrics is named, it is the command's own."""
    found = [int(port) for port in PORT.findall((TOP / name).read_text())]
    assert [port for port in found if port not in OTHERS] == [METRICS_PORT] * times


def test_the_images_stand_on_a_digest() -> None:
    """Goal: no image is built on whatever a name means that day: every base is a stage above it, or the one whose digest
    has to be given, for which no default is written down."""
    text = (TOP / "conf/deploy/Dockerfile").read_text()
    found = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert len(found) == text.count("\nFROM ")
    stages = {name for _, name in found}
    assert {base for base, _ in found} - stages == {"python@${PYTHON_DIGEST}"}
    assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG PYTHON_DIGEST"]
