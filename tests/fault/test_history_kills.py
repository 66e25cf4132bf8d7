"""Goal: `groupledger history`, killed between two table writes and started again, writes the history that it would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from lab.faults.shim import Shim, Twist, build_shim
from lab.warehouses.ledgers import make_tables
from tests.fault.topic import LedgerProcess, wait_until
from tests.jobs.simulated_log import append, assert_equal_tables, run, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table
    from tests.jobs.simulated_log import Simulated


def kill_before(warehouse: Path, library: Path, table: Table) -> None:
    """SIGKILL to Python and Java at once, in the very call that would commit rows to a table: after the table before,
    and before this one."""
    version = open_table(str(warehouse), table).version()
    folder = library.with_name(f"{table.name}-{version}")
    folder.mkdir()
    # The first commit is the writer's fence.
    rows = warehouse / table.name / "_delta_log" / f"{version + 2:020}.json"
    shim = Shim(library, rows, folder, Twist(act="hold", at=1))
    with LedgerProcess("history", warehouse, environment=shim.environment) as process:
        wait_until(lambda: shim.mark.exists() or process.process.poll() is not None, f"the commit to {table.name}")
        assert process.process.poll() is None, process.finish()
        process.kill(with_java=True)
    assert open_table(str(warehouse), table).version() == version + 1


def test_killed_between_two_tables(spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path) -> None:
    """Goal: after kills between the first table and the last but one of the first fold, and before the last table of a
    micro-batch, the tables are equal to undisturbed ones, and the state that says how far they go is never ahead of
    them."""
    library = build_shim(tmp_path)
    killed = tmp_path / "killed"
    append(spark, killed, simulated.between(0, 20))
    make_tables(killed, *TABLES)
    kill_before(killed, library, MEMBERS)
    kill_before(killed, library, GROUPS)
    assert table(spark, killed, OPEN_GROUPS).isEmpty()
    run(spark, killed, update_history)
    append(spark, killed, simulated.between(20, 61))
    kill_before(killed, library, OPEN_GROUPS)
    run(spark, killed, update_history)
    assert_equal_tables(killed, whole)
