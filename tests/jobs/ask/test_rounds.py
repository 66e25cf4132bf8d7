"""Goal: the newest round is found whatever Delta's log says of the files, and without reading all of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.rounds import last_round
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

START = datetime(2026, 1, 1, 23, 59, 59, tzinfo=timezone.utc)
# Of two dates; some lie within one millisecond.
INSTANTS = [START + timedelta(microseconds=each) for each in (0, 400, 999, 1_000, 1_500, 2_000_000, 2_000_001)]


def add(warehouse: Path, *rounds: tuple[str, datetime]) -> None:
    rows = [
        {"cluster": cluster, "sampled_at": at, "sample_date": START.date(), "group_id": "g"} for cluster, at in rounds
    ]
    table = pa.Table.from_pylist(rows, schema_of("lag"))
    write_deltalake(str(warehouse / "lag"), table, mode="append", partition_by=["sample_date"])


@given(
    files=st.lists(
        st.lists(st.tuples(st.sampled_from(["c", "other", "c" * 40]), st.sampled_from(INSTANTS)), min_size=1),
        min_size=1,
        max_size=4,
    ),
    at=st.none() | st.sampled_from([*INSTANTS, START - timedelta(1), START + timedelta(microseconds=401)]),
    cluster=st.sampled_from(["c", "c" * 40]),
)
def test_the_newest(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[str, datetime]]], at: datetime | None, cluster: str
) -> None:
    """Goal: the answer is that of all rows, also where one file holds rounds of several clusters."""
    warehouse = tmp_path_factory.mktemp("rounds")
    for rounds in files:
        add(warehouse, *rounds)
    expected = [of for file in files for name, of in file if name == cluster and (at is None or of <= at)]
    assert last_round(ClusterRows(str(warehouse), cluster), "lag", at) == max(expected, default=None)


def test_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: only the files that can hold the newest round are read, however many there are."""
    for seconds in range(5):
        add(tmp_path, ("c", START + timedelta(seconds=seconds)))
    add(tmp_path, ("other", START + timedelta(seconds=9)))
    bounds = []
    scan = ClusterRows.scan

    def noted(self: ClusterRows, *arguments: object, **named: object) -> object:
        bounds.append(arguments[1:])
        return scan(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ClusterRows, "scan", noted)
    newest = START + timedelta(seconds=4)
    assert last_round(ClusterRows(str(tmp_path), "c"), "lag") == newest
    assert bounds == [(("sampled_at", ">=", newest - timedelta(milliseconds=1)),)]
