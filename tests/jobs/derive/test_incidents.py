"""Goal: `incidents` follows from the tables, before a log is imported and after, and is shown in a way to act on."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ask.incidents import lines
from groupledger.jobs.cli.main import main
from groupledger.jobs.derive import commit_steps, incident_tables
from groupledger.jobs.derive.commit_steps import commit_steps_until, drop_commit_steps
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse import delta_log
from groupledger.jobs.warehouse.known_until import noted_until
from groupledger.jobs.warehouse.retention import Floor, with_floors
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.tables import every_row
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.words import Source
from groupledger.transforms.incidents.incidents import STEP_COLUMNS
from groupledger.transforms.incidents.rules import Rules
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.scatter import scatter
from tests.jobs.simulated_log import HOUR_MS, REQUESTS_OF
from tests.jobs.warehouses import SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.jobs.simulated_log import Simulated

    Row = dict[str, Any]

# Of the scenarios in the warehouse, what happens to whom: kinds by evidence, from the topic alone and with the logs.
REFUSED = {"fenced_instance", "unknown_member", "illegal_generation"}


def update(spark: SparkSession, warehouse: Path) -> list[Row]:
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        update_incidents(ledger)
    table = spark.read.format("delta").load(str(warehouse / INCIDENTS.name))
    rows: list[Row] = table.orderBy("incident_id").toArrow().to_pylist()
    return rows


@pytest.fixture(scope="module")
def warehouse(filled_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("incidents") / "warehouse"
    shutil.copytree(filled_warehouse, copied)
    return copied


@pytest.fixture(scope="module")
def found(spark: SparkSession, simulated: Simulated, warehouse: Path) -> dict[str, list[Row]]:
    """The rows from the topic alone, with the logs, and once more: with every table in several files, and as if there
    were too many rows to read without Spark, of too many groups to name."""
    before = update(spark, warehouse)
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        sources = LogSources([simulated.broker_logs / "request-log"], [simulated.broker_logs / "server-log"])
        import_logs(ledger, load_settings().logs, sources, threading.Event())
    with_logs = update(spark, warehouse)
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        scatter(ledger)
    in_files = update(spark, warehouse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "FEW_ROWS", -1)
        patch.setattr(incident_tables, "NAMED_MAX", 0)
        (warehouse / f"_groupledger/{SIMULATED}/judged_groups.json").unlink()
        return {"topic": before, "logs": with_logs, "files": in_files, "again": update(spark, warehouse)}


def test_until_when_they_were_looked_for(found: dict[str, list[Row]], warehouse: Path) -> None:
    """Goal: the search has noted until when the topic was known to it."""
    until = noted_until(LocalStorage(warehouse), SIMULATED, Source.INCIDENTS)
    assert (bool(found["topic"]), until) == (True, instant_of_ms(BEGAN_AT_MS + HOUR_MS))


def test_from_the_topic_alone(found: dict[str, list[Row]]) -> None:
    """Goal: without logs every incident is inferred, the planted expiries and the flapping member among them."""
    assert {row["evidence"] for row in found["topic"]} == {"inferred"}
    kinds = {row["kind"] for row in found["topic"]}
    assert {"session_expired", "zombie_commit_suspected", "member_flapping"} <= kinds
    assert not kinds & REFUSED


def test_with_the_logs(found: dict[str, list[Row]], simulated: Simulated) -> None:
    """Goal: every refused request of the truth is in an incident, which replaces the guess about it."""
    errors = {"UNKNOWN_MEMBER_ID": "unknown_member", "FENCED_INSTANCE_ID": "fenced_instance"}
    errors |= {"ILLEGAL_GENERATION": "illegal_generation"}
    expected = Counter(
        (row.group_id, errors[row.error])
        for row in simulated.truth.rejections
        if row.error in errors and row.group_id == REQUESTS_OF
    )
    rows: Counter[Any] = Counter()
    for row in found["logs"]:
        if row["kind"] in REFUSED:
            assert row["evidence"] == "observed"
            rows[row["group_id"], row["kind"]] += row["occurrences"]
    assert rows == expected
    evidence = {row["evidence"] for row in found["logs"] if row["kind"] == "session_expired"}
    assert "observed" in evidence <= {"observed", "logged"}  # logged: a coordinator wrote it, and no record confirms it


def test_a_run_with_nothing_new_changes_nothing(found: dict[str, list[Row]]) -> None:
    """Goal: the same rows again, ids included, each key once."""
    assert found["again"] == found["files"] == found["logs"]
    ids = [row["incident_id"] for row in found["logs"]]
    assert len(set(ids)) == len(ids) > 0


def test_steps_however_much_is_kept(spark: SparkSession, warehouse: Path, found: object) -> None:
    """Goal: the steps of all commits are the same with nothing kept, with more and more of them kept, and with a file
    that is older than the table."""
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        records = ledger.rows(COORDINATOR_RECORDS).agg(F.min("kafka_timestamp"), F.max("kafka_timestamp"))
        first, last = records.select(*(F.unix_millis(name) for name in records.columns)).collect()[0]
        name = f"_groupledger/{SIMULATED}/commit_steps.json"
        reported, files = [], []
        drop_commit_steps(ledger)
        for part in (0, 2, 3, 3, 4):
            with pytest.MonkeyPatch.context() as patch:
                settled_ms = part and first + (last - first) * part // 4
                patch.setattr(commit_steps, "settled_ms", lambda _, at_ms=settled_ms: at_ms)
                patch.setattr(commit_steps, "KEPT_EVERY_MS", 60_000)
                steps = commit_steps_until(ledger, last, Rules(commit_gap_ms=10_000)).of(every_row)
            rows = steps.select(*STEP_COLUMNS, "is_suspect").collect()
            reported.append(Counter(map(tuple, rows)))
            files.append(ledger.storage.read(name))
            if len(files) == 3:
                ledger.storage.write(name, files[1] or "")
        drop_commit_steps(ledger)
    assert [each == reported[0] for each in reported] == [True] * 5
    assert len(reported[0]) > 50
    assert files[0] is None
    kept = [json.loads(each or "") for each in files[1:]]
    assert [each["number"] - kept[0]["number"] for each in kept] == [0, 1, 2, 3]
    assert [each["until_ms"] - first for each in kept] == [(last - first) * part // 4 for part in (2, 3, 3, 4)]


def test_last_commits_behind_retention(spark: SparkSession, warehouse: Path, found: object, tmp_path: Path) -> None:
    """Goal: the ledger knows that nothing followed a commit, though retention has removed its record, and drops its
    kept rows; a commit whose record is still there counts once."""
    copied = tmp_path / "warehouse"
    shutil.copytree(warehouse, copied)
    with open_test_ledger(spark, copied, SIMULATED) as ledger:
        last_ms = ledger.rows(COORDINATOR_RECORDS).agg(F.unix_millis(F.max("kafka_timestamp"))).collect()[0][0]

        def open_steps() -> DataFrame:
            steps = commit_steps_until(ledger, last_ms, Rules(commit_gap_ms=10_000)).of(every_row)
            return steps.where("is_open = 1").select(*STEP_COLUMNS)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commit_steps, "settled_ms", lambda _: last_ms)
            patch.setattr(commit_steps, "KEPT_EVERY_MS", 60_000)
            drop_commit_steps(ledger)
            expected = open_steps().collect()
            offsets = sorted(row["kafka_offset"] for row in expected)
            first, second = offsets[len(offsets) // 2], offsets[len(offsets) // 4]
            ends = ledger.rows(COORDINATOR_RECORDS).select("kafka_partition").distinct().collect()
            floors = {SIMULATED: {row[0]: Floor(first, last_ms) for row in ends}}
            ledger.create(COORDINATOR_RECORDS)
            ledger.commits.set_properties(
                COORDINATOR_RECORDS, lambda reported: with_floors(reported, ledger.storage, floors)
            )
            ledger.commits.delete(COORDINATOR_RECORDS, f"kafka_offset < {second}")
            drop_commit_steps(ledger)
            reported = [open_steps().collect() for _ in range(2)]
    removed = [row for row in expected if row["kafka_offset"] < second]
    assert removed
    for rows in reported:
        assert sorted(str(row) for row in rows if row["kafka_offset"] < second) == sorted(map(str, removed))
        assert sorted(row["kafka_offset"] for row in rows) == offsets


def test_the_command(spark: SparkSession, warehouse: Path, found: dict[str, list[Row]]) -> None:
    """Goal: filters by group, kind, severity and time; the table and JSON say the same."""

    def ask(*options: str) -> str:
        given = ["incidents", "--warehouse", str(warehouse), "--cluster", SIMULATED, *options]
        return CliRunner().invoke(main, given, catch_exceptions=False).stdout

    answers = [json.loads(line) for line in ask("--json", "--severity", "error").splitlines()]
    assert sorted(row["incident_id"] for row in answers) == sorted(
        row["incident_id"] for row in found["logs"] if row["severity"] == "error"
    )
    (one,) = [row for row in answers if row["kind"] == "fenced_instance"]
    shown = ask("--group", one["group_id"], "--kind", "fenced_instance", "--since", "2026-01-05T00:00:00Z")
    assert "ERROR  fenced_instance" in shown
    assert "change: group.instance.id" in shown
    assert ask("--kind", "fenced_instance", "--since", "2027-01-01T00:00:00Z") == ""


def test_names_can_do_nothing_to_a_terminal() -> None:
    """Goal: a client id with escape sequences, line breaks and a right-to-left mark comes out as text."""
    at = datetime(2026, 1, 5, tzinfo=timezone.utc)
    row = {
        **dict.fromkeys(INCIDENTS.schema.names),
        "first_seen_at": at,
        "last_seen_at": at,
        "severity": "error",
        "kind": "unknown_member",
        "is_open": True,
        "group_id": "g\x1b[2J",
        "episode_id": "abc",
        "evidence": "observed",
        "occurrences": 1,
        "is_ambiguous": False,
        "probable_root": "unknown",
        "explanation": "evil\x1b]0;owned\x07\n\u202e was refused. " + "word " * 60,
    }
    text = click.unstyle("\n".join(lines(row)))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\x1b]0;owned\\x07\\n\\u202e" in text
    assert max(map(len, text.splitlines())) < 130
