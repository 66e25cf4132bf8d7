"""Keeps `rebalance_stats` up to date: counts the windows again that a batch of history has touched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.upsert import bounding_column, is_since, replace_cluster, upsert
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import StatsWindow
from groupledger.transforms.history.rebalance_stats import LENGTHS_US, StatsRules, rebalance_stats, touches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

COUNTED = (REBALANCES, MEMBERS, ASSIGNMENTS)


def update_rebalance_stats(ledger: Ledger, written: Mapping[Table, DataFrame], earliest_us: int) -> None:
    """Counts again the windows that a batch touched. `written` are the rows that it has just written, by table; in the
    tables that are counted, nothing happened or ended before `earliest_us`."""
    rules = rules_from(StatsRules, ledger.settings.history)
    day_us = LENGTHS_US[StatsWindow.DAY]
    since_us = earliest_us // day_us * day_us
    touched = touches(written[REBALANCES], written[MEMBERS], written[ASSIGNMENTS], rules)
    reach_us = since_us - rules.reach_ms * 1_000
    rebalances, members, assignments = (rows_since(ledger, table, reach_us, touched.sparkSession) for table in COUNTED)
    found = rebalance_stats(touched, rebalances, members, assignments, rules)
    upsert(ledger, REBALANCE_STATS, found, since_us)


def rebuild_rebalance_stats(ledger: Ledger) -> None:
    rules = rules_from(StatsRules, ledger.settings.history)
    rebalances, members, assignments = (ledger.rows(table) for table in COUNTED)
    touched = touches(rebalances, members, assignments, rules)
    found = rebalance_stats(touched, rebalances, members, assignments, rules)
    replace_cluster(ledger, REBALANCE_STATS, found)


def rows_since(ledger: Ledger, table: Table, since_us: int, session: SparkSession) -> DataFrame:
    """Returns the rows of a table that the transform needs, read in the Spark session of the batch."""
    return replace(ledger, spark=session).rows(table).where(is_since(str(bounding_column(table)), since_us))
