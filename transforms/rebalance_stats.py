"""`rebalances`, `members` and `assignments` rows to rows of `rebalance_stats`: one for each group, hour and day.

A window's row is always counted from all that lies in it, so it does not matter in how many batches that came.

A storm is there at a rebalance if, within `storm_window_ms` up to it, the group has rebalanced at least
`storm_rebalances` times, and at least `storm_rebalances_per_member` times for each of its members: restarting every
member costs two of them each and is no storm. Births and cooperative follow-ups do not count. The storm belongs to the
window in which it was recognized, so that what comes later never changes it.

A member flaps if `flapping_tenures` of its tenures ended in the window, none of them as long as
`flapping_tenure_ms`: under the same instance id or, dynamic, from the same client id and host. The last one to leave a
group does no harm, so that is none, unless it was thrown out: think of a job that runs every five minutes. A partition
flaps if `flapping_owners` intervals of ownership ended in the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from schemas.tables.rebalance_stats import REBALANCE_STATS
from schemas.tables.table import CLUSTER
from transforms.group_activity import GROUP, is_birth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

WINDOWS = ("hour", "day")
KEY = [*GROUP, "window", "window_start"]
# Names kept of what flaps; the counts tell of all.
WORST = 10
NULL_IF_NONE = ("mean_interval_ms", "longest_pause_upper_ms")
# What a member is known by over several tenures.
PLACE = ["group_instance_id", "client_id", "client_host"]


@dataclass(frozen=True, slots=True)
class StatsRules:
    storm_rebalances: int
    storm_rebalances_per_member: float
    storm_window_ms: int
    flapping_tenures: int
    flapping_tenure_ms: int
    flapping_owners: int

    @property
    def reach_ms(self) -> int:
        """How far a rebalance may change what is said of a later one: it may be in that one's storm window, or in that
        of the one before, which decides where a storm begins."""
        return 2 * self.storm_window_ms


def touched_windows(rebalances: DataFrame, members: DataFrame, assignments: DataFrame, rules: StatsRules) -> DataFrame:
    """Grain: group and window: those whose row may change with rows of the three tables that are new or changed."""
    moments = rebalances.select(*GROUP, F.col("happened_at").alias("at"), F.lit(rules.reach_ms).alias("reach_ms"))
    for rows, ended in ((members, "left_at"), (assignments, "valid_to")):
        moments = moments.unionByName(rows.select(*GROUP, F.col(ended).alias("at"), F.lit(0).alias("reach_ms")))
    until = F.timestamp_millis(F.unix_millis("at") + F.col("reach_ms"))
    parts = [
        moments.where(F.col("at").isNotNull()).select(
            *GROUP,
            F.lit(window).alias("window"),
            F.explode(
                F.sequence(F.date_trunc(window, "at"), F.date_trunc(window, until), F.expr(f"INTERVAL 1 {window}"))
            ).alias("window_start"),
        )
        for window in WINDOWS
    ]
    return _all(parts).distinct()


def rebalance_stats(
    windows: DataFrame, rebalances: DataFrame, members: DataFrame, assignments: DataFrame, rules: StatsRules
) -> DataFrame:
    """Grain: group and window, of `windows` those that have something in them.

    The other inputs hold at least all rows that begin (rebalances) or end in a window, and the rebalances of
    `StatsRules.reach_ms` before it.
    """
    groups = windows.select(*GROUP).distinct()
    rebalances = rebalances.join(groups, GROUP, "left_semi")
    counted = _rebalance_counts(_in_windows(_with_storms(rebalances, rules), windows))
    flapping_members = _in_windows(_short_tenures(members, rebalances, rules), windows, "left_at")
    lost = _in_windows(assignments.where(F.col("valid_to").isNotNull()), windows, "valid_to")
    joined = counted.join(
        _worst(flapping_members, PLACE, "short_tenures", rules.flapping_tenures, "flapping_member"), KEY, "full"
    ).join(
        _worst(lost, ["topic", "partition"], "owners_lost", rules.flapping_owners, "flapping_partition"), KEY, "full"
    )
    fields = [field for field in REBALANCE_STATS.schema if field.name != CLUSTER.name]
    return joined.na.fill(0, [name for name in joined.columns if name not in NULL_IF_NONE]).select(
        CLUSTER.name, *[F.col(field.name).cast(field.dataType).alias(field.name) for field in fields]
    )


def _all(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), parts)


def _in_windows(rows: DataFrame, windows: DataFrame, at: str = "happened_at") -> DataFrame:
    """Each row once for each of its windows."""
    placed = [
        rows.withColumn("window", F.lit(window)).withColumn("window_start", F.date_trunc(window, at))
        for window in WINDOWS
    ]
    return _all(placed).join(windows, KEY, "left_semi")


def _with_storms(rebalances: DataFrame, rules: StatsRules) -> DataFrame:
    """`is_stormy`: there was a storm at this rebalance; `is_storm_start`: and none at the one before."""
    recent = (
        Window.partitionBy(*GROUP)
        .orderBy(F.unix_millis("happened_at"))
        .rangeBetween(-rules.storm_window_ms + 1, Window.currentRow)
    )
    before = Window.partitionBy(*GROUP, "is_counted").orderBy("happened_at", "kafka_offset")
    by_members = rules.storm_rebalances_per_member * F.coalesce(F.max("member_count").over(recent), F.lit(0))
    enough = F.greatest(F.lit(float(rules.storm_rebalances)), by_members)
    rows = rebalances.withColumn("is_counted", ~is_birth() & F.col("caused_by_generation").isNull())
    rows = rows.withColumn("is_stormy", F.col("is_counted") & (F.count_if("is_counted").over(recent) >= enough))
    starts = F.col("is_stormy") & ~F.lag("is_stormy", 1, False).over(before)
    return rows.withColumn("is_storm_start", starts)


def _rebalance_counts(rows: DataFrame) -> DataFrame:
    is_rebalance = ~is_birth()
    rebalance_ms = F.when(is_rebalance, F.unix_millis("happened_at"))
    number = F.count_if(is_rebalance)

    def changes(*kinds: str) -> Column:
        found = F.filter("changes", lambda change: change["kind"].isin(*kinds))
        return F.coalesce(F.sum(F.size(F.coalesce(found, F.array()))), F.lit(0).cast("long"))

    return rows.groupBy(*KEY).agg(
        number.alias("rebalances"),
        F.count_if(is_birth()).alias("births"),
        F.sum("generation_gap").alias("increments_without_record"),
        F.count_if(F.col("caused_by_generation").isNotNull()).alias("cooperative_follow_ups"),
        F.when(number > 1, F.floor((F.max(rebalance_ms) - F.min(rebalance_ms)) / (number - 1))).alias(
            "mean_interval_ms"
        ),
        changes("member_joined").alias("members_joined"),
        changes("member_left").alias("members_left"),
        changes("member_replaced", "dynamic_restart").alias("members_replaced"),
        F.sum("partitions_moved").alias("partitions_moved"),
        F.sum("pause_lower_ms").alias("pause_lower_ms"),
        F.max("pause_upper_ms").alias("longest_pause_upper_ms"),
        F.count_if("is_storm_start").alias("storms"),
        F.count_if("is_stormy").alias("storm_rebalances"),
    )


def _short_tenures(members: DataFrame, rebalances: DataFrame, rules: StatsRules) -> DataFrame:
    tenure_ms = F.unix_millis("left_at") - F.unix_millis("joined_at")
    is_known = F.col("is_start_known") & F.col("is_end_known")
    emptied = rebalances.where(F.col("member_count") == 0).select(*GROUP, F.col("kafka_offset").alias("to_offset"))
    emptied = emptied.distinct().withColumn("is_last", F.lit(True))
    is_harmless = F.col("is_last").isNotNull() & (F.coalesce("leave_cause", F.lit("left")) == "left")
    is_dynamic = F.col("group_instance_id").isNull()
    return (
        members.where(is_known & (tenure_ms < F.lit(rules.flapping_tenure_ms)))
        .join(emptied, [*GROUP, "to_offset"], "left")
        .where(~is_harmless)
        .withColumn("client_id", F.when(is_dynamic, F.col("client_id")))
        .withColumn("client_host", F.when(is_dynamic, F.col("client_host")))
    )


def _worst(rows: DataFrame, columns: Sequence[str], number: str, threshold: int, name: str) -> DataFrame:
    """Grain: group and window. What has at least `threshold` rows there: how many of it, and the worst."""
    found = rows.groupBy(*KEY, *columns).agg(F.count("*").cast("int").alias(number))
    found = found.where(F.col(number) >= F.lit(threshold))
    # Sorted by the negative number, then by name, so that equal tables come of equal rows.
    ordered = F.sort_array(F.collect_list(F.struct((-F.col(number)).alias("rank"), *columns, number)))
    worst = F.transform(
        F.slice(ordered, 1, WORST),
        lambda each: F.struct(*[each[column].alias(column) for column in (*columns, number)]),
    )
    return found.groupBy(*KEY).agg(F.count("*").alias(f"{name}_count"), worst.alias(f"{name}s"))
