"""Counts the rebalances of groups: one row per group.

The inputs are rows of tables, of one cluster or several. To count within a window of time, filter the rows first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.kinds.changes import GROUP_STARTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GROUP = ["cluster", "group_id"]


def is_birth() -> Column:
    """Returns a condition: the row of `rebalances` only says that a group was created, which does not count as a
    rebalance."""
    return F.coalesce(F.exists("changes", lambda change: change["kind"] == GROUP_STARTED.name), F.lit(False))


def true_rebalances(rebalances: DataFrame) -> DataFrame:
    return rebalances.where(~is_birth())


def rebalance_counts(rebalances: DataFrame) -> DataFrame:
    """Returns one row for each group: how often it rebalanced, and what that cost.

    Generations without a record are counted separately, as `increments_without_record`. Unknown costs are left out of
    the sums. If `rebalances` has the triggers of the server log, they replace the inferred ones.
    """
    has_trigger = "trigger" in rebalances.columns
    trigger = F.coalesce("trigger", "inferred_trigger") if has_trigger else F.col("inferred_trigger")
    return (
        true_rebalances(rebalances)
        .groupBy(*GROUP)
        .agg(
            F.count("*").alias("rebalances"),
            F.coalesce(F.sum("generation_gap"), F.lit(0)).alias("increments_without_record"),
            F.sum("partitions_moved").alias("partitions_moved"),
            F.max("pause_upper_ms").alias("longest_pause_upper_ms"),
            F.mode(trigger, deterministic=True).alias("most_frequent_trigger"),
            F.max("happened_at").alias("last_rebalance_at"),
        )
    )
