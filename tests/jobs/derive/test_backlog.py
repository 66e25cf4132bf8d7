"""Goal: a backlog that is folded in units gives the tables of one fold of everything, wherever it is killed or stopped,
and until its end everybody takes the history for what it was."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.derive.backlog import fold_backlog
from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.validate import damaged_groups
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.backlog import unfinished_backlog
from groupledger.jobs.warehouse.first_fold import unfinished_first_fold
from groupledger.jobs.warehouse.known_until import noted_until
from groupledger.jobs.warehouse.ledger import Ledger
from groupledger.jobs.warehouse.readers import readers
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.words import Source
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.killed import KillBefore, kill
from tests.jobs.simulated_log import append, assert_equal_tables, damaged, run

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from tests.jobs.simulated_log import Simulated

PER_UNIT = "groupledger.jobs.derive.first_fold.RECORDS_PER_UNIT"
WRITE, FOLD = (f"groupledger.jobs.derive.history.{name}" for name in ("upsert_arrow", "fold_backlog"))
TABLES_OF_UNIT = len(TABLES) - 1  # rebalance_stats is written by another module


def fold(spark: SparkSession, warehouse: Path, units_max: int = 1_000) -> list[int]:
    """Runs the history, gives it the signal to stop after so many units, and returns how many records of a batch it has
    said are folded, after each unit."""
    stop, said = threading.Event(), list[int]()

    def say(text: str) -> None:
        if "records folded" in text:
            said.append(int(text.split()[1].replace(",", "")))
        if len(said) == units_max:
            stop.set()

    with open_test_ledger(spark, warehouse) as ledger:
        update_history(replace(ledger, say=say), stop)
    return said


def fold_killed(spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: Any) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(name, by)
        with pytest.raises(OutsideError):  # the stream's
            fold(spark, warehouse)


def fold_and_die(*arguments: Any) -> None:
    """Folds all units, and kills its caller before the stream notes that they are done."""
    assert fold_backlog(*arguments)
    kill()


def test_kills_and_stops(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: killed in the middle of a unit, stopped between two units, and killed before the stream knows of the end,
    with a second backlog behind the first one: the tables are those of one fold."""
    until_ms = iter(range(1_000))
    monkeypatch.setattr("groupledger.jobs.derive.history.topic_until_ms", lambda _: next(until_ms))
    append(spark, tmp_path, simulated.between(0, 10))
    run(spark, tmp_path)
    storage = LocalStorage(tmp_path)
    before = readers(storage), noted_until(storage, "test", Source.HISTORY)
    first, second = simulated.between(10, 35).count(), simulated.between(35, 61).count()
    monkeypatch.setattr(PER_UNIT, first // 4)
    append(spark, tmp_path, simulated.between(10, 12))
    append(spark, tmp_path, simulated.between(12, 35))
    fold_killed(spark, tmp_path, monkeypatch, WRITE, KillBefore(upsert_arrow, TABLES_OF_UNIT + 3))
    killed = unfinished_backlog(storage, "test")
    assert killed is not None
    assert killed.fold.folded
    assert killed.fold.unit
    append(spark, tmp_path, simulated.between(35, 61))
    assert len(fold(spark, tmp_path, units_max=1)) == 1
    stopped = unfinished_backlog(storage, "test")
    assert stopped is not None
    assert stopped.fold.folded.items() >= killed.fold.unit.items()
    assert (readers(storage), noted_until(storage, "test", Source.HISTORY)) == before
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []

    fold_killed(spark, tmp_path, monkeypatch, FOLD, fold_and_die)
    ended = unfinished_backlog(storage, "test")
    assert ended is not None
    assert ended.fold.record_count == first
    said = fold(spark, tmp_path)
    assert said[-1] == second
    assert unfinished_backlog(storage, "test") is None
    assert noted_until(storage, "test", Source.HISTORY) != before[1]
    assert_equal_tables(tmp_path, whole)
    assert fold(spark, tmp_path) == []


def test_a_backlog_behind_the_first_fold(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: what has come during the first fold is folded in units, too, and until then the history is not made."""
    append(spark, tmp_path, simulated.between(0, 10))
    first = Tables(spark, str(tmp_path)).version(COORDINATOR_RECORDS)
    append(spark, tmp_path, simulated.between(10, 61))
    storage, count = LocalStorage(tmp_path), simulated.between(10, 61).count()
    monkeypatch.setattr(PER_UNIT, count // 2)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "version", lambda *_: first)
        fold(spark, tmp_path, units_max=1)
    assert unfinished_backlog(storage, "test") is not None
    assert unfinished_first_fold(storage, "test") is not None
    assert fold(spark, tmp_path)[-1] == count
    assert unfinished_first_fold(storage, "test") is None
    assert_equal_tables(tmp_path, whole)


def test_a_batch_that_was_begun_at_once(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a batch that was planned without a note, and killed, is folded at once again, and what has come since, in
    units."""
    append(spark, tmp_path, simulated.between(0, 10))
    run(spark, tmp_path)
    append(spark, tmp_path, simulated.between(10, 40))
    fold_killed(spark, tmp_path, monkeypatch, WRITE, KillBefore(upsert_arrow, 3))
    append(spark, tmp_path, simulated.between(40, 61))
    count = simulated.between(40, 61).count()
    monkeypatch.setattr(PER_UNIT, count // 2)
    assert fold(spark, tmp_path)[-1] == count
    assert_equal_tables(tmp_path, whole)


def test_holes_and_thinned_stretches(
    spark: SparkSession, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: where the log has holes and stretches that Kafka's cleaner has thinned, a backlog in units meets them as a
    single batch does."""
    readings, is_lost = damaged(simulated)
    at_once, in_units = tmp_path / "at-once", tmp_path / "in-units"
    append(spark, at_once, simulated.between(0, 10).where(~is_lost), readings=readings)
    run(spark, at_once)
    append(spark, at_once, simulated.between(10, 61).where(~is_lost), readings=readings)
    shutil.copytree(at_once, in_units)
    assert fold(spark, at_once) == []
    monkeypatch.setattr(PER_UNIT, simulated.rows.count() // 5)
    assert len(fold(spark, in_units)) > 1
    assert_equal_tables(in_units, at_once)
