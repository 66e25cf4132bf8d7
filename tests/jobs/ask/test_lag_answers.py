"""Goal: the lag of an instant is that of the last sampling round by then, of the cluster that is asked about."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.lag_answers import lag_at
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path

FIRST = datetime(2026, 1, 1, 23, 0, tzinfo=timezone.utc)
ROUNDS = [FIRST + timedelta(hours=hours) for hours in (0, 30, 31)]


def add(warehouse: Path, cluster: str, sampled_at: datetime) -> None:
    row = {"cluster": cluster, "sampled_at": sampled_at, "sample_date": sampled_at.date()}
    row |= {"group_id": "g", "topic": "t", "partition": 0, "flags": ["a"]}
    rows = pa.Table.from_pylist([row], schema_of("lag"))
    write_deltalake(str(warehouse / "lag"), rows, mode="append", partition_by=["sample_date"])


@pytest.fixture
def tables(tmp_path: Path) -> ClusterRows:
    """Returns rounds of two dates; of another cluster, one of a later date."""
    for cluster, sampled_at in [*(("c", at) for at in ROUNDS), ("other", ROUNDS[-1] + timedelta(days=2))]:
        add(tmp_path, cluster, sampled_at)
    return ClusterRows(str(tmp_path), "c")


@pytest.mark.parametrize(
    ("at", "answered"),
    [
        (None, ROUNDS[2]),
        (ROUNDS[0], ROUNDS[0]),
        (ROUNDS[1] - timedelta(microseconds=1), ROUNDS[0]),
        (ROUNDS[2] + timedelta(days=9), ROUNDS[2]),
    ],
)
def test_the_last_round(tables: ClusterRows, at: datetime | None, answered: datetime) -> None:
    """Goal: the newest round, or the last one by an instant, also of a date before; another cluster's is not looked
    at."""
    sampled_at, rows = lag_at(tables, None, at)
    assert sampled_at == answered
    assert [(row.sampled_at_ms, row.flags) for row in rows] == [(round(answered.timestamp() * 1_000), ("a",))]


def test_no_round(tables: ClusterRows) -> None:
    """Goal: an instant before the first round is answered with that round's."""
    with pytest.raises(InputError, match=r"The first sampling round was at 2026-01-01T23:00:00\.000Z"):
        lag_at(tables, None, FIRST - timedelta(seconds=1))


def test_watch(tables: ClusterRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: each new round is shown once."""
    del tables
    pauses = 0

    def sleep(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 2:
            add(tmp_path, "c", ROUNDS[2] + timedelta(hours=1))
        elif pauses == 3:
            raise KeyboardInterrupt

    # Of the command alone: other threads of this process sleep, too.
    monkeypatch.setattr("groupledger.jobs.cli.lag.time", SimpleNamespace(sleep=sleep))
    words = ["lag", "--watch", "--json", "--cluster", "c", "--warehouse", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 130
    output = [json.loads(line)["sampled_at"] for line in result.stdout.splitlines()]
    assert output == ["2026-01-03T06:00:00.000Z", "2026-01-03T07:00:00.000Z"]
