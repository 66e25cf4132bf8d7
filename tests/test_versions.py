"""Goal: versions that belong together are raised together, and nothing names an address of a registry."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree as ET

import pyspark
import pytest

from groupledger.jobs.process import jar_hashes
from groupledger.jobs.process.jar_hashes import differences, ivy_of, list_of, spark_release
from groupledger.jobs.process.jars import BROKERS, jar_folder

ROOT = Path(__file__).parent.parent
LOCKS = ("ask", "writer", "project")


PARTS = ("spark", "s3", "kafka", "kafka-4.4", "spark-4.0", "s3-4.0")


def ivy_versions(name: str) -> dict[str, str]:
    tree = ET.parse(ivy_of(name))  # noqa: S314 - our own file
    return {item.attrib["name"]: item.attrib["rev"] for item in tree.iter("dependency")}


def test_jars_and_packages_are_of_one_version() -> None:
    """Goal: Delta's JAR is its package's, the connector is of pyspark's minor version, and Hadoop's client of S3 is of
    pyspark's Hadoop."""
    jars = ivy_versions("spark")
    assert jars[f"delta-spark_{spark_release()}_2.13"] == version("delta-spark")
    assert jars["spark-sql-kafka-0-10_2.13"].rsplit(".", 1)[0] == spark_release()
    (hadoop,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert hadoop.name == f"hadoop-client-api-{ivy_versions('s3')['hadoop-aws']}.jar"


@pytest.mark.parametrize("part", BROKERS)
def test_the_broker_and_its_tools_are_of_one_version(part: str) -> None:
    """Goal: the oracle's tools read what the broker of the same version writes."""
    assert len(set(ivy_versions(part).values())) == 1


def test_the_lock_holds_what_is_installed() -> None:
    """Goal: the environment that the tests run in is the locked one, and every file is locked by its hash."""
    lock = (ROOT / "requirements" / "project.lock").read_text()
    for name in ("pyspark", "delta-spark", "kafka-python", "great-expectations", "pytest"):
        assert f"{name}=={version(name)} " in lock
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_the_locks_of_the_images_are_of_one_version() -> None:
    """Goal: the packages that are installed for asking, and for writing, have the versions that the tests run with."""
    pins = re.compile(r"^[\w.-]+==\S+(?: ; .*?)?(?= \\$)", re.MULTILINE)
    locks = {name: set(pins.findall((ROOT / "requirements" / f"{name}.lock").read_text())) for name in LOCKS}
    plain = {name: {pin.split(" ")[0] for pin in found} for name, found in locks.items()}
    assert plain["ask"] < plain["writer"] < plain["project"]
    assert not {"pyspark", "pandas", "numpy"} & {pin.split("==")[0] for pin in plain["ask"]}


def test_no_registry_is_named() -> None:
    """Goal: locks, settings and code find their registries by the tools' own means."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    # The kinds of Kubernetes are called by addresses.
    kind = re.compile(r"^apiVersion: .*$", re.MULTILINE)
    address = re.compile(
        r"index[-]url|find[-]links|[/]maven2|[/]simple[/]|:[/]{2}|\b[a-z0-9-]+\.(org|com|net|io)\b(?![.\w-])"
    )
    files = [
        ROOT / name for name in names if name.endswith((".lock", ".xml", ".toml", ".conf", ".yaml", ".properties"))
    ]
    assert files
    assert [str(path) for path in files if address.search(kind.sub("", path.read_text()))] == []


@pytest.mark.parametrize("part", PARTS)
def test_every_jar_is_locked(part: str) -> None:
    """Goal: each JAR that conf/ivy names is in the list of hashes in that version, once, with all that it needs; after
    a change of versions run `make lock-jars`."""
    lines = list_of(part).read_text().splitlines()
    found = [re.fullmatch(r"[0-9a-f]{64}  ([\w.-]+\.jar)", line) for line in lines]
    names = [match[1] for match in found if match is not None]
    assert len(set(names)) == len(lines)
    assert {f"{name}-{revision}.jar" for name, revision in ivy_versions(part).items()} < set(names)


@pytest.mark.parametrize(
    ("installed", "part", "name"),
    [
        ("4.2.0", "spark", "spark"),
        ("4.0.4", "spark", "spark-4.0"),
        ("4.0.4", "s3", "s3-4.0"),
        ("4.0.4", "kafka", "kafka"),
        ("4.0.4", "spark-4.0", "spark-4.0"),
        (None, "spark", "spark"),
    ],
)
def test_the_jars_go_with_the_pyspark(
    installed: str | None, part: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: on a cluster with Spark 4.0, Delta, the connector and Hadoop's client of S3 are those for 4.0."""

    def of_pip(_: str) -> str:
        if installed is None:
            raise PackageNotFoundError
        return installed

    monkeypatch.setattr(jar_hashes, "version", of_pip)
    assert jar_hashes.name_of(part) == name
    assert jar_hashes.ivy_of(part).is_file()


@pytest.mark.java
@pytest.mark.parametrize("part", ["spark", *BROKERS])
def test_the_jars_here_are_the_locked_ones(part: str) -> None:
    """Goal: the JARs that the tests run with are the listed ones."""
    assert differences(jar_folder() / part, part) == []


def test_the_project_has_one_version() -> None:
    """Goal: pyproject.toml, the citation, the chart and the changelog speak of one release."""
    (project,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert f"version: {project}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"appVersion: {project}\n" in (ROOT / "conf" / "deploy" / "chart" / "Chart.yaml").read_text()
    heading = rf"^## {re.escape(project)} - (\d{{4}}-\d\d-\d\d)$"
    (released,) = re.findall(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"date-released: {released}\n" in (ROOT / "CITATION.cff").read_text()
