"""Goal: what is read without Spark of a past that is ten times as long is no more, but for what is read whole.

`bench.opened_files` counts the same for the jobs of a pass that need Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.opened_files import CLOSED, JOBS, PAST, READ_WHOLE, closed_rows, write_past
from groupledger.jobs.warehouse.upsert import upsert_arrow
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.opened_files import opened_files

if TYPE_CHECKING:
    from bench.opened_files import Found

OF_DRIVER = ("coordinator_faults", "known_until")


def opened(folder: Path, days: int) -> Found:
    """Returns what the jobs of the driver open after so many days, and the merges of rows that end then."""
    with open_test_ledger(None, folder / f"{days}") as ledger:  # type: ignore[arg-type]
        write_past(ledger, days)
        found: Found = {}
        for name in OF_DRIVER:
            with opened_files(Path(ledger.warehouse)) as found[name]:
                JOBS[name](ledger)
        for table in CLOSED:
            rows = closed_rows(table)(ledger.cluster, np.array([days * PAST.rounds_a_day]))
            with opened_files(Path(ledger.warehouse)) as found[f"merge into {table.name}"]:
                upsert_arrow(ledger, table, rows)
    return found


def test_nothing_grows_with_the_past(tmp_path: Path) -> None:
    """Goal: the driver's jobs and merges open as many files, with as many rows; the merges none of what has ended."""
    short, long = (opened(tmp_path, days) for days in (1, 10))
    grown = {(job, table) for job in long for table in long[job] if long[job][table] != short[job].get(table)}
    assert grown == READ_WHOLE
    assert [long[f"merge into {table.name}"] for table in CLOSED] == [{}] * len(CLOSED)
