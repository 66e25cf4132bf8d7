"""Keeps `rebalance_stats` up to date: counts the windows again that a batch of history has touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.troubles import gathering, groups_in, look_for_anybody, note_troubles
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.tables import every_row
from groupledger.jobs.warehouse.upsert import bounding_column, earliest_us, replace_cluster, upsert_arrow
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import StatsWindow, TroubledStep
from groupledger.transforms.history.rebalance_stats import (
    LENGTHS_US,
    StatsRules,
    rebalance_stats,
    stats_in_memory,
    touches,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

COUNTED = (REBALANCES, MEMBERS, ASSIGNMENTS)


def update_rebalance_stats(ledger: Ledger, written: Mapping[Table, pa.Table]) -> None:
    """Counts again the windows that a batch touched. `written` are the rows that it has just written, by table. Windows
    of a group that can't be judged stay as they were."""
    times = [time_us for table in COUNTED if (time_us := earliest_us(written[table], table)) is not None]
    if not times:
        return
    rules = rules_from(StatsRules, ledger.settings.history)
    day_us = LENGTHS_US[StatsWindow.DAY]
    since_us = min(times) // day_us * day_us - rules.reach_ms * 1_000
    groups = {group for table in COUNTED for group in written[table].column("group_id").unique().to_pylist()}
    near = {table.name: rows_since(ledger, table, since_us, groups) for table in COUNTED}
    report = gathering(ledger)
    found = stats_in_memory({table.name: written[table] for table in COUNTED}, near, rules, report)
    upsert_arrow(ledger, REBALANCE_STATS, found)
    note_troubles(ledger, TroubledStep.REBALANCE_STATS, report.taken(), groups)
    look_for_anybody(ledger, TroubledStep.REBALANCE_STATS, lambda: groups_in(ledger, REBALANCE_STATS))


def rebuild_rebalance_stats(ledger: Ledger) -> None:
    rules = rules_from(StatsRules, ledger.settings.history)
    rebalances, members, assignments = (ledger.rows_within(table, every_row) for table in COUNTED)
    touched = touches(rebalances, members, assignments, rules)
    report = gathering(ledger)
    found = rebalance_stats(touched, rebalances, members, assignments, rules, report)
    replace_cluster(ledger, REBALANCE_STATS, found)
    note_troubles(ledger, TroubledStep.REBALANCE_STATS, report.taken())
    look_for_anybody(ledger, TroubledStep.REBALANCE_STATS, lambda: groups_in(ledger, REBALANCE_STATS))


def rows_since(ledger: Ledger, table: Table, since_us: int, groups: set[str]) -> pa.Table:
    """Returns the rows of some groups that lie or ended at a time or later."""
    since = pa.scalar(since_us, pa.timestamp("us", "UTC"))
    is_near = (pc.field(str(bounding_column(table))) >= since) & pc.field("group_id").isin(
        pa.array(groups, pa.string())
    )
    return ledger.arrow(table, is_near)
