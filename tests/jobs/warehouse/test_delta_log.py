"""Goal: what the log of a table has lost is told, since the libraries that read it don't tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.delta_log import added_by, check_commits
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("left", ["", "\n"], ids=["nothing", "an end of line"])
def test_a_commit_whose_file_was_emptied(tmp_path: Path, left: str) -> None:
    """Goal: an emptied file is told by its name, though Delta's library reads the table without the commit's rows."""
    place = tmp_path / COORDINATOR_RECORDS.name
    for number in range(3):
        write_deltalake(str(place), pa.table({"number": [number]}), mode="append")
    storage = LocalStorage(tmp_path)
    check_commits(storage, COORDINATOR_RECORDS)
    file = place / "_delta_log" / f"{1:020}.json"
    whole = file.read_text(encoding="utf-8")
    file.write_text(left, encoding="utf-8")
    assert sorted(DeltaTable(str(place)).to_pyarrow_table()["number"].to_pylist()) == [0, 2]
    is_told = pytest.raises(
        OutsideError,
        match=r"commit 1 of the table coordinator_records is empty.* restore coordinator_records/_delta_log",
    )
    with is_told:
        added_by(storage, COORDINATOR_RECORDS, 1)
    with is_told:
        check_commits(storage, COORDINATOR_RECORDS)
    file.write_text(whole, encoding="utf-8")
    check_commits(storage, COORDINATOR_RECORDS)
