"""Selects the steps of commits that a rule of incidents may look at. A group that commits rarely has a step for each of
its commits; most of them never leave Spark.

A rule looks at

- steps that may be an incident by themselves (`is_suspect`), and the first commits of new partitions,
- silences that are too long for the usual interval, also those in which nothing waited: a member has a gap in its
  commits only if all its partitions were silent,
- silences so long that a pass may not read the commit before any more (`incidents.final_after_s`),
- last commits,
- other steps after which records waited while nobody could read them: the group had no members or was in a long
  rebalance, or a member held a partition back.

Any other step changes no incident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.transforms.incidents.commit_steps import is_telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.transforms.incidents.rules import Rules

TIME = ("group_id", "from_ms", "until_ms")
ALWAYS_MS = (1 << 63) - 1


def times_without_members(generations: DataFrame) -> DataFrame:
    """Returns the times in which groups had no members, in the columns `TIME`."""
    return generations.where("member_count = 0").select(
        *("group_id", F.unix_millis("started_at").alias("from_ms")),
        F.coalesce(F.unix_millis("ended_at"), F.lit(ALWAYS_MS)).alias("until_ms"),
    )


def needed_steps(steps: DataFrame, unread: DataFrame, rules: Rules, as_of_ms: int) -> DataFrame:
    """Returns the steps that a rule may look at. `unread` has the times in which nobody could read, in the columns
    `TIME`."""
    is_needed = is_telling(rules, as_of_ms) | F.col("new_from_ms").isNotNull() | F.col("next_kafka_offset").isNull()
    is_needed |= F.col("next_at_ms") - F.col("at_ms") >= rules.final_after_ms
    waiting = steps.where(~is_needed & F.col("waiting_from_ms").isNotNull())
    waiting = waiting.join(F.broadcast(unread.select("group_id").distinct()), "group_id", "left_semi")
    # A step meets a time if one that began by its next commit lasted until its commit: so the latest end is enough.
    times = unread.select("group_id", "until_ms", F.col("from_ms").alias("by_ms"))
    every = waiting.withColumn("by_ms", F.col("next_at_ms")).unionByName(times, allowMissingColumns=True)
    lasted_ms = F.max("until_ms").over(Window.partitionBy("group_id").orderBy("by_ms"))
    met = every.withColumn("lasted_ms", lasted_ms).where("kafka_offset IS NOT NULL AND lasted_ms >= at_ms")
    return steps.where(is_needed).unionByName(met.select(*steps.columns))
