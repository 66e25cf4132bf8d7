"""Goal: the files for deployments are complete in themselves, and say the same as their sources."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from groupledger.jobs.cli.monitor import METRICS_PORT
from groupledger.jobs.gate.server import BACKLOG
from groupledger.jobs.process.settings import load_settings

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


def test_files_for_all_connections() -> None:
    """Goal: the unit of the pages lets the process open what its connections take."""
    unit = CONF.joinpath("deploy/groupledger-serve.service").read_text()
    (files,) = (int(line.removeprefix("LimitNOFILE=")) for line in unit.splitlines() if line.startswith("LimitNOFILE="))
    assert files >= 2 * load_settings().serve.connections_max + BACKLOG


@pytest.mark.parametrize(
    ("name", "times"),
    [("README.md", 1), ("conf/deploy/Dockerfile", 2), ("conf/deploy/chart/templates/monitor.yaml", 3)],
)
def test_one_port_for_metrics(name: str, times: int) -> None:
    """Goal: every place that names the port of the metrics has the command's own."""
    found = [int(port) for port in PORT.findall((TOP / name).read_text())]
    assert [port for port in found if port not in OTHERS] == [METRICS_PORT] * times


def test_the_images_stand_on_a_digest() -> None:
    """Goal: no image is built on whatever a name means that day: every base is another stage, or the one whose digest
    has to be given."""
    text = (TOP / "conf/deploy/Dockerfile").read_text()
    found = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert len(found) == text.count("\nFROM ")
    stages = {name for _, name in found}
    assert {base for base, _ in found} - stages == {"python@${PYTHON_DIGEST}"}
    assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG PYTHON_DIGEST"]


UNITS = ("groupledger", "groupledger-monitor", "groupledger-serve")
HARDENED = {
    *("NoNewPrivileges=yes", "CapabilityBoundingSet=", "PrivateDevices=yes", "PrivateTmp=yes", "ProtectHome=yes"),
    *("ProtectSystem=strict", "RestrictNamespaces=yes", "RestrictSUIDSGID=yes", "SystemCallFilter=@system-service"),
    "LimitCORE=0",
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_may_take_little(name: str) -> None:
    """Goal: no unit has rights beyond its need, or memory, tasks and files without a limit; a unit that only reads may
    write nowhere."""
    lines = set((TOP / f"conf/deploy/{name}.service").read_text().splitlines())
    assert lines >= HARDENED
    assert {line.split("=")[0] for line in lines} >= {"LimitNOFILE", "MemoryMax", "TasksMax"}
    assert ("ReadWritePaths=/srv/groupledger" in lines) == (name != "groupledger-serve")


@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes-maintain.yaml"])
def test_a_pod_may_take_little(name: str) -> None:
    """Goal: the pod of a plain manifest runs without rights, writes into its scratch folder only, and has limits."""
    job = yaml.safe_load((TOP / "conf/deploy" / name).read_text())
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {*container["resources"]["requests"]} == {*container["resources"]["limits"]} >= {"cpu", "memory"}
    assert [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["/tmp"]  # noqa: S108
    assert [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume] == [{"sizeLimit": "20Gi"}]


def test_the_pods_of_the_chart_may_take_little() -> None:
    """Goal: the same for the chart (`make chart` renders it, with helm, which CI has not)."""
    templates = TOP / "conf/deploy/chart/templates"
    helpers = (templates / "_helpers.tpl").read_text()
    for line in (
        *("runAsNonRoot: true", "seccompProfile: {type: RuntimeDefault}", "allowPrivilegeEscalation: false"),
        *(
            "readOnlyRootFilesystem: true",
            "capabilities: {drop: [ALL]}",
            "emptyDir: {sizeLimit: {{ .scratch | quote }}}",
        ),
    ):
        assert line in helpers
    values = yaml.safe_load((TOP / "conf/deploy/chart/values.yaml").read_text())
    for name in ("monitor", "serve"):
        text = (templates / f"{name}.yaml").read_text()
        assert 'include "groupledger.security" .' in text
        assert 'include "groupledger.container" .' in text
        assert "automountServiceAccountToken: false" in text
        resources_of = values[name]["resources"]
        assert {*resources_of["requests"]} == {*resources_of["limits"]} == {"cpu", "memory", "ephemeral-storage"}
        assert values[name]["scratch"]
