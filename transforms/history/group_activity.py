"""Finds the groups that rebalance or commit most, or that read a topic: one row per group.

The inputs are rows of tables, of one cluster or several. To count a window of time only, filter them before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.kinds.changes import GROUP_STARTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GROUP = ["cluster", "group_id"]


def is_birth() -> Column:
    """Returns whether a row of `rebalances` only tells that a group came into being, which is no rebalance."""
    return F.coalesce(F.exists("changes", lambda change: change["kind"] == GROUP_STARTED.name), F.lit(False))


def true_rebalances(rebalances: DataFrame) -> DataFrame:
    return rebalances.where(~is_birth())


def rebalance_counts(rebalances: DataFrame) -> DataFrame:
    """Returns how often each group rebalanced and at what cost: a row for each group.

    Increments of the generation without a record are counted apart, and an unknown cost is left out. A trigger from the
    server log replaces the inferred one.
    """
    is_told = "trigger" in rebalances.columns
    trigger = F.coalesce("trigger", "inferred_trigger") if is_told else F.col("inferred_trigger")
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


def commit_counts(log: DataFrame) -> DataFrame:
    """Returns how often each group committed: a row for each group. `log` is a `commit_log`."""
    return (
        log.where(~F.col("is_tombstone"))
        .groupBy(*GROUP)
        .agg(
            F.count("*").alias("commits"),
            F.countDistinct("topic", "partition").alias("partitions"),
            F.min("kafka_timestamp").alias("first_commit_at"),
            F.max("kafka_timestamp").alias("last_commit_at"),
        )
    )


def topic_readers(
    groups: DataFrame, assignments: DataFrame, members: DataFrame, log: DataFrame, topic: str
) -> DataFrame:
    """Returns a row for each group that owns partitions of a topic now, has members that subscribe to it, or has
    committed offsets in it, as a simple consumer has and a group that read the topic once."""
    is_open, is_topic = F.col("is_open") == 1, F.col("topic") == F.lit(topic)
    owned = assignments.where(is_open & is_topic).groupBy(*GROUP).agg(F.count("*").alias("partitions_owned"))
    subscribed = members.where(is_open & F.array_contains("subscribed_topics", topic))
    subscribed = subscribed.groupBy(*GROUP).agg(F.count("*").alias("members_subscribed"))
    partitions = log.where(is_topic).groupBy(*GROUP, "partition")
    newest = partitions.agg(
        F.max_by(F.struct("is_tombstone", "committed_offset", "kafka_timestamp"), "kafka_offset").alias("newest")
    )
    committed = (
        newest.where(~F.col("newest.is_tombstone") & F.col("newest.committed_offset").isNotNull())
        .groupBy(*GROUP)
        .agg(
            F.count("*").alias("partitions_committed"),
            F.max("newest.kafka_timestamp").alias("last_commit_at"),
        )
    )
    readers = owned.join(subscribed, GROUP, "full").join(committed, GROUP, "full")
    return readers.na.fill(0).join(groups.select(*GROUP, "group_type", "is_simple"), GROUP, "left")
