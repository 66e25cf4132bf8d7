"""Goal: logs as they come are imported with the times that they had: over the hour that comes twice, out of containers,
with zones; and a file that can't be read keeps no other one out."""

from __future__ import annotations

import shutil
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from groupledger.jobs.ingest.import_logs import LogSources, Rotation, family_of, import_logs
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.transforms.logs.rules.repeated_hours import RepeatedHours
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = Path(__file__).parents[2] / "data" / "logs"
AHEAD = "[2099-10-25 01:30:00,000] INFO [GroupCoordinator id=1] Group g with generation 4 is now empty."
LOGGER = " (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"


def test_logs_as_they_come(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: each line is a row at its instant; a refused line is reported with its number and the reason, when all is
    imported."""
    logs = tmp_path / "logs"
    shutil.copytree(LOGS, logs)
    strange = logs / "strange.log"
    strange.write_text('{"a": "line"}\n' * 3)
    text = (logs / "server-log-dst" / "server.log").read_bytes()
    ambiguous = logs / "ambiguous.log.zst"
    in_the_hour = b"".join(text.splitlines(keepends=True)[13:22]).replace(b"loop-classic", b"rotated")
    ambiguous.write_bytes(
        pa.Codec("zstd").compress(b"\xef\xbb\xbf" + in_the_hour.replace(b"\n", b"\r\n"), asbytes=True)
    )
    (logs / "ahead.log").write_text(AHEAD + LOGGER)
    paths = [strange, logs / "gone.log", logs / "server-log-dst", logs / "container-logs" / "cri"]
    paths += [logs / "container-logs" / "zone", ambiguous, logs / "ahead.log"]
    settings = load_settings().logs.model_copy(update={"time_zone": "Europe/Vienna"})
    said: list[str] = []
    with open_test_ledger(spark, tmp_path / "warehouse") as ledger:
        object.__setattr__(ledger, "say", said.append)
        with pytest.raises(InputError) as refused:
            import_logs(ledger, settings, LogSources([], paths), threading.Event())
        rows = ledger.rows(COORDINATOR_EVENTS).orderBy("source_file", "line_number").collect()
        files = {row["path"]: row for row in ledger.rows(LOG_FILES).collect()}
    assert "no log file or directory" in str(refused.value)
    assert f"{strange} has no line that begins with a time and a level" in str(refused.value)
    assert 'Its line 1 of 3 begins "{"a": "line"}"' in str(refused.value)

    def of(path: Path) -> list[tuple[datetime, bool]]:
        name = files[str(path)]["source_file"]
        found = [row for row in rows if row["source_file"] == name]
        return [(row["logged_at"].replace(tzinfo=timezone.utc), row["is_time_ambiguous"]) for row in found]

    first, minute = datetime(2026, 10, 24, 23, 30, tzinfo=timezone.utc), timedelta(minutes=7)
    assert of(logs / "server-log-dst" / "server.log") == [(first + number * minute, False) for number in range(24)]
    begun = datetime(2026, 11, 20, 10, 0, 0, 123_000, tzinfo=timezone.utc)
    for name in ("cri", "zone"):
        found = of(logs / "container-logs" / name / "server.log")
        assert found == [(begun + timedelta(seconds=number), False) for number in range(24)]
    assert of(ambiguous) == [(first + number * minute - timedelta(hours=1), True) for number in range(13, 22)]
    assert any("ambiguous.log.zst" in each and "of 9 rows the hour is unknown" in each for each in said)
    assert of(logs / "ahead.log") == [(datetime(2099, 10, 24, 23, 30, tzinfo=timezone.utc), False)]
    assert files[str(logs / "ahead.log")]["last_logged_at"] is None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("server.log", "server"),
        ("server.log.1", "server"),
        ("server.log.2026-10-25-02", "server"),
        ("server.log.20261025-020000.gz", "server"),
        ("server.log.3.zst", "server"),
        ("server.log.broker-2", "server.log.broker-2"),
        ("server-2.log", "server-2"),
        ("messages", "messages"),
    ],
)
def test_names_of_rotated_files(name: str, family: str) -> None:
    assert family_of(name) == family


def test_what_comes_before_a_file() -> None:
    """Goal: the file that was written last before it, and never itself under another name."""
    rotation = Rotation()
    one, two = RepeatedHours("Europe/Vienna"), RepeatedHours("Europe/Vienna")
    rotation.ended((1, 100, 10), one)
    rotation.ended((2, 100, 20), two)
    assert rotation.before((3, 0, 30)) is two
    assert rotation.before((2, 0, 30)) is one
    assert rotation.before((3, 0, 15)) is one
    assert rotation.before((3, 0, 5)) is None
