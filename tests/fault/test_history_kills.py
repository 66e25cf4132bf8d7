"""Goal: `groupledger history`, killed between two table writes and started again, writes the history that it would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.derive.history import update_history
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES
from tests.fault.topic import LedgerProcess, newest, wait_until
from tests.jobs.simulated_log import append, assert_equal_tables, run, simulate, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table


def kill_behind(warehouse: Path, written: Table) -> None:
    """SIGKILL to Python and Java at once, as soon as a run has written a table, and so before it writes the next."""
    log = warehouse / written.name / "_delta_log"
    before = max(newest(log, ".json"), 0)  # version 0 makes the table
    state = warehouse / OPEN_GROUPS.name / "_delta_log"
    with LedgerProcess("history", warehouse) as process:
        wait_until(lambda: newest(log, ".json") > before, f"a commit to {written.name}")
        process.kill(with_java=True)
    assert newest(state, ".json") < newest(log, ".json"), "the run was over before it was killed"


def test_killed_between_two_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: kills behind the first table and in the middle of the first fold, and behind the last table but one of a
    micro-batch: equal tables, and the state that says how far they go is never ahead of them."""
    simulated = simulate(spark, tmp_path)
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    append(spark, killed, simulated.between(0, 20))
    kill_behind(killed, GENERATIONS)
    kill_behind(killed, REBALANCES)
    assert table(spark, killed, OPEN_GROUPS).isEmpty()
    run(spark, killed, update_history)
    append(spark, killed, simulated.between(20, 61))
    kill_behind(killed, GROUPS)
    run(spark, killed, update_history)
    append(spark, unbroken, simulated.rows)
    run(spark, unbroken, update_history)
    assert_equal_tables(spark, killed, unbroken)
