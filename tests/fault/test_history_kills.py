"""Goal: `groupledger history`, killed between two table writes and started again, writes the history that it would."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from lab.warehouses.ledgers import make_tables
from tests.fault.topic import LedgerProcess, wait_until
from tests.jobs.simulated_log import append, assert_equal_tables, run, simulate, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

HOLDER = Path(__file__).parents[1] / "jobs" / "warehouse" / "hold_syscall.c"


def kill_before(warehouse: Path, shim: Path, table: Table) -> None:
    """SIGKILL to Python and Java at once, in the very call that would commit rows to a table: behind the table before,
    and before this one."""
    version = open_table(str(warehouse), table).version()
    mark = shim.with_name(f"held-before-{table.name}-{version}")
    environment = {"LD_PRELOAD": str(shim), "HOLD_NAME": f"/{table.name}/_delta_log/0", "HOLD_MARK": str(mark)}
    # The first call makes the writer's fence.
    environment |= {"HOLD_CALL": "2", "HOLD_UNTIL": str(mark.with_name("never"))}
    with LedgerProcess("history", warehouse, environment=environment) as process:
        wait_until(lambda: mark.exists() or process.process.poll() is not None, f"the commit to {table.name}")
        assert process.process.poll() is None, process.finish()
        process.kill(with_java=True)
    assert open_table(str(warehouse), table).version() == version + 1


def test_killed_between_two_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: kills behind the first table and before the last but one of the first fold, and before the last table of a
    micro-batch: equal tables, and the state that says how far they go is never ahead of them."""
    shim = tmp_path / "hold.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, HOLDER, "-ldl"], check=True)
    simulated = simulate(spark, tmp_path)
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    append(spark, killed, simulated.between(0, 20))
    make_tables(killed, *TABLES)
    kill_before(killed, shim, MEMBERS)
    kill_before(killed, shim, GROUPS)
    assert table(spark, killed, OPEN_GROUPS).isEmpty()
    run(spark, killed, update_history)
    append(spark, killed, simulated.between(20, 61))
    kill_before(killed, shim, OPEN_GROUPS)
    run(spark, killed, update_history)
    append(spark, unbroken, simulated.rows)
    run(spark, unbroken, update_history)
    assert_equal_tables(spark, killed, unbroken)
