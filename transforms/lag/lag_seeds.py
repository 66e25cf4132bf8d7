"""Stores the state of `transforms.lag.rules` between runs, as rows of `lag_seeds`, the seeds.

    kind       holds
    topic      a topic id that a topic partition has or had: last sample, highest end, whether it had transactions
    sample     a sample that a `TopicWindow` would still hold, or that the commits of a next round need
    commit     one of a group's last commits on a topic partition, with the watermark before it
    end        the end of a partition of `__consumer_offsets`, of the last round that saw it
    ingested   the date of ingest from which on there are commits that no round has counted

    next_seeds(seeds, watermarks, commits, ...)   the seeds after some rounds, from earlier seeds and the new input
    last_points(lag, rules)                       a group's last rows of `lag`, which are seeds, too

Old samples are thinned out. Which of them stay depends only on the samples and the newest one's time, not on when they
were thinned out. So the rows are the same however rounds are divided into runs, and can be computed again from all
samples and commits without earlier seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.lag_seeds import LAG_SEEDS
from groupledger.schemas.words import LagSeedKind
from groupledger.transforms.lag.lag import at_ms, commit_events, read_samples
from groupledger.transforms.lag.rules.of_group import COMMIT, POINT, SAMPLE, TOPIC
from groupledger.transforms.lag.rules.points import POINTS_PER_WINDOW
from groupledger.transforms.lag.rules.sample_times import BUCKETS_PER_AGE, WINDOW_MS
from groupledger.transforms.lag.rules.topic_window import RECENT_ENDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

    from groupledger.transforms.lag.rules import End, LagRules

PLACE = ("topic", "partition")
SEED_ROWS = LAG_SEEDS.without("cluster", "seed_id")
OFFSETS = ("log_start_offset", "high_watermark", "last_stable_offset", "leader_epoch", "topic_id", "markers_at_end")
EVENT_OF_KIND = {LagSeedKind.TOPIC: TOPIC, LagSeedKind.SAMPLE: SAMPLE, LagSeedKind.COMMIT: COMMIT}


def of_kind(seeds: DataFrame, *kinds: str) -> DataFrame:
    return seeds.where(F.col("kind").isin(*kinds))


def as_events(seeds: DataFrame, *kinds: str) -> DataFrame:
    """Returns the seeds of some kinds as events, with the columns that `transforms.lag.rules.of_group` reads."""
    event = F.coalesce(*[F.when(F.col("kind") == kind, EVENT_OF_KIND[kind]) for kind in kinds])
    return of_kind(seeds, *kinds).withColumn("kind", event)


def next_seeds(
    seeds: DataFrame,
    watermarks: DataFrame,
    commits: DataFrame,
    ends_after: Mapping[int, tuple[int, End]],
    rules: LagRules,
) -> DataFrame:
    """Returns the seeds after some rounds: topics, samples, commits and ends.

    `watermarks` are the samples of these rounds, and `commits` the commits that no earlier round counted. `ends_after`
    has, by partition of `__consumer_offsets`, the end from which the next round starts, with the instant of the round
    that read it.
    """
    end_times_ms = {sampled_at_ms for sampled_at_ms, _ in ends_after.values()}
    new = read_samples(watermarks).drop("kind")
    samples = of_kind(seeds, LagSeedKind.SAMPLE).select(*PLACE, "at_ms", *OFFSETS).unionByName(new)
    last_commits = _last_commits(seeds, samples, watermarks, commits, rules)
    parts = (
        (LagSeedKind.TOPIC, _topics(of_kind(seeds, LagSeedKind.TOPIC), new)),
        (LagSeedKind.SAMPLE, _still_held(samples, end_times_ms)),
        (LagSeedKind.COMMIT, _without_old_removals(last_commits, max(end_times_ms, default=0), rules)),
        (LagSeedKind.END, last_ends(seeds, watermarks)),
    )
    found = seeds.sparkSession.createDataFrame([], SEED_ROWS)
    for kind, rows in parts:
        found = found.unionByName(rows.withColumn("kind", F.lit(kind)), allowMissingColumns=True)
    return found


def _topics(topics: DataFrame, samples: DataFrame) -> DataFrame:
    is_open = F.col("last_stable_offset") < F.col("high_watermark")
    seen = samples.withColumn("has_transactions", is_open)
    columns = (*PLACE, "topic_id", "at_ms", "high_watermark", "has_transactions")
    every = topics.select(*columns).unionByName(seen.select(*columns))
    return every.groupBy(*PLACE, "topic_id").agg(
        F.max("at_ms").alias("at_ms"),
        F.max("high_watermark").alias("high_watermark"),
        F.bool_or("has_transactions").alias("has_transactions"),
    )


def _still_held(samples: DataFrame, end_times_ms: Iterable[int]) -> DataFrame:
    """Returns samples that may be more than a window needs, since it thins them itself: of each bucket the last and, if
    the end fell in it, the lowest, which shows what a truncation of the log has made void."""
    newest = Window.partitionBy(*PLACE)
    age = F.max("at_ms").over(newest) - F.col("at_ms")
    is_of_an_end = F.array_contains(
        F.array(*[F.lit(each) for each in end_times_ms]).cast("array<long>"), F.col("at_ms")
    )
    aged = samples.withColumn("age", age).withColumn("is_of_an_end", is_of_an_end)
    aged = aged.where((F.col("age") <= WINDOW_MS) | F.col("is_of_an_end"))
    # As `bucket_ms`, in whole numbers: the length of the binary digits.
    aged = aged.withColumn("width", F.expr(f"shiftleft(1L, length(bin(age DIV {BUCKETS_PER_AGE})) - 1)"))
    place, bucket = Window.partitionBy(*PLACE), Window.partitionBy(*PLACE, "width", F.expr("at_ms DIV width"))
    ranked = aged.withColumns(
        {
            "in_bucket": F.row_number().over(bucket.orderBy(F.desc("at_ms"))),
            "by_end": F.row_number().over(bucket.orderBy("high_watermark", "at_ms")),
            "end_before": F.lag("high_watermark").over(place.orderBy("at_ms")),
            "rank": F.row_number().over(place.orderBy(F.desc("at_ms"))),
        }
    ).withColumn("end_before", F.first("end_before").over(bucket.orderBy("at_ms")))
    is_fall = (F.col("by_end") == 1) & (F.col("high_watermark") < F.col("end_before"))
    kept = ranked.where(
        (F.col("in_bucket") == 1) | is_fall | (F.col("rank") <= RECENT_ENDS_MAX) | F.col("is_of_an_end")
    )
    return kept.select(*PLACE, "at_ms", *OFFSETS)


def _ends(seeds: DataFrame, watermarks: DataFrame) -> DataFrame:
    columns = ("kafka_partition", "at_ms", "last_stable_offset", "high_watermark")
    is_end = (F.col("topic") == OFFSETS_TOPIC) & F.col("last_stable_offset").isNotNull()
    new = watermarks.where(is_end).withColumn("at_ms", at_ms()).withColumn("kafka_partition", F.col("partition"))
    return of_kind(seeds, LagSeedKind.END).select(*columns).unionByName(new.select(*columns))


def last_ends(seeds: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Returns, by partition of `__consumer_offsets`, the last round that saw its end, and that end."""
    newest = F.max(F.struct("at_ms", "last_stable_offset", "high_watermark")).alias("newest")
    ends = _ends(seeds, watermarks)
    return ends.groupBy("kafka_partition").agg(newest).select("kafka_partition", "newest.*")


def _last_commits(
    seeds: DataFrame, samples: DataFrame, watermarks: DataFrame, commits: DataFrame, rules: LagRules
) -> DataFrame:
    line = Window.partitionBy("group_id", *PLACE)
    last_removal = F.max(F.when(F.col("committed_offset").isNull(), F.col("kafka_offset"))).over(line)

    def last(rows: DataFrame) -> DataFrame:
        """Returns the last commits, and the last removal: rows of `lag` from before it are forgotten."""
        rank = F.row_number().over(line.orderBy(F.desc("kafka_offset")))
        ranked = rows.withColumns({"rank": rank, "removed": last_removal})
        is_last = (F.col("rank") <= rules.burrow.intervals) | (F.col("kafka_offset") == F.col("removed"))
        return ranked.where(is_last).drop("rank", "removed")

    new = last(commit_events(commits).drop("kind")).withColumn("is_commit", F.lit(True))
    ends = _ends(seeds, watermarks).select(
        "kafka_partition", F.col("last_stable_offset").alias("kafka_offset"), F.col("at_ms").alias("before_ms")
    )
    # An end stands before the commit at its offset: that commit was not below it.
    log = Window.partitionBy("kafka_partition").orderBy("kafka_offset", F.col("before_ms").asc_nulls_last())
    log = log.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = new.unionByName(ends, allowMissingColumns=True).withColumn(
        "before_ms", F.last("before_ms", ignorenulls=True).over(log)
    )
    before = samples.select(*PLACE, F.col("at_ms").alias("before_ms"), "high_watermark")
    known = placed.where("is_commit").join(before, [*PLACE, "before_ms"], "left").drop("before_ms", "is_commit")
    return last(of_kind(seeds, LagSeedKind.COMMIT).select(*known.columns).unionByName(known))


def _without_old_removals(commits: DataFrame, now_ms: int, rules: LagRules) -> DataFrame:
    """Returns the commits after the last removal that no row of the last status window rests on any more, so that
    groups which have gone leave nothing."""
    line = Window.partitionBy("group_id", *PLACE)
    is_old = F.col("at_ms") < now_ms - max(WINDOW_MS, rules.status.window_ms)
    removed = F.max(F.when(F.col("committed_offset").isNull() & is_old, F.col("kafka_offset"))).over(line)
    kept = commits.withColumn("removed", removed)
    return kept.where(F.col("removed").isNull() | (F.col("kafka_offset") > F.col("removed"))).drop("removed")


def last_points(lag: DataFrame, rules: LagRules) -> DataFrame:
    """Returns the rows of `lag` as events of the kind POINT: of each partition the newest row with a lag, and the
    newest without, in each twentieth of the status window. `lag` has the rows of the last status window; rows without a
    commit are left out."""
    width_ms = max(rules.status.window_ms // POINTS_PER_WINDOW, 1)
    rows = lag.select(
        F.lit(POINT).alias("kind"),
        *("group_id", "topic", "partition", "committed_offset", "lag", "kafka_offset"),
        at_ms().alias("at_ms"),
        at_ms("no_progress_since").alias("since_ms"),
    )
    twentieth = Window.partitionBy("group_id", *PLACE, F.expr(f"at_ms DIV {width_ms}"), F.col("lag").isNull())
    ranked = rows.where(F.col("committed_offset").isNotNull()).withColumn(
        "rank", F.row_number().over(twentieth.orderBy(F.desc("at_ms")))
    )
    return ranked.where(F.col("rank") == 1).drop("rank")
