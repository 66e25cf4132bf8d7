"""Goal: a pass opens as many files, with as many rows, after a past that is ten times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.opened_files import (
    CLOSED,
    LONG_DAYS,
    PAST,
    READ_OF_JUDGED,
    SHORT_DAYS,
    closed_rows,
    grown,
    passes,
    write_past,
)
from groupledger.jobs.warehouse.upsert import upsert_arrow
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.opened_files import opened_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.warehouses.opened_files import Opened


def test_no_job_opens_more(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: in a quiet round, which the driver folds, and in one with findings, which Spark's tasks fold, no job opens
    more after the longer past with incidents. Only of a group that has an incident now all history is read."""
    short, long = (passes(spark, tmp_path, days) for days in (SHORT_DAYS, LONG_DAYS))
    assert grown(short, long) == [set(), READ_OF_JUDGED]


def test_merges_open_nothing_that_has_ended(tmp_path: Path) -> None:
    """Goal: rows that end now are merged into the tables of the history without a look at those that ended before."""
    days = 10
    opened: dict[str, dict[str, Opened]] = {}
    with open_test_ledger(None, tmp_path) as ledger:  # type: ignore[arg-type]
        write_past(ledger, days)
        for table in CLOSED:
            rows = closed_rows(table)(ledger.cluster, np.array([days * PAST.rounds_a_day]))
            with opened_files(tmp_path) as opened[table.name]:
                upsert_arrow(ledger, table, rows)
    assert opened == {table.name: {} for table in CLOSED}
