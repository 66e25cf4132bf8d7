"""Goal: small files that no longer change become one, and whatever a pass may still write to stays as it is."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import added_by, dataset
from groupledger.jobs.warehouse.merged_files import Settled, files_to_merge, merge_files
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.warehouses.ledgers import make_tables

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.schemas.tables.table import Table

NOW = datetime(2026, 1, 6, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
MEGABYTE = 1 << 20


def append(commits: Commits, table: Table, **columns: Any) -> None:
    rows = pa.Table.from_pylist([{"cluster": "c", **columns}], arrow_schema(table.schema))
    commits.append(table, rows)


def content(warehouse: Path, table: Table) -> Counter[str]:
    return Counter(map(repr, dataset(str(warehouse), table).to_table().to_pylist()))


def merged(commits: Commits, table: Table) -> list[int]:
    """Merges what can be; returns how many files became one each time."""
    found = files_to_merge(commits, Settled(table, "c", NOW), MEGABYTE)
    assert [merge_files(commits, table, paths) for paths in found] == [1] * len(found)
    assert files_to_merge(commits, Settled(table, "c", NOW), MEGABYTE) == []
    return sorted(map(len, found))


CASES: dict[str, tuple[Table, list[dict[str, Any]], list[int]]] = {
    "windows of today and yesterday stay": (
        REBALANCE_STATS,
        [{"window": "day", "window_start": NOW - days * DAY} for days in (0, 0, 1, 1, 2, 2, 2, 9, 9)],
        [2, 3],
    ),
    "rows that are open or have just ended stay": (
        ASSIGNMENTS,
        [
            *[{"is_open": 1, "valid_to": None}] * 2,
            *[{"is_open": 0, "valid_to": NOW - timedelta(hours=1)}] * 2,
            *[{"is_open": 0, "valid_to": NOW - timedelta(hours=3)}] * 2,
            *[{"is_open": 0, "valid_to": NOW - 3 * DAY}] * 3,
        ],
        [2, 3],
    ),
    "today stays": (
        REQUESTS,
        [*[{"happened_date": date(2026, 1, 6)}] * 2, *[{"happened_date": date(2026, 1, 5)}] * 3],
        [3],
    ),
    "rounds of today are merged, and another cluster's files stay": (
        LAG,
        [
            *[{"sample_date": date(2026, 1, 6)}] * 2,
            *[{"sample_date": date(2026, 1, 5)}] * 3,
            *[{"sample_date": date(2026, 1, 5), "cluster": "d"}] * 2,
        ],
        [2, 3],
    ),
    "what has no time is one": (TOPIC_NAMES, [{"topic": f"t-{number}"} for number in range(4)], [4]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_merged(tmp_path: Path, case: str) -> None:
    """Goal: the rows stay, no streaming reader takes them for new, and a second run finds nothing."""
    table, rows, expected = CASES[case]
    commits = Commits(str(tmp_path), ())
    make_tables(tmp_path, table)
    for row in rows:
        append(commits, table, **row)
    before, version = content(tmp_path, table), commits.open(table).version()
    assert merged(commits, table) == expected
    assert content(tmp_path, table) == before
    for number in range(version + 1, commits.open(table).version() + 1):
        added = added_by(LocalStorage(tmp_path), table, number)
        assert added is not None
        assert added.files == {}


def test_a_file_does_not_grow_without_end(tmp_path: Path) -> None:
    """Goal: files are put together up to a size, and one that is alone in its part stays."""
    commits = Commits(str(tmp_path), ())
    make_tables(tmp_path, TOPIC_NAMES)
    for number in range(5):
        append(commits, TOPIC_NAMES, topic=f"t-{number}")
    size = max(pa.table(commits.open(TOPIC_NAMES).get_add_actions(flatten=True))["size_bytes"].to_pylist())
    found = files_to_merge(commits, Settled(TOPIC_NAMES, "c", NOW), 2 * size)
    assert sorted(map(len, found)) == [2, 2]
