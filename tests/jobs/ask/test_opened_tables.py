"""Goal: a table that nobody has written to stays open for the next question, and no question sees an older one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.ask import opened_tables
from groupledger.jobs.ask.opened_tables import open_table

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def write(place: Path, *numbers: int) -> None:
    write_deltalake(str(place), pa.table({"number": [*numbers]}), mode="append")


def test_it_stays_open_until_somebody_writes(tmp_path: Path) -> None:
    """Goal: a table stays the same open object as long as its version is the newest, and an object that was opened
    keeps its version."""
    write(tmp_path / "t", 1)
    first = open_table(str(tmp_path / "t"))
    assert open_table(str(tmp_path / "t")) is first
    write(tmp_path / "t", 2)
    second = open_table(str(tmp_path / "t"))
    assert (first.delta.version(), first.files.num_rows) == (0, 1)
    assert (second.delta.version(), second.files.num_rows) == (1, 2)


def test_another_table_in_its_place(tmp_path: Path) -> None:
    """Goal: a table that was made again has the same version, and is another."""
    write(tmp_path / "t", 1)
    write(tmp_path / "other", 1, 2, 3)
    first = open_table(str(tmp_path / "t"))
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "other", tmp_path / "t")
    second = open_table(str(tmp_path / "t"))
    assert (second is first, second.delta.version()) == (False, 0)
    assert second.files["num_records"].to_pylist() == [3]


def test_a_log_that_was_cleaned_up(tmp_path: Path) -> None:
    """Goal: the newest version is opened, also if the log files of the versions in between were written and removed
    again."""
    write(tmp_path / "t", 1)
    first = open_table(str(tmp_path / "t"))
    for number in range(3):
        write(tmp_path / "t", number)
    first_again = open_table(str(tmp_path / "t"))
    first_again.delta.create_checkpoint()
    for version in (0, 1):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    opened_tables._opened[str(tmp_path / "t")] = first
    assert open_table(str(tmp_path / "t")).delta.version() == 3


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: only the tables that were used last stay open."""
    monkeypatch.setattr(opened_tables, "KEPT_MAX", 2)
    tables = [tmp_path / str(number) for number in range(3)]
    for table in tables:
        write(table, 1)
    first, *_, last = [open_table(str(table)) for table in tables]
    assert open_table(str(tables[2])) is last
    assert open_table(str(tables[0])) is not first
