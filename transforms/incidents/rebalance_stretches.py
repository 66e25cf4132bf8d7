"""Finds the stretches of sampled states in which a classic group was in a rebalance and no generation began.

    rebalance_stretches(known, group_states, generations)   the stretches, those known before among them
    long_stretches(stretches, stuck_ms)                     those that are long enough to be stuck

Samples may come piece by piece, in order: a known stretch that is not over goes on with the next samples, and gives the
same as all samples at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("group_id", "first_ms", "last_ms", "state", "is_over")
_SAMPLE = ("group_id", "at_ms", "is_rebalancing", "state")


def rebalance_stretches(known: DataFrame, group_states: DataFrame, generations: DataFrame) -> DataFrame:
    """Returns the stretches, of any length; one that is not over ends with the last sample. `generations` are at least
    those that began after the known samples."""
    over, going_on = known.where("is_over"), known.where("NOT is_over")
    before = [
        going_on.select("group_id", F.col(name).alias("at_ms"), F.lit(True).alias("is_rebalancing"), "state")
        for name in ("first_ms", "last_ms")
    ]
    sampled = group_states.where(F.col("state").isNotNull()).select(
        "group_id",
        F.unix_millis("sampled_at").alias("at_ms"),
        F.col("state").isin(*CLASSIC_REBALANCING).alias("is_rebalancing"),
        "state",
    )
    # Few groups rebalance, and only theirs need to be put in order.
    busy = F.broadcast(sampled.where("is_rebalancing").union(before[0]).select("group_id").distinct())
    begun = generations.select("group_id", F.unix_millis("started_at").alias("at_ms"))
    begun = begun.withColumns({"is_rebalancing": F.lit(False), "state": F.lit(None).cast("string")})
    every = sampled.union(begun.select(*_SAMPLE)).join(busy, "group_id", "left_semi")
    every = every.select(*_SAMPLE).union(before[0]).union(before[1])
    of_group = Window.partitionBy("group_id")
    others = F.count_if(~F.col("is_rebalancing"))
    numbered = every.withColumns(
        {"number": others.over(of_group.orderBy("at_ms", "is_rebalancing")), "numbers": others.over(of_group)}
    )
    found = numbered.where("is_rebalancing").groupBy("group_id", "number", "numbers")
    stretches = found.agg(
        F.min("at_ms").alias("first_ms"), F.max("at_ms").alias("last_ms"), F.max_by("state", "at_ms").alias("state")
    )
    return stretches.withColumn("is_over", F.col("number") < F.col("numbers")).select(*COLUMNS).union(over)


def long_stretches(stretches: DataFrame, stuck_ms: int) -> DataFrame:
    return stretches.where(F.col("last_ms") - F.col("first_ms") >= stuck_ms)
