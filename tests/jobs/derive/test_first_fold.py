"""Goal: a first fold in units gives the tables of one fold of everything, wherever it is cut, killed or stopped."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.added_files import rows_in
from groupledger.jobs.warehouse.first_fold import unfinished_first_fold
from groupledger.jobs.warehouse.readers import readers, unread_since
from groupledger.jobs.warehouse.rebuilds import request_rebuild
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.killed import KillBefore, KilledError
from tests.jobs.simulated_log import append, assert_equal_tables, damaged

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.added_files import AddedFiles
    from groupledger.jobs.warehouse.first_fold import FirstFold
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from tests.jobs.simulated_log import Simulated

PER_UNIT = "groupledger.jobs.derive.first_fold.RECORDS_PER_UNIT"
FOLDED = "records folded"
TABLES_OF_UNIT = len(TABLES) - 1  # rebalance_stats is counted at the end


def fold(spark: SparkSession, warehouse: Path, units_max: int = 1_000) -> list[str]:
    """Runs the history, gives it the signal to stop after so many units, and returns what it has said about units."""
    stop, said = threading.Event(), list[str]()

    def say(text: str) -> None:
        if FOLDED in text:
            said.append(text)
        if len(said) == units_max:
            stop.set()

    with open_test_ledger(spark, warehouse) as ledger:
        update_history(replace(ledger, say=say), stop)
    return said


def progress(warehouse: Path) -> FirstFold | None:
    return unfinished_first_fold(LocalStorage(warehouse), "test")


def test_kills_and_stops(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: killed in the middle of a unit's writes, with more records since, stopped between two units, and gone on:
    the tables are those of one fold. Until then nobody takes them for a whole history, and maintenance keeps the
    records. What is folded is not read again, but for one look at where the rest lies."""
    *first, last = [simulated.between(minute, minute + 10) for minute in range(0, 61, 10)]
    count = simulated.rows.count()
    for number, rows in enumerate(first):
        append(spark, tmp_path, rows, f"2026-01-{number // 2 + 1:02}")
    monkeypatch.setattr(PER_UNIT, count // 5)
    read: list[int] = []

    def counting(ledger: Ledger, which: Table, files: AddedFiles) -> DataFrame:
        read.append(sum(pq.read_metadata(tmp_path / which.name / path).num_rows for path in files.paths))
        return rows_in(ledger, which, files)

    monkeypatch.setattr("groupledger.jobs.derive.first_fold.rows_in", counting)
    with monkeypatch.context() as patched:
        patched.setattr("groupledger.jobs.derive.history.upsert_arrow", KillBefore(upsert_arrow, TABLES_OF_UNIT + 3))
        with pytest.raises(KilledError):
            fold(spark, tmp_path)
    killed = progress(tmp_path)
    assert killed is not None
    assert killed.folded
    assert killed.unit
    append(spark, tmp_path, last, "2026-01-04")
    (said,) = fold(spark, tmp_path, units_max=1)
    stopped = progress(tmp_path)
    assert stopped is not None
    assert stopped.folded.items() >= killed.unit.items()
    killed_count = stopped.record_count - killed.record_count
    assert said.endswith(f"of {count:,} {FOLDED}")

    with open_test_ledger(spark, tmp_path) as ledger:
        assert unread_since(ledger, ledger.storage, COORDINATOR_RECORDS, readers(ledger.storage)) is not None
        with pytest.raises(InputError, match="first history is not finished"):
            update_incidents(ledger)
    read_before = sum(read)
    fold(spark, tmp_path)
    assert progress(tmp_path) is None
    assert [each.next_version > 0 for each in readers(LocalStorage(tmp_path))] == [True]
    assert_equal_tables(tmp_path, whole)
    assert fold(spark, tmp_path) == []
    assert sum(read) - read_before <= 2 * (count - stopped.record_count)
    assert sum(read) <= 2 * (count + killed_count)


def test_a_rebuild_in_between(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a rebuild that is asked for before the first fold has ended takes the place of what is left of it. One that
    was stopped starts over if it is asked for again, since records that it has folded have changed."""
    append(spark, tmp_path, simulated.rows)
    monkeypatch.setattr(PER_UNIT, simulated.rows.count() // 3)
    fold(spark, tmp_path, units_max=1)
    assert progress(tmp_path) is not None
    begun = []
    for units_max in (1, 1_000):
        with open_test_ledger(spark, tmp_path) as ledger:
            request_rebuild(ledger.storage, ledger.lease, "records were decoded again", 0)
        begun.append(fold(spark, tmp_path, units_max)[0])
    assert begun[0] == begun[1]
    assert progress(tmp_path) is None
    assert fold(spark, tmp_path) == []
    assert_equal_tables(tmp_path, whole)


def test_holes_and_thinned_stretches(
    spark: SparkSession, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: where the log has holes and stretches that Kafka's cleaner has thinned, units meet them as one fold does,
    though some groups have no record after them."""
    readings, is_lost = damaged(simulated)
    known = simulated.rows.where(~is_lost).persist()
    for name in ("at-once", "in-units"):
        append(spark, tmp_path / name, known, readings=readings)
        fold(spark, tmp_path / name)
        monkeypatch.setattr(PER_UNIT, known.count() // 5)
    known.unpersist()
    assert_equal_tables(tmp_path / "in-units", tmp_path / "at-once")
