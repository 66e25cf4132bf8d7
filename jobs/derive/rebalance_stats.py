"""Keeps the table `rebalance_stats` up to date: counts again those windows of time that a batch of the history has
changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.troubles import gathering, groups_in, look_for_anybody, note_troubles
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.tables import every_row
from groupledger.jobs.warehouse.upsert import bounding_column, earliest_us, replace_cluster, upsert, upsert_arrow
from groupledger.schemas.instants import instant_of_us
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
    from datetime import datetime

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import Condition
    from groupledger.schemas.tables.table import Table

COUNTED = (REBALANCES, MEMBERS, ASSIGNMENTS)


def update_rebalance_stats(ledger: Ledger, written: Mapping[Table, pa.Table]) -> None:
    """Counts again the windows that a batch has changed. `written` has, by table, the rows that the batch has just
    written. If counting fails on a group, its windows stay as they were."""
    times = [time_us for table in COUNTED if (time_us := earliest_us(written[table], table)) is not None]
    if not times:
        return
    rules = rules_from(StatsRules, ledger.settings.history)
    since_us = _counted_since_us(min(times), rules)
    groups = {group for table in COUNTED for group in written[table].column("group_id").unique().to_pylist()}
    near = {table.name: rows_since(ledger, table, since_us, groups) for table in COUNTED}
    report = gathering(ledger)
    found = stats_in_memory({table.name: written[table] for table in COUNTED}, near, rules, report)
    upsert_arrow(ledger, REBALANCE_STATS, found)
    note_troubles(ledger, TroubledStep.REBALANCE_STATS, report.taken(), groups)
    look_for_anybody(ledger, TroubledStep.REBALANCE_STATS, lambda: groups_in(ledger, REBALANCE_STATS))


def update_stats_of_many(ledger: Ledger, written: Mapping[Table, DataFrame]) -> None:
    """Does the same as `update_rebalance_stats` for a batch whose rows stay in Spark's tasks."""
    rules = rules_from(StatsRules, ledger.settings.history)
    rebalances, members, assignments = (written[table] for table in COUNTED)
    touched = touches(rebalances, members, assignments, rules)
    earliest, groups = touched.agg(F.min(F.unix_micros("at")), F.collect_set("group_id")).collect()[0]
    if earliest is None:
        return
    since = instant_of_us(max(_counted_since_us(earliest, rules), 0))
    # A micro-batch has a session of its own.
    tables = replace(ledger, spark=touched.sparkSession)
    rebalances, members, assignments = (tables.rows_within(table, _ends_at_or_after(table, since)) for table in COUNTED)
    report = gathering(ledger)
    found = rebalance_stats(touched, rebalances, members, assignments, rules, report).persist()
    try:
        upsert(ledger, REBALANCE_STATS, found, found.count())
    finally:
        found.unpersist()
    note_troubles(ledger, TroubledStep.REBALANCE_STATS, report.taken(), groups)
    look_for_anybody(ledger, TroubledStep.REBALANCE_STATS, lambda: groups_in(ledger, REBALANCE_STATS))


def _counted_since_us(earliest_us: int, rules: StatsRules) -> int:
    """Returns the time from which rows have to be read, if the earliest change is at `earliest_us`: the start of its
    day, and before that the time in which a storm may have begun."""
    day_us = LENGTHS_US[StatsWindow.DAY]
    return earliest_us // day_us * day_us - rules.reach_ms * 1_000


def _ends_at_or_after(table: Table, since: datetime) -> Condition:
    return lambda column: column(str(bounding_column(table))) >= since


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
    """Returns the rows of some groups whose time is `since_us` or later, in microseconds since the epoch: the end of
    rows that end, else their one fixed time."""
    since = pa.scalar(since_us, pa.timestamp("us", "UTC"))
    is_near = (pc.field(str(bounding_column(table))) >= since) & pc.field("group_id").isin(
        pa.array(groups, pa.string())
    )
    return ledger.arrow(table, is_near)
