"""Goal: a history that begins when retention has removed records already, or anew because its tables were lost, claims
nothing of what it never saw."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.owners import read_history
from groupledger.jobs.derive.history import rebuild_history
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.warehouse.ledger import floors_of, known_positions
from groupledger.jobs.warehouse.maintain import maintain
from groupledger.jobs.warehouse.source import read_source
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import Ownership
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.test_history import LAST_MINUTE, NEW, OLD
from tests.jobs.derive.test_history import RETAINED_FROM_MINUTE as FIRST_MINUTE
from tests.jobs.simulated_log import HOUR_MS, append, assert_equal_tables, run, table
from tests.jobs.warehouse.test_maintain import settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.jobs.simulated_log import Simulated

CUT_MINUTE = 45
NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)
DAYS_KEPT = 26


@pytest.fixture(scope="module")
def begun(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a history that began after retention had removed records, and went on. A test that writes takes a copy."""
    warehouse = tmp_path_factory.mktemp("begun")
    append(spark, warehouse, simulated.between(0, FIRST_MINUTE), OLD)
    append(spark, warehouse, simulated.between(FIRST_MINUTE, CUT_MINUTE), NEW)
    keep = settings(retention_days={"coordinator_records": DAYS_KEPT})
    maintain(spark, str(warehouse), keep, NOW, is_dry_run=False, say=lambda _text: None)
    run(spark, warehouse)
    append(spark, warehouse, simulated.between(CUT_MINUTE, LAST_MINUTE), NEW)
    run(spark, warehouse)
    return warehouse


def with_coverage(spark: SparkSession, warehouse: Path, copy: Path) -> ClusterRows:
    """Returns the rows of a copy that knows the log to its end."""
    shutil.copytree(warehouse, copy)
    with open_test_ledger(spark, copy) as ledger:
        source = read_source(ledger.storage, ledger.cluster)
        assert source is not None
        ledger.create(COVERAGE)
        write_coverage(ledger, source, known_positions(ledger), BEGAN_AT_MS + HOUR_MS)
    return ClusterRows(str(copy), "test")


def test_no_start_and_no_hole_is_claimed(spark: SparkSession, simulated: Simulated, whole: Path, begun: Path) -> None:
    """Goal: the start of a generation is known only if it equals the start in the whole history, and no generation that
    retention has removed is called a hole."""
    with open_test_ledger(spark, begun) as ledger:
        floors = floors_of(ledger)
    older = {
        row.group_id
        for row in simulated.truth.generations
        if row.kafka_offset is not None and row.kafka_offset < floors[row.kafka_partition].offset
    }
    first = F.min_by(F.struct("is_start_known", "kafka_offset"), "kafka_offset").alias("first")
    found = table(spark, begun, GENERATIONS).groupBy("group_id").agg(first).collect()
    assert {row.group_id for row in found} & older
    assert [row.group_id for row in found if row.group_id in older and row.first.is_start_known] == []
    start = ("group_id", "generation", "kafka_offset")
    starts = [table(spark, each, GENERATIONS).where("is_start_known").select(*start) for each in (begun, whole)]
    assert starts[0].exceptAll(starts[1]).isEmpty()
    holes = [
        table(spark, each, REBALANCES).where("is_hole").select("group_id", "kafka_offset") for each in (begun, whole)
    ]
    assert holes[0].exceptAll(holes[1]).isEmpty()


def test_no_owner_is_claimed(spark: SparkSession, whole: Path, begun: Path, tmp_path: Path) -> None:
    """Goal: a definite answer about an owner is the answer of the whole history; in the part that retention has removed
    there is no answer."""
    begin, truth = with_coverage(spark, begun, tmp_path / "begun"), with_coverage(spark, whole, tmp_path / "whole")
    definite = 0
    for name in sorted(row["group_id"] for row in begin.rows("groups", columns=("group_id",))):
        found, expected = read_history(begin, name), read_history(truth, name)
        for minute in range(1, 60, 2):
            at = datetime.fromtimestamp(BEGAN_AT_MS / 1_000, timezone.utc) + timedelta(minutes=minute)
            known = expected.owners_at(at)
            for place, answer in found.owners_at(at).items():
                if answer.status != Ownership.UNKNOWN:
                    assert minute >= FIRST_MINUTE
                    assert (answer.status, answer.member_ids) == (known[place].status, known[place].member_ids)
                    definite += 1
    assert definite


def test_tables_that_are_lost_behind_retention(spark: SparkSession, begun: Path, tmp_path: Path) -> None:
    """Goal: a history whose tables were removed is made anew as one that begins after retention, and is the same
    one."""
    warehouse = tmp_path / "copy"
    shutil.copytree(begun, warehouse)
    for lost in (GENERATIONS, GROUPS):
        shutil.rmtree(warehouse / lost.name)
    run(spark, warehouse, rebuild_history)
    assert_equal_tables(warehouse, begun)
