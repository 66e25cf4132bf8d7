"""Goal: a pass opens as many files, with as many rows, after a past that is ten times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.lag_cost import table_rows
from bench.opened_files import (
    CLOSED,
    LONG_DAYS,
    PAST,
    SHORT_DAYS,
    WITH_FINDINGS,
    closed_rows,
    final_after_a_day,
    grown,
    one_pass,
    passes,
    write_past,
)
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.tables.requests import REQUESTS
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.opened_files import opened_files
from tests.jobs.derive.incident_pieces import content, judged_at_once

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from lab.warehouses.opened_files import Opened


@pytest.fixture(scope="module")
def ledgers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Returns the folder of a ledger with a short past and one with a long past, and what passes opened in each."""
    folder = tmp_path_factory.mktemp("ledgers")
    short, long = (passes(spark, folder, days) for days in (SHORT_DAYS, LONG_DAYS))
    return folder, short, long


def test_no_job_opens_more(ledgers: tuple[Path, Any, Any]) -> None:
    """Goal: in a quiet round, which the driver folds, and in one with findings, which Spark's tasks fold, no job opens
    more after the longer past with incidents."""
    _, short, long = ledgers
    assert grown(short, long) == [set(), set()]


def refused(ledger: Ledger, line: int, at_ms: int) -> pa.Table:
    """Returns the line of a heartbeat of a member that the group does not know."""
    values = {
        "source_file": ["requests.log"],
        "line_number": np.array([line]),
        **dict.fromkeys(("happened_at", "logged_at"), np.array([at_ms * 1_000])),
        "happened_date": np.array([at_ms // DAY_MS]),
        "group_id": ["group-2"],
        "member_id": ["away"],
        "generation": np.array([7]),
        "api": ["HEARTBEAT"],
        "error_code": np.array([25]),
        "response_json": ["{}"],
    }
    return table_rows(REQUESTS, ledger.cluster, values)


def test_incidents_are_those_of_all_the_past(
    spark: SparkSession, ledgers: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    """Goal: passes that leave old incidents alone find the same as one that judges all the past: also after a line of
    days ago is imported, and after the same member, which was refused then, is refused once more."""
    warehouse = ledgers[0] / str(SHORT_DAYS)
    number = SHORT_DAYS * PAST.rounds_a_day + WITH_FINDINGS
    now_ms = int(PAST.at_ms(number))
    assert content(warehouse) == judged_at_once(spark, warehouse, tmp_path)
    for line, at_ms in enumerate((now_ms - 5 * DAY_MS // 2, now_ms - 1_000)):
        with final_after_a_day(spark, warehouse) as ledger:
            ledger.create(REQUESTS)
            ledger.commits.append(REQUESTS, refused(ledger, line, at_ms))
            one_pass(ledger, number + 1 + line)
        rows = content(warehouse)
        assert rows == judged_at_once(spark, warehouse, tmp_path)
        of_member = [row for row in rows if "('member_id', 'away')" in row]
        assert ["('occurrences', 1)" in row for row in of_member] == [line == 0]


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
