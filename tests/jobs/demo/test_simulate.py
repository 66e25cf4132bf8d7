"""Goal: the other jobs, and the tests of the ledger, can read a simulated cluster's files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.simulate import CAPTURE_COLUMNS, TABLES_OF_TRUTH, scenario_named, simulate
from groupledger.jobs.ingest.capture import read_manifest
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.words import Completeness
from lab.warehouses.ledgers import coverage, ingest, positions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCENARIO = SCENARIOS["transactional-commits"]


def say(_: str) -> None:
    """Takes the lines of progress; a slow machine may print some."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("simulate") / "new" / "out"
    simulate(SCENARIO, 7, directory, 2, None, say)
    return directory


def contents(directory: Path) -> dict[str, object]:
    """What every file holds, by name."""
    found: dict[str, object] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        elif path.is_file():
            found[name] = path.read_text(encoding="utf-8")
    return found


def test_same_seed_same_files(directory: Path, tmp_path: Path) -> None:
    """Goal: all files hold the same a second time, and others with another seed."""
    simulate(SCENARIO, 7, tmp_path / "again", 2, None, say)
    simulate(SCENARIO, 8, tmp_path / "other", 2, None, say)
    first = contents(directory)
    assert first == contents(tmp_path / "again")
    other = contents(tmp_path / "other")
    assert set(first) == set(other)
    names = [name for name in first if ("truth" in name or "capture" in name) and first[name]]
    assert all(first[name] != other[name] for name in names)


def test_capture_and_manifest(directory: Path) -> None:
    """Goal: the columns of Spark's Kafka source; the manifest covers every row of every partition, and is complete."""
    table = pq.read_table(directory / "capture")
    assert table.schema == CAPTURE_COLUMNS
    rows = table.to_pylist()
    for row in rows:
        decode_record(row["key"], row["value"])
    manifest = read_manifest(LocalStorage(directory / "capture"))
    assert manifest is not None
    assert manifest.completeness == Completeness.COMPLETE
    assert manifest.identity.partition_count == len(manifest.to_offsets) == 50
    assert all(0 <= row["offset"] < manifest.to_offsets[row["partition"]] for row in rows)
    places = [(row["partition"], row["offset"]) for row in rows]
    assert len(set(places)) == len(places)
    assert manifest.began_at_ms < min(row["timestamp"].timestamp() * 1_000 for row in rows)


def test_truth_is_keyed_to_the_capture(directory: Path) -> None:
    """Goal: every generation with an offset is a record of the capture at that place, with the same members."""
    records = {
        (row["partition"], row["offset"]): decode_record(row["key"], row["value"])
        for row in pq.read_table(directory / "capture").to_pylist()
    }
    generations = pq.read_table(directory / "truth" / "generations.parquet").to_pylist()
    assert len(generations) > 4
    for row in generations:
        value = records[row["kafka_partition"], row["kafka_offset"]].value
        assert value is not None
        assert (value["generation"], value["protocol"], value["leader"]) == (
            row["generation"],
            row["protocol"],
            row["leader"],
        )
        assert [member["member_id"] for member in value["members"]] == row["member_ids"]


def test_samples_logs_and_summary(directory: Path) -> None:
    """Goal: a sampling round begins with the offsets topic; lines and counts are those of the run."""
    watermarks = pq.read_table(directory / "watermarks").to_pylist()
    first_round = [row for row in watermarks if row["sampled_at_ms"] == watermarks[0]["sampled_at_ms"]]
    assert [row["topic"] for row in first_round[:50]] == ["__consumer_offsets"] * 50
    assert all(row["log_start_offset"] <= row["last_stable_offset"] <= row["high_watermark"] for row in watermarks)
    states = {row["state"] for row in pq.read_table(directory / "group_states").to_pylist()}
    assert "Stable" in states
    summary = json.loads((directory / "scenario.json").read_text())
    assert (summary["scenario"], summary["seed"], summary["counts"]["groups"]) == (SCENARIO.name, 7, 2)
    for name in TABLES_OF_TRUTH:
        assert pq.read_table(directory / "truth" / f"{name}.parquet").num_rows == summary["counts"][name]
    assert summary["counts"]["records"] == pq.read_table(directory / "capture").num_rows
    requests = [line for path in (directory / "request-log").iterdir() for line in path.read_text().splitlines()]
    assert len(requests) > 1_000
    assert all(" DEBUG Completed request:{" in line for line in requests)
    events = [line for path in (directory / "server-log").iterdir() for line in path.read_text().splitlines()]
    stabilized = [
        row for row in pq.read_table(directory / "truth" / "generations.parquet").to_pylist() if row["leader"]
    ]
    assert sum("Stabilized group" in line for line in events) == len(stabilized)


def test_ingest(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    """Goal: `ingest --capture` takes it as it is: all rows decoded, every partition covered as complete."""
    totals = ingest(spark, tmp_path / "warehouse", directory / "capture")
    places = [(row["partition"], row["offset"]) for row in pq.read_table(directory / "capture").to_pylist()]
    assert (totals.rows, totals.quarantined) == (len(places), 0)
    assert positions(tmp_path / "warehouse") == sorted(places)
    assert {completeness for *_, completeness in coverage(tmp_path / "warehouse")} == {Completeness.COMPLETE}


def test_refusals(tmp_path: Path) -> None:
    """Goal: an unknown scenario, a directory in use and too short a time are one sentence each, and write nothing."""
    with pytest.raises(InputError, match="no scenario of that name"):
        scenario_named("nothing")
    (tmp_path / "file").write_text("mine")
    for directory in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="not an empty directory"):
            simulate(SCENARIO, 7, directory, None, None, say)
    with pytest.raises(InputError, match="give --hours"):
        simulate(SCENARIO, 7, tmp_path / "new", None, 0.1, say)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--list"], 0, "rolling-restart-static"),
        (["--scenario", "crash"], 2, "Give --scenario and --out, or --list."),
        (["--scenario", "nothing", "--out", "new"], 2, "groupledger: There is no scenario of that name"),
        (["--scenario", "crash", "--out", "new", "--groups", "0"], 2, "Invalid value for '--groups'"),
    ],
)
def test_command(arguments: list[str], code: int, text: str) -> None:
    """Goal: the list names every scenario; a wrong option is refused in a sentence."""
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert (result.exit_code, text in result.output) == (code, True)
    if code == 0:
        assert [line.split()[0] for line in result.output.splitlines()] == [*SCENARIOS]
