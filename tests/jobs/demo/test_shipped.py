"""Goal: the tables that the package ships show pages at once, of a day that ends now."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from importlib import resources
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.demo import CLUSTER
from groupledger.jobs.demo.shipped import FILE, moved_by, unpack
from groupledger.jobs.process.clock import now_ms
from groupledger.schemas.definitions import table_names
from groupledger.schemas.words import StatsWindow
from tests.jobs.serve.serving import served

if TYPE_CHECKING:
    from pathlib import Path

BYTES_MAX = 3_000_000
AT = datetime(2026, 1, 5, 23, 50, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("shipped")
    unpack(directory, datetime.fromtimestamp(now_ms() / 1_000, timezone.utc))
    return directory


def test_it_is_small_and_known(directory: Path) -> None:
    """Goal: the file is a small part of the package, and all of its tables are ours."""
    assert len(resources.files("groupledger.jobs.demo").joinpath(FILE).read_bytes()) < BYTES_MAX
    assert {path.name for path in directory.iterdir()} <= table_names()


def test_pages_of_a_day_that_ends_now(directory: Path) -> None:
    """Goal: all groups are listed by names that people know, some alive with lag of now, and each has a page."""
    with served(directory) as client:
        groups: list[dict[str, Any]] = client.get(f"/api/v1/clusters/{CLUSTER}/groups?all=true").json["groups"]
        pages = {row["group_id"]: client.get(f"/clusters/{CLUSTER}/groups/{row['group_id']}").status for row in groups}
    by_name = {row["group_id"]: row for row in groups}
    assert len(by_name) == 40
    assert by_name.keys() >= {"checkout", "fraud-scoring"}
    alive = [row for row in groups if row["state"] == "Stable"]
    assert len(alive) >= 10
    recent = datetime.now(timezone.utc) - timedelta(minutes=30)
    assert all(datetime.fromisoformat(row["last_commit_at"].replace("Z", "+00:00")) > recent for row in alive)
    assert pages == dict.fromkeys(by_name, 200)


def test_no_time_stays_no_time() -> None:
    """Goal: -1, which says that an offset has no expiry of its own, is not moved to 1970."""
    rows = pa.table({"expire_timestamp_ms": pa.array([-1, 1_000], pa.int64())})
    assert moved_by(rows, timedelta(seconds=5)).to_pydict() == {"expire_timestamp_ms": [-1, 6_000]}


def test_it_is_unpacked_for_questions(tmp_path: Path) -> None:
    """Goal: `demo --packed` makes a warehouse that questions about the records can be asked, too, and replaces only
    what a demo has made."""
    place, ended = tmp_path / "demo", "2026-11-25T12:00:00Z"
    command = ["demo", "--packed", "--directory", str(place), "--until", ended]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert CliRunner().invoke(main, command).exit_code == 0
    asked = ["offsets", "checkout", "--at", "2026-11-25T11:00:00Z", "--json", "--warehouse", str(place / "warehouse")]
    offsets = [json.loads(line) for line in CliRunner().invoke(main, asked).stdout.splitlines()]
    assert len(offsets) == 12
    assert {row["status"] for row in offsets} == {"committed"}
    assert max(row["known_until"]["topic"] for row in offsets) == "2026-11-25T12:00:00.000Z"
    refused = CliRunner().invoke(main, ["demo", "--packed", "--directory", str(tmp_path)])
    assert refused.exit_code == 2
    assert "is no demo's directory" in refused.stderr


def test_all_instants_move() -> None:
    """Goal: instants in every form move by the same time, also inside of lists; durations, numbers and nulls stay."""
    place = {"at": AT, "pause_upper_ms": 5, "commit_timestamp_ms": 7}
    rows = pa.table(
        {
            "sampled_at": [AT, None],
            "sample_date": pa.array([AT.date(), None], pa.date32()),
            "window": [StatsWindow.HOUR, StatsWindow.DAY],
            "window_start": [AT.replace(minute=0), AT.replace(hour=0, minute=0)],
            "places": [[place, None], None],
            "sync_wait_ms": [3, None],
        }
    )
    by = timedelta(days=1, hours=2, minutes=20)
    moved = moved_by(rows, by)
    assert moved.schema == rows.schema
    later = AT + by
    inner = {"at": later, "pause_upper_ms": 5, "commit_timestamp_ms": 7 + by // timedelta(milliseconds=1)}
    assert moved.to_pylist() == [
        {
            "sampled_at": later,
            "sample_date": later.date(),
            "window": StatsWindow.HOUR,
            "window_start": AT.replace(minute=0) + timedelta(days=1, hours=2),
            "places": [inner, None],
            "sync_wait_ms": 3,
        },
        {
            "sampled_at": None,
            "sample_date": None,
            "window": StatsWindow.DAY,
            "window_start": AT.replace(hour=0, minute=0) + timedelta(days=1),
            "places": None,
            "sync_wait_ms": None,
        },
    ]
