"""Goal: a question while files are deleted gets its answer, or an error that says to ask again: `forget`, a
maintenance, and another engine's VACUUM without retention, beside questions that go on all the time."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import TYPE_CHECKING

from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.all_tables import all_tables
from tests.jobs.serve.serving import CLUSTER, fill, served

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.schemas.tables.table import Table
    from tests.jobs.serve.serving import Client

ROUNDS = 6  # each way to delete twice
AT = "?at=2026-01-01T12:01:00Z"
GROUP = f"/clusters/{CLUSTER}/groups/g"
ASKED = (GROUP + AT, f"/api/v1{GROUP}/owners{AT}", f"/api/v1{GROUP}/lag{AT}", f"/api/v1{GROUP}/members")


def ask(client: Client, path: str) -> tuple[int, str]:
    answer = client.get(path)
    return answer.status, answer.text if path.startswith("/api") else ""  # a page says when it was made


def delete(warehouse: Path, tables: list[Table], number: int) -> None:
    """Writes all rows of all tables anew, and deletes what that has removed, in the way of this number."""
    for table in tables:
        folder = str(warehouse / table.name)
        with Lease(LocalStorage(warehouse), CLUSTER, "groupledger forget", 60) as lease:
            commits = Commits(str(warehouse), (lease,))
            commits.fence(table)
            rows = DeltaTable(folder).to_pyarrow_table().cast(schema_of(table.name))
            write_deltalake(folder, rows, mode="overwrite")
            if number % 3 == 0:
                commits.forget_past(table)
            elif number % 3 == 1:
                commits.compact(table, [], 1 << 20)
                commits.vacuum(table, 1)
            else:
                DeltaTable(folder).vacuum(0, dry_run=False, enforce_retention_duration=False)


def test_questions_beside_deleters(tmp_path: Path) -> None:
    """Goal: no answer is another than before, none is a fault of ours, and after the deleters all are there again."""
    fill(tmp_path, "g", "orders", "m")
    tables = [each for each in all_tables() if (tmp_path / each.name).is_dir()]
    assert len(tables) > 5
    found: Counter[int] = Counter()
    is_over = threading.Event()
    with served(tmp_path) as client, ThreadPoolExecutor(3) as readers:
        expected = {path: ask(client, path) for path in ASKED}
        assert {status for status, _ in expected.values()} == {200}

        def read() -> None:
            for path in cycle(ASKED):
                if is_over.is_set():
                    break
                answer = ask(client, path)
                found[answer[0]] += 1
                assert answer[0] == 503 or answer == expected[path], answer

        reading = [readers.submit(read) for _ in range(3)]
        try:
            for number in range(ROUNDS):
                delete(tmp_path, tables, number)
        finally:
            is_over.set()
        for each in reading:
            each.result()
        assert {path: ask(client, path) for path in ASKED} == expected
    assert found.keys() <= {200, 503}
    assert found[200] >= len(ASKED)
