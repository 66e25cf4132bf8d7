"""What earlier rounds leave for the next: the state of `transforms.lag.rules`, read back from the tables as events.

topic_seeds    of each topic partition: its topic ids, and the samples that a `TopicWindow` would still hold
group_seeds    of each group: its last commits with the watermark before each, and its last rows of `lag`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.lag.lag import at_ms, commit_events, is_below, read_samples
from groupledger.transforms.lag.rules.of_group import COMMIT, POINT, TOPIC
from groupledger.transforms.lag.rules.status import POINTS_PER_WINDOW
from groupledger.transforms.lag.rules.topic_window import BUCKETS_PER_AGE, RECENT_ENDS_MAX, WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from groupledger.transforms.lag.rules import End, LagRules

PLACE = ("topic", "partition")


def topic_seeds(watermarks: DataFrame) -> DataFrame:
    """Returns events from `watermarks` of earlier rounds. They may be more than needed, since a window thins them."""
    samples = read_samples(watermarks)
    ids = samples.groupBy(*PLACE, "topic_id").agg(
        F.max("at_ms").alias("at_ms"),
        F.max("high_watermark").alias("high_watermark"),
        F.bool_or(F.col("last_stable_offset") < F.col("high_watermark")).alias("has_transactions"),
    )
    newest = Window.partitionBy(*PLACE)
    age = F.max("at_ms").over(newest) - F.col("at_ms")
    aged = samples.withColumn("age", age).where(F.col("age") <= WINDOW_MS)
    # As `bucket_ms`, in whole numbers: the length of the binary digits.
    aged = aged.withColumn("width", F.expr(f"shiftleft(1L, length(bin(age DIV {BUCKETS_PER_AGE})) - 1)"))
    bucket = Window.partitionBy(*PLACE, "width", F.expr("at_ms DIV width")).orderBy(F.desc("at_ms"))
    recent = Window.partitionBy(*PLACE).orderBy(F.desc("at_ms"))
    kept = aged.withColumn("in_bucket", F.row_number().over(bucket)).withColumn("rank", F.row_number().over(recent))
    kept = kept.where((F.col("in_bucket") == 1) | (F.col("rank") <= RECENT_ENDS_MAX))
    return ids.withColumn("kind", F.lit(TOPIC)).unionByName(
        kept.drop("age", "width", "in_bucket", "rank"), allowMissingColumns=True
    )


def group_seeds(
    watermarks: DataFrame,
    commits: DataFrame,
    lag: DataFrame,
    ends_before: Mapping[int, tuple[int, End]],
    rules: LagRules,
) -> DataFrame:
    """Returns events from what the rounds before left; all arguments are of these rounds."""
    return _last_commits(watermarks, commits, ends_before, rules).unionByName(
        _last_points(lag, rules), allowMissingColumns=True
    )


def _last_commits(
    watermarks: DataFrame, commits: DataFrame, ends_before: Mapping[int, tuple[int, End]], rules: LagRules
) -> DataFrame:
    newest = Window.partitionBy("group_id", *PLACE).orderBy(F.desc("kafka_offset"))
    events = commit_events(commits.where(is_below(ends_before))).withColumn("rank", F.row_number().over(newest))
    last = events.where(F.col("rank") <= rules.burrow.intervals).drop("rank")
    offsets_topic = F.col("topic") == OFFSETS_TOPIC
    ends = watermarks.where(offsets_topic & F.col("last_stable_offset").isNotNull()).select(
        F.col("partition").alias("kafka_partition"),
        F.col("last_stable_offset").alias("kafka_offset"),
        at_ms().alias("before_ms"),
    )
    # An end stands before the commit at its offset: that commit was not below it.
    log = Window.partitionBy("kafka_partition").orderBy("kafka_offset", F.col("before_ms").asc_nulls_last())
    log = log.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = last.unionByName(ends, allowMissingColumns=True).withColumn(
        "before_ms", F.last("before_ms", ignorenulls=True).over(log)
    )
    samples = read_samples(watermarks).select(*PLACE, F.col("at_ms").alias("before_ms"), "high_watermark")
    return placed.where(F.col("kind") == COMMIT).join(samples, [*PLACE, "before_ms"], "left").drop("before_ms")


def _last_points(lag: DataFrame, rules: LagRules) -> DataFrame:
    """Returns events from the rows of `lag` of the last status window."""
    width_ms = max(rules.status.window_ms // POINTS_PER_WINDOW, 1)
    rows = lag.select(
        F.lit(POINT).alias("kind"),
        *("group_id", "topic", "partition", "committed_offset", "lag", "kafka_offset"),
        at_ms().alias("at_ms"),
        at_ms("no_progress_since").alias("since_ms"),
    )
    newest = Window.partitionBy("group_id", *PLACE, F.expr(f"at_ms DIV {width_ms}")).orderBy(F.desc("at_ms"))
    ranked = rows.withColumn("rank", F.row_number().over(newest))
    return ranked.where((F.col("rank") == 1) & F.col("committed_offset").isNotNull()).drop("rank")
