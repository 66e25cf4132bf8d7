"""Goal: the lag of an instant is that of the last sampling round by then, of the cluster that is asked about."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.definitions import schema_of
from groupledger.jobs.ask.lag_answers import lag_at
from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FIRST = datetime(2026, 1, 1, 23, 0, tzinfo=timezone.utc)
ROUNDS = [FIRST + timedelta(hours=hours) for hours in (0, 30, 31)]


@pytest.fixture
def tables(tmp_path: Path) -> ClusterRows:
    """Returns rounds of two dates; of another cluster, one of a later date."""
    for cluster, sampled_at in [*(("c", at) for at in ROUNDS), ("other", ROUNDS[-1] + timedelta(days=2))]:
        row = {"cluster": cluster, "sampled_at": sampled_at, "sample_date": sampled_at.date()}
        row |= {"group_id": "g", "topic": "t", "partition": 0, "flags": ["a"]}
        rows = pa.Table.from_pylist([row], schema_of("lag"))
        write_deltalake(str(tmp_path / "lag"), rows, mode="append", partition_by=["sample_date"])
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
    """Goal: an instant before the first round is told with that round's."""
    with pytest.raises(InputError, match=r"The first sampling round was at 2026-01-01T23:00:00\.000Z"):
        lag_at(tables, None, FIRST - timedelta(seconds=1))
