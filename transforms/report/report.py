"""Selects the rows that a page of the report is drawn from, for the groups that it shows.

A page must open on a phone, so everything in it has a limit (`Limits`), and what a limit leaves out is counted. The
rules, in the order in which they are applied:
- Groups: those with the gravest incidents, then those that rebalance most, then those seen last.
- Partitions of a group: those that changed hands most.
- Intervals, tenures, records and incidents of a group: the newest, and an interval without an end is newer than any
  other. So the page is complete from some instant on, which `transforms.report.rules.report_ownership` finds.
- Lag: the period is cut into `lag_points` equal parts, and each shows its worst round.

A period is [since, until).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.words import Completeness, Severity, words_of
from groupledger.transforms.history.group_activity import GROUP, rebalance_counts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

SEVERITIES = words_of(Severity)[::-1]  # the gravest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits the rows of a page: `groups` is for the page, all others are for each group."""

    groups: int = 500
    partitions: int = 200
    intervals: int = 1_000
    records: int = 400
    members: int = 200
    incidents: int = 50
    lag_points: int = 240
    lag_partitions: int = 50


def overlapping(rows: DataFrame, begin: str, end: str, since: datetime, until: datetime) -> DataFrame:
    """Returns rows that hold at some instant of the period; a null end is open."""
    is_over = F.coalesce(F.col(end) <= F.lit(since), F.lit(False))
    return rows.where((F.col(begin) < F.lit(until)) & ~is_over)


def first_of_group(rows: DataFrame, order: Sequence[Column], limit: int) -> DataFrame:
    """Returns at most `limit` rows of each group, and in `of_group` how many rows the group has."""
    by_group = Window.partitionBy(*GROUP)
    return (
        rows.withColumn("of_group", F.count("*").over(by_group))
        .withColumn("_place", F.row_number().over(by_group.orderBy(*order)))
        .where(F.col("_place") <= limit)
        .drop("_place")
    )


def newest_intervals(intervals: DataFrame, limits: Limits) -> DataFrame:
    """Returns the newest intervals of the partitions that moved most; `partitions_left_out` counts the others."""
    by_group = Window.partitionBy(*GROUP)
    place = ["topic", "partition"]
    owners = F.count("*").over(Window.partitionBy(*GROUP, *place))
    ranked = intervals.withColumn("_owners", owners).withColumn(
        "_rank", F.dense_rank().over(by_group.orderBy(F.desc("_owners"), *place))
    )
    left_out = F.greatest(F.max("_rank").over(by_group) - limits.partitions, F.lit(0))
    drawn = ranked.withColumn("partitions_left_out", left_out).where(F.col("_rank") <= limits.partitions)
    order = [F.desc_nulls_first("valid_to"), F.desc("from_offset"), *map(F.col, place)]
    return first_of_group(drawn.drop("_owners", "_rank"), order, limits.intervals)


def all_intervals(assignments: DataFrame, connect_assignments: DataFrame) -> DataFrame:
    """Returns both kinds of interval: a connector is shown as a topic, its tasks as partitions, itself as -1."""
    names = {"connector": "topic", "task": "partition"}
    return assignments.unionByName(connect_assignments.withColumnsRenamed(names))


def newest_members(members: DataFrame, limits: Limits) -> DataFrame:
    return first_of_group(
        members, [F.desc_nulls_first("left_at"), F.desc("from_offset"), F.col("member_id")], limits.members
    )


def newest_generations(generations: DataFrame, since: datetime, until: datetime, limits: Limits) -> DataFrame:
    """Returns the generations of the period, and the last one before it, which was in force when it began."""
    known = generations.where(F.col("started_at") < F.lit(until))
    is_over = F.coalesce(F.col("ended_at") <= F.lit(since), F.lit(False))
    last_before = F.max(F.when(is_over, F.col("kafka_offset"))).over(Window.partitionBy(*GROUP))
    wanted = known.withColumn("_last", last_before).where(~is_over | (F.col("kafka_offset") == F.col("_last")))
    return first_of_group(wanted.drop("_last"), [F.desc("kafka_offset")], limits.records)


def newest_rebalances(rebalances: DataFrame, limits: Limits) -> DataFrame:
    return first_of_group(rebalances.drop("partition_pauses"), [F.desc("kafka_offset")], limits.records)


def newest_incidents(incidents: DataFrame, limits: Limits) -> DataFrame:
    """Returns the incidents of each group, the gravest first."""
    order = [_gravity(), F.desc("last_seen_at"), F.col("incident_id")]
    return first_of_group(incidents.where(F.col("group_id").isNotNull()), order, limits.incidents)


def _gravity() -> Column:
    return F.coalesce(F.array_position(F.lit(list(SEVERITIES)), F.col("severity")), F.lit(0))


def ranked_groups(
    groups: DataFrame, rebalances: DataFrame, incidents: DataFrame, rounds: DataFrame, limits: Limits
) -> DataFrame:
    """Returns a row for each group of the page: its row in `groups`, its counts in the period, its lag in the newest
    round, and in `all_groups` how many groups there are. The other tables are of the period already."""
    counts = incidents.groupBy(*GROUP).agg(
        *(F.count_if(F.col("severity") == severity).alias(f"{severity}_incidents") for severity in SEVERITIES)
    )
    found = (
        groups.join(rebalance_counts(rebalances), GROUP, "left")
        .join(counts, GROUP, "left")
        .join(of_newest_round(rounds), GROUP, "left")
        .fillna(0, ["rebalances", "increments_without_record", *(f"{severity}_incidents" for severity in SEVERITIES)])
        .withColumn("all_groups", F.count("*").over(Window.partitionBy("cluster")))
    )
    order = ("error_incidents", "warning_incidents", "rebalances", "last_seen_at")
    return found.orderBy(*map(F.desc, order), "group_id").limit(limits.groups)


def lag_rounds(lag: DataFrame) -> DataFrame:
    """Returns a row for each group and sampling round. A partition whose lag is not known is counted, never as zero."""
    return lag.groupBy(*GROUP, "sampled_at").agg(
        F.sum("lag").alias("lag"),
        F.max("lag_seconds").alias("lag_seconds"),
        F.max("lag_seconds_lower_bound").alias("lag_seconds_lower_bound"),
        F.count("*").alias("lag_partitions"),
        F.count_if(F.col("lag").isNull()).alias("lag_unknown_partitions"),
        F.max("group_state").alias("group_state"),
    )


def of_newest_round(lag: DataFrame) -> DataFrame:
    """Returns the rows of the cluster's newest round: a group that is gone by then has no lag now."""
    newest = F.max("sampled_at").over(Window.partitionBy("cluster"))
    return lag.withColumn("_newest", newest).where(F.col("sampled_at") == F.col("_newest")).drop("_newest")


def lag_points(rounds: DataFrame, since: datetime, until: datetime, limits: Limits) -> DataFrame:
    """Returns the worst round of each part of the period, by time and then by records."""
    seconds = max(1, int((until - since).total_seconds()) // limits.lag_points + 1)
    part = F.floor((F.unix_seconds("sampled_at") - int(since.timestamp())) / seconds)
    worst = Window.partitionBy(*GROUP, part).orderBy(
        F.desc_nulls_last("lag_seconds"), F.desc_nulls_last("lag"), F.desc("sampled_at")
    )
    return rounds.withColumn("_place", F.row_number().over(worst)).where(F.col("_place") == 1).drop("_place")


def worst_partitions(lag: DataFrame, limits: Limits) -> DataFrame:
    """Returns the partitions of each group that are furthest behind in the newest round."""
    time = F.coalesce("lag_seconds", "lag_seconds_lower_bound")
    order = [time.desc_nulls_last(), F.desc_nulls_last("lag"), F.col("topic"), F.col("partition")]
    return first_of_group(of_newest_round(lag), order, limits.lag_partitions)


def group_totals(groups: DataFrame) -> DataFrame:
    """Returns a row for each type of group, by whether groups are alive, simple, and have members."""
    has_members = F.coalesce(F.col("member_count") > 0, F.lit(False)).alias("has_members")
    return groups.groupBy("group_type", "is_alive", has_members, "is_simple").agg(F.count("*").alias("groups"))


def incident_totals(incidents: DataFrame) -> DataFrame:
    """Returns a row for each severity, kind and evidence."""
    return incidents.groupBy("severity", "kind", "evidence").agg(
        F.count("*").alias("incidents"),
        F.count_distinct("group_id").alias("groups"),
        F.sum("occurrences").alias("occurrences"),
        F.max("last_seen_at").alias("last_seen_at"),
    )


def stats_of(rebalance_stats: DataFrame, window: str, since: datetime, until: datetime) -> DataFrame:
    """Returns rows of the hours, or days, that lie in the period in part or whole."""
    begin = F.date_trunc(window, F.lit(since))
    is_inside = (F.col("window_start") >= begin) & (F.col("window_start") < F.lit(until))
    found = rebalance_stats.where((F.col("window") == F.lit(window)) & is_inside)
    return found.drop("flapping_members", "flapping_partitions")


def rebalances_by_window(stats: DataFrame) -> DataFrame:
    """Returns a row for each window, over all groups."""
    return stats.groupBy("window_start").agg(
        F.sum("rebalances").alias("rebalances"),
        F.sum("increments_without_record").alias("increments_without_record"),
        F.sum("storms").alias("storms"),
        F.count_if(F.col("rebalances") > 0).alias("groups"),
    )


def coverage_totals(coverage: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """Returns a row for each partition of `__consumer_offsets`: how many seconds of the period the ledger has seen
    whole, and from when to when it has seen anything."""
    is_complete = (F.col("completeness") == Completeness.COMPLETE) & (F.col("to_time") > F.col("from_time"))
    begin = F.greatest("from_time", F.lit(since)).cast("double")
    end = F.least("to_time", F.lit(until)).cast("double")
    seen = F.when(is_complete, F.greatest(end - begin, F.lit(0.0)))
    return coverage.groupBy("kafka_partition").agg(
        F.sum(seen).alias("complete_seconds"),
        F.min(F.when(is_complete, F.col("from_time"))).alias("complete_from"),
        F.max("to_time").alias("known_until"),
        F.count_if(F.col("completeness") == Completeness.UNKNOWN).alias("holes"),
        F.count_if(F.col("completeness") == Completeness.COMPACTED).alias("compacted_stretches"),
    )
