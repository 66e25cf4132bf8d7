"""Goal: the records of a closed date are sorted into files, so that a question about one group opens few of them."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timezone
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.warehouse import sorted_dates
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import added_by, dataset
from groupledger.jobs.warehouse.merged_files import Settled
from groupledger.jobs.warehouse.sorted_dates import ORDER, sort_date, unsorted_dates
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from lab.warehouses.ledgers import make_tables

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CLOSED, TODAY = date(2026, 1, 5), date(2026, 1, 6)
GROUPS = [(f"group-{number}", number % 10) for number in range(40)]
MEGABYTE = 1 << 20
SETTLED = Settled(COORDINATOR_RECORDS, "c", datetime(2026, 1, 6, 12, tzinfo=timezone.utc))


def append(commits: Commits, day: date, random: Random) -> None:
    rows = [
        {
            "cluster": "c",
            "kafka_partition": partition,
            "kafka_offset": offset,
            "group_id": group_id,
            "ingest_date": day,
        }
        for offset in range(25)
        for group_id, partition in random.sample(GROUPS, 20)
    ]
    commits.append(COORDINATOR_RECORDS, pa.Table.from_pylist(rows, arrow_schema(COORDINATOR_RECORDS.schema)))


def content(warehouse: Path) -> Counter[tuple[Any, ...]]:
    rows = dataset(str(warehouse), COORDINATOR_RECORDS).to_table(columns=[*ORDER, "ingest_date"]).to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def test_closed_dates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the rows stay, those of today where they are; each file has few partitions, in order; no reader takes it
    for new rows; and sorted files are not sorted again, until another file comes."""
    monkeypatch.setattr(sorted_dates, "FILE_BYTES_MIN", 2_000)
    monkeypatch.setattr(sorted_dates, "ROWS_AT_ONCE", 100)
    commits, random = Commits(str(tmp_path), ()), Random(7)
    make_tables(tmp_path, COORDINATOR_RECORDS)
    for day in (CLOSED, CLOSED, TODAY, CLOSED):
        append(commits, day, random)
    before = content(tmp_path)
    (found,) = unsorted_dates(commits, SETTLED, MEGABYTE)
    count = sort_date(commits, found)
    assert content(tmp_path) == before
    assert unsorted_dates(commits, SETTLED, MEGABYTE) == []
    added = added_by(LocalStorage(tmp_path), COORDINATOR_RECORDS, commits.open(COORDINATOR_RECORDS).version())
    assert added is not None
    assert added.files == {}

    fragments = list(dataset(str(tmp_path), COORDINATOR_RECORDS).get_fragments(pc.field("ingest_date") == CLOSED))
    assert len(fragments) == count > 10
    for fragment in fragments:
        rows = fragment.to_table(columns=list(ORDER)).to_pylist()
        keys = [tuple(row.values()) for row in rows]
        assert keys == sorted(keys)
    one = (pc.field("cluster") == "c") & (pc.field("kafka_partition") == 3) & (pc.field("ingest_date") == CLOSED)
    assert len(list(dataset(str(tmp_path), COORDINATOR_RECORDS).get_fragments(one))) < count / 5
    answers = ClusterRows(str(tmp_path), "c").rows("coordinator_records", ("group_id", "=", "group-3"))
    assert len(answers) == sum(count for row, count in before.items() if row[0] == "c" and row[2] == "group-3")

    append(commits, CLOSED, random)
    assert len(unsorted_dates(commits, SETTLED, MEGABYTE)) == 1


def test_few_rows_are_one_file(tmp_path: Path) -> None:
    """Goal: the small files of a quiet date become one, and another cluster's stay as they are."""
    commits = Commits(str(tmp_path), ())
    make_tables(tmp_path, COORDINATOR_RECORDS)
    for _ in range(3):
        append(commits, CLOSED, Random(1))
    assert unsorted_dates(commits, Settled(COORDINATOR_RECORDS, "d", SETTLED.now), MEGABYTE) == []
    (found,) = unsorted_dates(commits, SETTLED, MEGABYTE)
    assert sort_date(commits, found) == 1
