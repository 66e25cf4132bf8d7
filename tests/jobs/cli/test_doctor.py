"""Goal: the doctor reports each fault with its remedy, and finds no fault on a machine that is set up."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.cli import doctor
from groupledger.jobs.cli.doctor import (
    BAD,
    GOOD,
    UNKNOWN,
    Check,
    diagnose,
    groups,
    jars,
    java_version,
    memory_check,
    setting_checks,
    transactions,
    warehouse_checks,
)
from groupledger.jobs.cli.main import main
from groupledger.jobs.kafka.offsets_topic import TopicRange
from groupledger.jobs.process.jar_hashes import spark_release
from groupledger.jobs.process.settings import load_settings
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.process.settings import Settings

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "86400000", "min.compaction.lag.ms": "0"}


@pytest.mark.parametrize(
    ("text", "state", "finding"),
    [
        ('openjdk version "17.0.13" 2024-10-15', GOOD, "version 17"),
        ('openjdk version "21" 2023-09-19', GOOD, "version 21"),
        ('java version "1.8.0_401"', BAD, "version 8, and Spark needs 17 or 21"),
        ("Error: could not find libjava.so", BAD, "it does not run"),
    ],
)
def test_java(text: str, state: str, finding: str) -> None:
    """Goal: the version is read off what Java itself prints, in the old form and the new."""
    check = java_version(text)
    assert (check.state, check.finding) == (state, finding)
    assert (check.remedy is None) == (state == GOOD)


@pytest.mark.parametrize(("there_mb", "state"), [(4_096, GOOD), (4_095, BAD)])
def test_memory(there_mb: int, state: str) -> None:
    """Goal: the heap and the memory beside it have to fit."""
    assert memory_check("3g", there_mb).state == state
    assert memory_check("3072m", there_mb).state == state


def test_without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Goal: an installation that only asks and serves is fine as it is; the commands that it can't run are reported
    with the remedy."""
    monkeypatch.setattr(doctor, "distributions", list)
    checks = {check.about: check for check in diagnose(load_settings(), str(tmp_path), {})}
    assert {about: check.state for about, check in checks.items()} == {
        **dict.fromkeys(("Python", "disk", "warehouse", "groups"), GOOD),
        "pyspark": UNKNOWN,
    }
    assert "pip install 'groupledger[spark]'" in str(checks["pyspark"].remedy)


def test_logs(tmp_path: Path) -> None:
    """Goal: the logs that a monitor is to import are looked for as it looks for them, and what it could not read is
    named."""
    (tmp_path / "server.log").write_text("")
    (tmp_path / "empty").mkdir()
    settings = load_settings().logs

    def states(**paths: Path) -> list[tuple[str, str]]:
        named = settings.model_copy(update={name: [path] for name, path in paths.items()})
        return [(check.about, check.state) for check in doctor.logs(named)]

    assert states() == []
    # Both kinds of log may lie in one folder.
    assert states(server_logs=tmp_path, request_logs=tmp_path) == [("request log", UNKNOWN), ("server log", GOOD)]
    assert states(server_logs=tmp_path / "empty") == [("server log", UNKNOWN)]
    assert states(request_logs=tmp_path / "gone") == [("request log", BAD)]


def test_jars(tmp_path: Path) -> None:
    """Goal: each JAR that is missing is named."""
    assert "spark-sql-kafka-0-10 missing" in jars(tmp_path).finding
    assert f"delta-spark_{spark_release()}_2.13" in jars(tmp_path).finding
    assert jars(tmp_path).remedy == "run `groupledger setup`"


def test_jars_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: JARs that this user may not read are a finding with its remedy, and don't end the doctor."""

    def deny(folder: Path, pattern: str) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "glob", deny)
    check = jars(tmp_path / "the jars" / "spark")
    assert (check.state, check.remedy) == (BAD, f"let it: chmod -R a+rX '{tmp_path}/the jars'")


def test_warehouse(tmp_path: Path) -> None:
    """Goal: a place that can be written is left as it was, without folders of the doctor's user; one that can't is
    named."""
    assert [check.state for check in warehouse_checks(str(tmp_path / "new" / "ledger"))] == [GOOD, GOOD]
    assert list(tmp_path.iterdir()) == []
    state = tmp_path / "old" / "_groupledger"
    state.mkdir(parents=True)
    assert [check.state for check in warehouse_checks(str(tmp_path / "old"))] == [GOOD, GOOD]
    assert list(state.iterdir()) == []
    (tmp_path / "file").write_text("")
    *_, bad = warehouse_checks(str(tmp_path / "file" / "below"))
    assert bad.state == BAD
    assert bad.finding.endswith("Not a directory")


def test_clusters_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: without an address, each cluster of the settings is looked at, with its own way to log in; with several of
    them a check names its cluster."""
    asked = []

    def ask(settings: Settings, place: str) -> list[Check]:
        asked.append((settings.kafka.security_protocol, place))
        return [Check("brokers", BAD, "none answers", "start one")]

    monkeypatch.setattr(doctor, "cluster_checks", ask)
    conf = tmp_path / "ledger.yaml"
    west = "{bootstrap_servers: 'west:2', kafka: {security_protocol: SSL}}"
    conf.write_text(f"clusters: {{east: {{bootstrap_servers: 'east:1'}}, west: {west}}}")

    def about(*arguments: str) -> list[str]:
        asked.clear()
        answer = CliRunner().invoke(main, ["doctor", "--conf", str(conf), "--json", *arguments])
        assert answer.exit_code == 1
        checks = [json.loads(line) for line in answer.stdout.splitlines()]
        return [check["about"] for check in checks if check["finding"] == "none answers"]

    assert about() == ["east: brokers", "west: brokers"]
    assert asked == [("PLAINTEXT", "east:1"), ("SSL", "west:2")]
    assert about("--cluster", "west") == ["brokers"]
    assert asked == [("SSL", "west:2")]
    assert about("--bootstrap-servers", "other:3") == ["brokers"]
    assert asked == [("PLAINTEXT", "other:3")]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_each_finding_when_it_is_known(form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a finding is printed before the next check begins, which may wait for a broker; in a pipe it is a line, and
    never cut, however long it is. What it quotes is no control sequence of the terminal."""
    printed = io.StringIO()
    long = "no answer from \x1b[2J " + "a-long-name " * 40 + "the end"

    def ask(*_: object) -> Iterator[Check]:
        yield Check("brokers", BAD, long, "start one")
        lines = printed.getvalue().splitlines()
        assert "the end" in lines[-1]
        assert "start one" in lines[-1]
        yield Check("Read", UNKNOWN, "it is not known")

    monkeypatch.setattr(doctor, "cluster_checks", ask)
    monkeypatch.setattr(sys, "stdout", printed)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--bootstrap-servers", "b:1", *form])
    assert ended.value.code == 1
    *_, brokers, read = printed.getvalue().splitlines()
    assert "\x1b" not in brokers
    if not form:
        assert brokers.startswith("bad      brokers: no answer")
        assert read == "unknown  Read: it is not known"


def test_a_report_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a report to attach to a bug has versions and results, and no name of a host, a folder, a group or a
    cluster."""
    bad = Check("brokers", BAD, "no answer from secret-host", "ask secret-host")
    monkeypatch.setattr(doctor, "cluster_checks", lambda *_: [bad])
    of_both = "{bootstrap_servers: 'secret-host:1'}"
    conf = tmp_path / "secret.yaml"
    conf.write_text(f"clusters: {{secret-east: {of_both}, secret-west: {of_both}}}")
    arguments = ["doctor", "--report", "--conf", str(conf), "--warehouse", str(tmp_path / "secret-folder")]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 1
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("groupledger 0.")
    assert lines[1].startswith("Python: good, 3.")
    assert lines[-4:] == ["groups: good", "brokers: bad", "groups: good", "brokers: bad"]
    assert "secret" not in answer.stdout
    assert str(tmp_path) not in answer.stdout


def test_groups_in_trouble(tmp_path: Path) -> None:
    """Goal: a group that a step can't judge is named with the reason and the remedy; one that is over is not, and a
    warehouse without the table is fine. What a client wrote is no control sequence of the terminal."""
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert groups(tables).state == GOOD
    of_both = {"step": "history", "since": AT, "reason": "KeyError: 'epoch' (fold.py, line 7)"}
    over = {**of_both, "group_id": "repaired", "is_open": 0, "ended_at": AT + MINUTE}
    write(tmp_path, "troubles", {**of_both, "group_id": "a\x1b[2J", "is_open": 1}, over)
    check = groups(ClusterRows(str(tmp_path), CLUSTER))
    assert check.state == BAD
    assert "1 group can't be judged" in check.finding
    assert "(history: KeyError: 'epoch' (fold.py, line 7))" in check.finding
    assert "\x1b" not in check.finding
    assert "repaired" not in check.finding
    assert "their records are kept" in str(check.remedy)


def test_settings_of_the_cluster() -> None:
    """Goal: settings that destroy offsets are found; settings that we may not see are unknown, and no fault."""
    broker = {"offsets.retention.minutes": "10080"}
    found = list(setting_checks(COMPACTED, broker))
    assert [check.state for check in found] == [GOOD, GOOD]
    assert "tombstones stay for 24 hours" in found[0].finding
    assert "may be removed at any time" in found[0].finding
    (lagging, _) = setting_checks({**COMPACTED, "min.compaction.lag.ms": "600000"}, broker)
    assert "may be removed 10 minutes after they were written" in lagging.finding
    assert "7 days" in found[1].finding
    bad = list(setting_checks({**COMPACTED, "cleanup.policy": "delete"}, {"offsets.retention.minutes": "1440"}))
    assert [check.state for check in bad] == [BAD, BAD]
    assert [check.state for check in setting_checks(None, None)] == [UNKNOWN, UNKNOWN]


def test_transactions() -> None:
    """Goal: an open transaction holds up what comes after it, and is reported with its partition."""
    ends = {0: 10, 1: 10}
    assert transactions(TopicRange({}, ends, ends)).state == GOOD
    waiting = transactions(TopicRange({}, {0: 10, 1: 7}, ends))
    assert waiting.state == BAD
    assert "partitions 1:" in waiting.finding


@pytest.mark.java
def test_the_command(tmp_path: Path) -> None:
    """Goal: on a machine that is set up nothing is bad; a broker that is away is exit code 1 with the remedy."""
    conf = tmp_path / "conf.yaml"
    conf.write_text("kafka: {request_timeout_ms: 1000}")
    arguments = ["doctor", "--conf", str(conf), "--warehouse", str(tmp_path / "w"), "--json"]
    result = CliRunner().invoke(main, arguments)
    checks = {check["about"]: check for check in map(json.loads, result.stdout.splitlines())}
    assert [check for check in checks.values() if check["state"] != GOOD] == []
    assert {"Python", "Java", "JARs", "memory", "disk", "warehouse", "pyspark"} <= set(checks)
    away = CliRunner().invoke(main, [*arguments, "--bootstrap-servers", "127.0.0.1:1"])
    assert away.exit_code == 1
    bad = [check for check in map(json.loads, away.stdout.splitlines()) if check["state"] == BAD]
    assert [check["about"] for check in bad] == ["brokers"]
    assert "check --bootstrap-servers" in bad[0]["remedy"]
