"""Goal: a writer that is stopped past its lease, and woken after another one has run, changes nothing."""

from __future__ import annotations

import os
import signal
import time
from shutil import copytree
from typing import TYPE_CHECKING

import yaml

from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.validate import damaged_groups
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from lab.warehouses.ledgers import open_test_ledger
from tests.fault.topic import LedgerProcess, newest, wait_until
from tests.jobs.simulated_log import assert_equal_tables, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Long enough for a busy machine to renew it.
LEASE_S = 20


def test_a_rebuild_that_is_stopped_and_woken(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """Goal: `history --rebuild` is stopped after its first table; a second writer finishes the rebuild; the first one
    wakes, makes no commit, says why in one sentence, and exits with 3. No table is of two passes."""
    stopped = tmp_path / "stopped"
    copytree(whole, stopped)
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"lease": {"duration_s": LEASE_S}}))
    log = stopped / GENERATIONS.name / "_delta_log"
    states = newest(stopped / OPEN_GROUPS.name / "_delta_log", ".json")
    before = newest(log, ".json")
    with LedgerProcess("history", stopped, "--rebuild", "--conf", str(settings)) as first:
        ended = first.process.poll
        wait_until(lambda: newest(log, ".json") > before + 1 or ended() is not None, "a commit after the fence")
        assert ended() is None, first.finish()
        os.killpg(first.process.pid, signal.SIGSTOP)
        assert newest(stopped / OPEN_GROUPS.name / "_delta_log", ".json") == states + 1, "only fenced"
        time.sleep(LEASE_S)  # by the clock of the lease; no test waits for less
        run(spark, stopped, update_history)
        versions = {table: open_table(str(stopped), table).version() for table in TABLES}
        os.killpg(first.process.pid, signal.SIGCONT)
        code, said = first.finish()
    assert code == 3, said
    assert "Another writer took over this warehouse" in said
    assert "Traceback" not in said
    assert {table: open_table(str(stopped), table).version() for table in TABLES} == versions
    assert_equal_tables(stopped, whole)
    with open_test_ledger(spark, stopped) as ledger:
        assert damaged_groups(ledger) == []
