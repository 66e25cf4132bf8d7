"""Finds the groups that rebalance or commit most, that read a topic, or whose offsets will expire: one row per group.

The inputs are rows of tables, of one cluster or several. To count a window of time only, filter them before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.kinds.changes import GROUP_STARTED

if TYPE_CHECKING:
    from datetime import datetime, timedelta

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


def idle_groups(
    groups: DataFrame, generations: DataFrame, as_of: datetime, idle_for: timedelta, retention: timedelta
) -> DataFrame:
    """Returns a row for each group that had no members for at least this long, and whose offsets Kafka will expire.

    Kafka's OffsetExpirationConditionImpl counts from when a group became empty. It counts from each commit for a simple
    consumer, and where the group's record does not tell when it became empty: the last commit is the one that counts
    here, since with it the last offset goes.
    """
    empty = generations.where(F.col("is_current") & (F.col("member_count") == 0) & (F.col("protocol_type") != ""))
    empty = empty.select(*GROUP, F.col("current_state_at").alias("empty_since"))
    has_no_members = F.col("is_simple") | F.coalesce(F.col("member_count") == 0, F.lit(False))
    idle_since = F.coalesce("empty_since", "last_commit_at")
    found = groups.where(F.col("is_alive") & has_no_members & (F.col("committed_partition_count") > 0))
    found = found.join(empty, GROUP, "left").withColumn("idle_since", idle_since)
    return found.where(F.col("idle_since") <= F.lit(as_of - idle_for)).select(
        *GROUP,
        "is_simple",
        "committed_partition_count",
        "last_commit_at",
        "idle_since",
        (F.col("idle_since") + F.lit(retention)).alias("offsets_expire_at"),
    )
