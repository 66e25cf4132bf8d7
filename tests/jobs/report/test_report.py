"""Goal: `groupledger report` writes what the ledger holds into a page, in one step, and says what it does not know."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.report.report import PERIOD, begin_of_period, write_whole
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from tests.jobs.report.report_pages import groups_in
from tests.transforms.history.history_frames import (
    CLUSTER,
    START_MS,
    compacted_group,
    cooperative_group,
    emptied_group,
    frames,
    simple_group,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def save(spark: SparkSession, warehouse: str, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    arrow = pa.Table.from_pylist([{"cluster": CLUSTER, **row} for row in rows], schema=arrow_schema(table.schema))
    frame = spark.createDataFrame(arrow, table.schema)
    frame.write.format("delta").partitionBy(*table.partition_columns).save(f"{warehouse}/{table.name}")


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The history of four groups, without lag, incidents and statistics."""
    warehouse = str(tmp_path_factory.mktemp("report"))
    for table, rows in frames(spark, cooperative_group(), compacted_group(), simple_group(), emptied_group()).items():
        rows.write.format("delta").partitionBy(*table.partition_columns).save(f"{warehouse}/{table.name}")
    save(spark, warehouse, CONNECT_ASSIGNMENTS, [])
    return warehouse


def run(warehouse: str, file: Path, *arguments: str) -> Result:
    options = ["--warehouse", warehouse, "--cluster", CLUSTER, "--out", str(file), *arguments]
    result = CliRunner().invoke(main, ["report", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def test_page_of_a_history(warehouse: str, tmp_path: Path) -> None:
    """Goal: the page has all groups with their history; values without a table are shown as unknown, and not as
    zero."""
    file = tmp_path / "report.html"
    result = run(warehouse, file)
    assert result.exit_code == 0, result.stderr
    page = file.read_text(encoding="utf-8")
    groups = groups_in(page)
    assert set(groups) == {"g1", "old", "simple", "emptied"}
    assert "has no table of lag, incidents" in page
    assert "It was not sampled." in groups["g1"]
    assert groups["g1"].count(" to 2</td>") == 1
    assert "None." in groups["simple"]
    assert 'class="owner h' in groups["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_page_with_lag_and_incidents(spark: SparkSession, warehouse: str, tmp_path: Path) -> None:
    """Goal: lag, incidents and statistics are reported where they are; a group and a period can be chosen."""
    lag: dict[str, Any] = {"group_id": "g1", "topic": "orders", "status": "growing", "flags": [], "owner": "b"}
    times: list[dict[str, Any]] = [{"sampled_at": at(second), "sample_date": START.date()} for second in (1, 2, 70)]
    numbers: list[dict[str, Any]] = [
        {"partition": 0, "lag": 5, "lag_seconds": 2.5},
        {"partition": 1, "lag": None, "lag_seconds": None},
    ]
    incident: dict[str, Any] = {"group_id": "g1", "kind": "offset_rewind", "severity": "error", "evidence": "inferred"}
    incident |= {"first_seen_at": at(3), "last_seen_at": at(4), "occurrences": 2, "explanation": "It went back."}
    incident |= {"episode_id": "e", "confidence": 0.95}
    after = {**incident, "incident_id": "2", "kind": "session_expired", "first_seen_at": at(200)}
    suspected = {**incident, "incident_id": "3", "episode_id": "z", "kind": "zombie_commit_suspected"}
    suspected["severity"] = "info"
    added: dict[Table, list[dict[str, Any]]] = {
        LAG: [{**lag, **each, **number} for each in times for number in numbers],
        INCIDENTS: [{**incident, "incident_id": "1"}, {**after, "last_seen_at": at(300)}, suspected],
    }
    sampled = str(shutil.copytree(warehouse, tmp_path / "warehouse"))
    for table, rows in added.items():
        save(spark, sampled, table, rows)
    file = tmp_path / "report.html"
    file.write_text("an older one")
    until = at(100).isoformat()
    result = run(sampled, file, "--group", "g1", "--since", START.isoformat(), "--until", until)
    assert result.exit_code == 0, result.stderr
    page = file.read_text(encoding="utf-8")
    ((name, group),) = groups_in(page).items()
    assert name == "g1"
    assert len(re.findall(r'<td class="n">5</td><td class="n">1</td></tr>', group)) == 3  # a row for each round
    assert '<polyline class="lag"' in group
    assert '<span class="badge error">error</span>' in page
    assert '<b class="error">offset_rewind</b>' in group
    for text in (page, group):
        assert "It went back." in text
        assert "session_expired" not in text
        assert "zombie_commit_suspected" not in text  # which nobody has asked for
    assert '<td class="growing" data-col="Status">growing</td>' in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--group", "nobody"), "knows nothing of the group nobody"),
        (("--since", "2026-01-02", "--until", "2026-01-01"), "period is empty"),
    ],
)
def test_refused(warehouse: str, tmp_path: Path, arguments: Sequence[str], sentence: str) -> None:
    """Goal: an unknown group and an empty period are refused, and no file is left."""
    result = run(warehouse, tmp_path / "report.html", *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_target_is_checked_first(warehouse: str, tmp_path: Path) -> None:
    """Goal: a target that is a directory, or that lies in no directory, is refused."""
    for file, sentence in ((tmp_path, "is a directory"), (tmp_path / "none" / "report.html", "There is no directory")):
        result = run(warehouse, file)
        assert result.exit_code == 2
        assert sentence in " ".join(result.stderr.split())


def test_write_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a page that can't be written leaves the older one as it was, and nothing beside it."""
    file = tmp_path / "report.html"
    write_whole(file, ["o", "ne"])
    monkeypatch.setattr("os.fsync", _no_space)
    with pytest.raises(OutsideError, match="No space left"):
        write_whole(file, ["two"])
    assert file.read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def _no_space(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("known_for", [None, timedelta(0), -timedelta(seconds=1), timedelta(days=400)])
def test_the_period_of_a_first_read(known_for: timedelta | None) -> None:
    """Goal: if the ledger knows no time before its end, as when records came while a topic was first read, the page has
    its whole period, and is not refused as empty."""
    until = datetime(2026, 2, 10, 9, 45, tzinfo=timezone.utc)
    known = None if known_for is None else until - known_for
    assert begin_of_period(known, until) == until - PERIOD
    assert begin_of_period(until - timedelta(hours=1), until) == until - timedelta(hours=1)
