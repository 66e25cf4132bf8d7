"""`rebalance_stats` behind the tables that it is counted from: the windows that a batch of history touched, anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from jobs.upsert import earliest_time, replace_cluster, upsert
from jobs.warehouse import table_path
from schemas.tables.assignments import ASSIGNMENTS
from schemas.tables.members import MEMBERS
from schemas.tables.rebalance_stats import REBALANCE_STATS
from schemas.tables.rebalances import REBALANCES
from transforms.rebalance_stats import StatsRules, rebalance_stats, touched_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from jobs.ledger import Ledger
    from schemas.tables.table import Table

# Each with the column that places a row in a window.
COUNTED = {REBALANCES: "happened_at", MEMBERS: "left_at", ASSIGNMENTS: "valid_to"}


def update_rebalance_stats(ledger: Ledger, written: Mapping[Table, DataFrame], *, is_rebuild: bool) -> None:
    """`written` are the rows of the three tables that a batch has just written."""
    rules = stats_rules(ledger)
    windows = touched_windows(written[REBALANCES], written[MEMBERS], written[ASSIGNMENTS], rules).persist()
    try:
        earliest = earliest_time(windows, "window_start")
        if earliest is None:  # a rebuild of no history at all
            earliest = F.timestamp_micros(F.lit(0))
        since = earliest - F.make_dt_interval(secs=F.lit(rules.reach_ms / 1000))
        rebalances, members, assignments = (rows_since(ledger, table, since, windows) for table in COUNTED)
        found = rebalance_stats(windows, rebalances, members, assignments, rules)
        if is_rebuild:
            replace_cluster(ledger.warehouse, REBALANCE_STATS, ledger.cluster, found)
        else:
            upsert(ledger.warehouse, REBALANCE_STATS, found.persist())
            found.unpersist()
    finally:
        windows.unpersist()


def rows_since(ledger: Ledger, table: Table, since: Column, windows: DataFrame) -> DataFrame:
    """What the transform needs of a table, in the session of the batch."""
    rows = windows.sparkSession.read.format("delta").load(table_path(ledger.warehouse, table))
    return rows.where((F.col("cluster") == F.lit(ledger.cluster)) & (F.col(COUNTED[table]) >= since))


def stats_rules(ledger: Ledger) -> StatsRules:
    settings = ledger.settings.history
    return StatsRules(
        storm_rebalances=settings.storm_rebalances,
        storm_rebalances_per_member=settings.storm_rebalances_per_member,
        storm_window_ms=settings.storm_window_s * 1000,
        flapping_tenures=settings.flapping_tenures,
        flapping_tenure_ms=settings.flapping_tenure_s * 1000,
        flapping_owners=settings.flapping_owners,
    )
