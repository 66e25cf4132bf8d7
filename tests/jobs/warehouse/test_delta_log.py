"""Goal: files that are missing from the log of a table are reported, since the libraries that read the log don't report
them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse import delta_log
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import added_by, check_commits, dataset, few_rows, open_table
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.lag import LAG
from lab.warehouses.ledgers import make_tables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("left", ["", "\n"], ids=["nothing", "an end of line"])
def test_a_commit_whose_file_was_emptied(tmp_path: Path, left: str) -> None:
    """Goal: an emptied file is reported by its name, though Delta's library reads the table without the commit's
    rows."""
    place = tmp_path / COORDINATOR_RECORDS.name
    for number in range(3):
        write_deltalake(str(place), pa.table({"number": [number]}), mode="append")
    storage = LocalStorage(tmp_path)
    check_commits(storage, COORDINATOR_RECORDS)
    file = place / "_delta_log" / f"{1:020}.json"
    whole = file.read_text(encoding="utf-8")
    file.write_text(left, encoding="utf-8")
    assert sorted(DeltaTable(str(place)).to_pyarrow_table()["number"].to_pylist()) == [0, 2]
    is_reported = pytest.raises(
        OutsideError,
        match=r"commit 1 of the table coordinator_records is empty.* restore coordinator_records/_delta_log",
    )
    with is_reported:
        added_by(storage, COORDINATOR_RECORDS, 1)
    with is_reported:
        check_commits(storage, COORDINATOR_RECORDS)
    file.write_text(whole, encoding="utf-8")
    check_commits(storage, COORDINATOR_RECORDS)


def test_files_are_counted_where_rows_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: however many files other dates have, the few rows of one are read without Spark."""
    monkeypatch.setattr(delta_log, "FILES_LOOKED_AT_MAX", 2)
    make_tables(tmp_path, LAG)
    commits = Commits(str(tmp_path), ())
    for day in (1, 2, 3, 3):
        row = {"cluster": "c", "group_id": f"g-{day}", "sample_date": date(2026, 1, day)}
        commits.append(LAG, pa.Table.from_pylist([row], arrow_schema(LAG.schema)))
    found = few_rows(str(tmp_path), LAG, pc.field("sample_date") >= date(2026, 1, 3))
    assert found is not None
    assert found["group_id"].to_pylist() == ["g-3", "g-3"]
    assert few_rows(str(tmp_path), LAG, pc.field("sample_date") >= date(2026, 1, 2)) is None
    wanted = pc.field("sample_date") == date(2026, 1, 1)
    assert len(list(dataset(str(tmp_path), LAG, condition=wanted).get_fragments())) == 1


def test_a_fence_looks_behind_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: whether a commit was emptied is seen without a listing of a log that has a checkpoint."""
    make_tables(tmp_path, LAG)
    commits = Commits(str(tmp_path), ())
    for _ in range(3):
        commits.fence(LAG)
    open_table(str(tmp_path), LAG).create_checkpoint()
    log = tmp_path / LAG.name / "_delta_log"
    (log / f"{1:020}.json").write_text("")  # below the checkpoint nobody reads it
    with monkeypatch.context() as patched:
        patched.delattr(delta_log, "FileSelector")
        for _ in range(2):
            commits.fence(LAG)
    last = max(log.glob("*.json"))
    last.write_text("")
    with pytest.raises(OutsideError, match=f"commit {int(last.stem)} of the table lag is empty"):
        commits.fence(LAG)


def test_commits_are_checked_from_a_version_on(tmp_path: Path) -> None:
    """Goal: those after a version are read, to the last, and none before."""
    make_tables(tmp_path, LAG)
    commits = Commits(str(tmp_path), ())
    for _ in range(3):
        commits.fence(LAG)
    log, storage = tmp_path / LAG.name / "_delta_log", LocalStorage(tmp_path)
    (log / f"{1:020}.json").write_text("")
    check_commits(storage, LAG, 2)
    check_commits(storage, LAG, 4)  # which is yet to come
    (log / f"{3:020}.json").write_text("")
    with pytest.raises(OutsideError, match="commit 3"):
        check_commits(storage, LAG, 2)
