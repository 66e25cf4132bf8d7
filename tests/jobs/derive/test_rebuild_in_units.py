"""Goal: a rebuild in units gives the tables of a rebuild at once, wherever it is killed, and until its end readers see
the old ones."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.derive.history import TABLES, rebuild_history, update_history
from groupledger.jobs.warehouse.readers import readers, unread_since
from groupledger.jobs.warehouse.rebuild_units import unfinished_units
from groupledger.jobs.warehouse.rebuilds import is_unfinished
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.upsert import replace_cluster, upsert_arrow
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.killed import KillBefore, KilledError
from tests.jobs.simulated_log import append, assert_equal_tables, content, damaged, run, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.transforms.coverage.rules.stretches import Reading
    from tests.jobs.simulated_log import Simulated

PER_UNIT = "groupledger.jobs.derive.first_fold.RECORDS_PER_UNIT"
ASIDE = "_groupledger/test/rebuild_aside"
OLD, NEW, NEWER = "2026-01-03", "2026-01-04", "2026-01-05"
TABLES_OF_UNIT = len(TABLES) - 1  # rebalance_stats is counted at the end
SILENT = "mix-0000"  # has no record that retention has left
UNITS = 3


def pass_over(spark: SparkSession, warehouse: Path, job: Callable[..., Any] = update_history) -> list[int]:
    """Runs the history, and returns how many records it says are folded, after each unit."""
    said: list[str] = []
    with open_test_ledger(spark, warehouse) as ledger:
        job(replace(ledger, say=said.append), threading.Event())
    return [int(text.split()[1].replace(",", "")) for text in said if "records folded" in text]


def thinned(spark: SparkSession, simulated: Simulated, warehouse: Path) -> tuple[int, dict[int, list[Reading]]]:
    """Makes a history of a log with holes and thinned stretches, whose oldest records retention has removed. Returns
    how many records are left, and how the log was read."""
    readings, is_lost = damaged(simulated)
    append(spark, warehouse, simulated.between(0, 20).where(~is_lost), OLD, readings)
    left = simulated.between(20, 50).where(~is_lost & (F.col("group_id") != SILENT))
    append(spark, warehouse, left, NEW, readings)
    run(spark, warehouse)
    records = DeltaTable.forPath(spark, str(warehouse / COORDINATOR_RECORDS.name))
    records.delete(F.col("ingest_date") == F.lit(OLD))
    return left.count(), readings


def test_kills(spark: SparkSession, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: killed in its second unit, and again between two tables that it replaces, a rebuild goes on where it was,
    with more records since, and with the rows that it carries over: the tables are those of a rebuild at once. Until
    it replaces them they are the old ones; until it has ended nobody may remove records; and nothing is left aside."""
    warehouse, at_once = tmp_path / "in-units", tmp_path / "at-once"
    count, readings = thinned(spark, simulated, warehouse)
    shutil.copytree(warehouse, at_once)
    old, storage = {each: content(warehouse, each) for each in TABLES}, LocalStorage(warehouse)
    monkeypatch.setattr(PER_UNIT, count // UNITS)
    with monkeypatch.context() as patched:
        patched.setattr("groupledger.jobs.derive.history.upsert_arrow", KillBefore(upsert_arrow, TABLES_OF_UNIT + 3))
        with pytest.raises(KilledError):
            pass_over(spark, warehouse, rebuild_history)
    killed = unfinished_units(storage, "test")
    assert killed is not None
    assert killed.fold.folded
    assert killed.fold.unit
    assert {each: content(warehouse, each) for each in TABLES} == old
    assert is_unfinished(storage, "test")
    with open_test_ledger(spark, warehouse) as ledger:
        assert unread_since(ledger, storage, COORDINATOR_RECORDS, readers(storage)) is not None

    for each in (warehouse, at_once):
        append(spark, each, simulated.between(50, 61).where(F.col("group_id") != SILENT), NEWER, readings)
    with monkeypatch.context() as patched:
        patched.setattr("groupledger.jobs.derive.rebuild_in_units.replace_cluster", KillBefore(replace_cluster, 3))
        with pytest.raises(KilledError):
            pass_over(spark, warehouse)
    folded = unfinished_units(storage, "test")
    assert folded is not None
    assert folded.folder == killed.folder
    assert folded.retained_from == killed.retained_from
    assert content(warehouse, OPEN_GROUPS) == old[OPEN_GROUPS]
    assert pass_over(spark, warehouse) == []
    assert not is_unfinished(storage, "test")
    assert storage.names(ASIDE) == []
    assert pass_over(spark, warehouse) == []

    monkeypatch.undo()
    pass_over(spark, at_once, rebuild_history)
    silent = table(spark, at_once, GENERATIONS).where(F.col("group_id") == SILENT)
    assert [*silent.select("is_carried_over").distinct().collect()] == [(True,)]
    assert_equal_tables(warehouse, at_once)
