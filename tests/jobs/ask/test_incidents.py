"""Goal: a question about incidents says when logs were imported that nobody has looked at, and how long each took."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.ask.incidents import time_of
from groupledger.jobs.cli.main import main
from groupledger.jobs.warehouse.judged_logs import note_judged
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path


def asked_of(warehouse: Path) -> str:
    return (
        CliRunner()
        .invoke(main, ["incidents", "--cluster", "c", "--warehouse", str(warehouse)], catch_exceptions=False)
        .stderr
    )


def test_logs_that_are_not_judged(tmp_path: Path) -> None:
    """Goal: rows of the cluster's logs beyond those that the incidents rest on are reported, with the command."""
    for table, rows in (
        ("coverage", [{"cluster": "c"}, {"cluster": "other"}]),
        ("incidents", []),
        ("log_files", [{"cluster": "c", "row_count": 40}, {"cluster": "c"}, {"cluster": "other", "row_count": 9}]),
    ):
        write_deltalake(str(tmp_path / table), pa.Table.from_pylist(rows, schema_of(table)))
    storage = LocalStorage(tmp_path)
    assert "judged" not in asked_of(tmp_path)
    note_judged(storage, "c", 28)
    said = asked_of(tmp_path)
    assert "12 rows of imported logs are not yet judged: `groupledger incidents --update`" in said
    assert "takes the ledger's lease and writes the table incidents; a running monitor" in said
    note_judged(storage, "c", 40)
    assert "judged" not in asked_of(tmp_path)


def test_when_an_episode_was_last_seen() -> None:
    """Goal: an open episode claims no more than the instant at which it was last seen."""
    began = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    last = began + timedelta(seconds=39)
    over = {"since": began, "last_seen_at": last, "until": last}
    begun, seen = "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:39.000Z"
    assert time_of(over, began) == f"{begun} to {seen} (39 s)"
    later = began + timedelta(seconds=10)
    is_open = f"{begun}, open: last seen {seen} (39 s later)"
    began_before = "; began 10 s before this time"
    assert time_of({**over, "until": None}, later) == is_open + began_before
    end = last + timedelta(minutes=2, seconds=33)
    known = ", 2 min 33 s before the end of what is known"
    assert time_of({**over, "until": None}, later, end) == is_open + known + began_before
    assert time_of({**over, "until": None}, began, last) == f"{is_open}, at the end of what is known"
    once = {"since": last, "last_seen_at": last, "until": None}
    assert time_of(once, began, end) == f"{seen}, open: last seen then{known}"
    assert time_of({**once, "until": last}, began) == f"{seen} (at one instant)"
