"""Turns commits and samples into steps. A step is a commit with the next commit of its partition, where the next one
goes back or comes late. The last commit of a partition, which has no next one yet, is kept too.

The first commit of a partition is also a step if its topic got the partition shortly before.

    lines_of(kept, commits, coverage)      the records of each partition that a group commits: kept ones and new ones
    steps_of(lines, gap_ms, as_of_ms)      the steps and last records among them
    with_ends(steps, watermarks, until)    adds what samples of the log's end show between the commits of a step, and
                                           before a first commit
    with_suspicion(steps, rules, as_of)    marks the steps that may be an incident by themselves
    with_earlier(steps, lines)             adds the times of earlier commits that have to be kept for a last record

No commit can be missing between a commit and its next one: both lie in one complete stretch of the log. Reading records
and samples piece by piece gives the same steps as reading all of them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.words import Completeness
from groupledger.transforms.incidents.rules.facts import INTERVAL_SAMPLE, MARKER_OFFSETS, NEW_PARTITION_MS
from groupledger.transforms.numbers import known_instant_ms, plus, record_ms
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.incidents.rules import Rules

PLACE = ("group_id", "topic", "partition")
LINE = (*PLACE, "stretch")
RECORD = ("kafka_partition", "kafka_offset")
NEXT_COLUMNS = ("kafka_offset", "at_ms", "offset")  # of the commit after one, under `next_`
NEW = ("new_from_ms", "new_end", "unread_until_ms", "unread_end")
ENDS = ("high_watermark", "idle_until_ms", "waiting_from_ms", *NEW)
HOUR_MS = 3_600_000
SPAN_MS_MAX = 366 * 24 * HOUR_MS  # a commit with the time of a broken clock would be joined with half a million hours
_NAMES = {
    "committed_at": "at_ms",
    "committed_offset": "offset",
    "next_at": "next_at_ms",
    "idle_until": "idle_until_ms",
    "waiting_from": "waiting_from_ms",
    "new_from": "new_from_ms",
    "unread_until": "unread_until_ms",
    "sampled_until": "sampled_until_ms",
}
"""Columns of the table that are called otherwise here, where instants are milliseconds."""
_COLUMNS = [
    (field.name, _NAMES.get(field.name, field.name), isinstance(field.dataType, TimestampType))
    for field in COMMIT_STEPS.without("cluster")
]
"""The columns of the table, as they are called there and here, and whether they are instants."""


def as_steps(rows: DataFrame) -> DataFrame:
    """Returns rows of the table `commit_steps` as steps."""
    return rows.select(
        *[(F.unix_millis(there) if is_at else F.col(there)).alias(here) for there, here, is_at in _COLUMNS]
    )


def as_rows(steps: DataFrame) -> DataFrame:
    """Returns steps as rows of the table, without `cluster`."""
    return steps.select(
        *[(F.timestamp_millis(here) if is_at else F.col(here)).alias(there) for there, here, is_at in _COLUMNS]
    )


def commits_of(coordinator_records: DataFrame) -> DataFrame:
    """Returns the commits and removals among the records. `offset` is null for a removal and for a commit of offset -1.
    Where a record's timestamp is impossible, the time inside the commit's value is used."""
    known_ms = [known_instant_ms(at_ms) for at_ms in (F.unix_millis("kafka_timestamp"), F.col("commit_timestamp_ms"))]
    return commit_log(coordinator_records).select(
        *("group_id", "kafka_partition", "kafka_offset", "topic", "partition", "topic_id"),
        F.coalesce(*known_ms, record_ms()).alias("at_ms"),
        F.col("committed_offset").alias("offset"),
    )


def lines_of(kept: DataFrame, commits: DataFrame, coverage: DataFrame) -> DataFrame:
    """Returns the records of each partition that a group commits, with the columns of `LINE`. Records before a kept one
    (`is_earlier`) have only their times. From `kept`, the open steps are used; from `commits`, those after these
    steps."""
    last = kept.where("is_open = 1")
    earlier = last.select(*PLACE, "kafka_partition", F.explode("earlier").alias("each"))
    earlier = earlier.select(*PLACE, "kafka_partition", "each.*", F.lit(True).alias("is_earlier"))
    known = last.select(*commits.columns, *ENDS, "sampled_until_ms", F.lit(True).alias("is_known"))
    every = known.unionByName(earlier, allowMissingColumns=True).unionByName(commits, allowMissingColumns=True)
    known_to = F.max(F.when(F.col("is_known"), F.col("kafka_offset"))).over(Window.partitionBy(*PLACE))
    is_later = F.coalesce(F.col("kafka_offset") > F.col("known_to"), F.lit(True))
    every = every.withColumn("known_to", known_to).where(F.coalesce("is_known", "is_earlier", is_later))
    complete = coverage.where(F.col("completeness") == Completeness.COMPLETE).select(
        F.col("kafka_partition").alias("of_partition"), F.col("from_offset").alias("stretch"), "to_offset"
    )
    is_inside = (F.col("kafka_offset") >= F.col("stretch")) & (F.col("kafka_offset") < F.col("to_offset"))
    is_inside &= F.col("kafka_partition") == F.col("of_partition")
    return every.join(F.broadcast(complete), is_inside).drop("of_partition", "to_offset", "is_known", "known_to")


def steps_of(lines: DataFrame, gap_ms: int, as_of_ms: int) -> DataFrame:
    """Returns the steps (`is_step`), the last record of each line (`is_open`), known or new, and the first commits
    (`is_first`), which samples may turn into steps."""
    line = Window.partitionBy(*LINE).orderBy("kafka_offset")
    sample = line.rowsBetween(-INTERVAL_SAMPLE, Window.currentRow)
    stepped = lines.select(
        "*",
        F.lead(F.struct(*NEXT_COLUMNS, "topic_id")).over(line).alias("following"),
        (F.col("at_ms") - F.min("at_ms").over(sample)).alias("sample_ms"),
        (F.count("*").over(sample) - 1).alias("sampled"),
    )
    until_ms = F.coalesce("following.at_ms", F.lit(as_of_ms))
    is_late = until_ms - F.col("at_ms") >= gap_ms
    is_back = F.coalesce(F.col("following.offset") < F.col("offset"), F.lit(False))
    is_last = F.col("following").isNull()
    # A removal, or offset -1, is not a commit, and ends what was there.
    is_commit = F.col("offset").isNotNull() & (is_last | F.col("following.offset").isNotNull())
    is_recreated = F.coalesce(F.col("topic_id") != F.col("following.topic_id"), F.lit(False))
    found = stepped.where("is_earlier IS NULL").select(
        *lines.columns,
        *[F.col(f"following.{name}").alias(f"next_{name}") for name in NEXT_COLUMNS],
        F.when(F.col("sampled") > 0, F.col("sample_ms") / F.col("sampled")).alias("interval_ms"),
        is_recreated.alias("is_recreated_topic"),
        (is_commit & (is_late | is_back)).alias("is_step"),
        F.when(is_last, 1).otherwise(0).alias("is_open"),
        (is_commit & (F.col("sampled") == 0)).alias("is_first"),
    )
    return found.where("is_step OR is_open = 1 OR is_first").drop("is_earlier")


def with_ends(steps: DataFrame, watermarks: DataFrame | None, until_ms: int) -> DataFrame:
    """Returns the steps with what samples of the partition's end show between their two commits. Only samples up to
    `until_ms` that were not looked at before are read. A last record that is not a step yet gets no samples. First
    commits of partitions that are not new are left out."""
    steps = _with_new_partitions(steps, watermarks).where("is_step OR is_open = 1").drop("is_first")
    if watermarks is None:
        return steps
    end_ms = F.least(F.col("next_at_ms") - 1, F.lit(until_ms))
    begin_ms = F.greatest("at_ms", F.col("sampled_until_ms") + 1, end_ms - SPAN_MS_MAX)
    spans = steps.where("is_step").select(
        *(*RECORD, "topic", "partition", "offset"), begin_ms.alias("begin_ms"), end_ms.alias("end_ms")
    )
    # Samples are joined by the hour: each with each of its partition would be far too many.
    hours = F.sequence(_hour("begin_ms"), _hour("end_ms"))
    spans = spans.where("begin_ms <= end_ms").withColumn("hour", F.explode(hours))
    is_stable = F.col("last_stable_offset") == F.col("high_watermark")
    ends = watermarks.where((F.col("topic") != OFFSETS_TOPIC) & F.col("high_watermark").isNotNull()).select(
        *("topic", "partition", F.unix_millis("sampled_at").alias("sampled_at_ms")),
        F.col("high_watermark").alias("end"),
        F.when(is_stable, F.coalesce("markers_at_end", F.lit(0))).otherwise(0).alias("unreadable"),
    )
    sampled_at_ms = F.col("sampled_at_ms")
    is_idle = F.col("end") <= plus(F.col("offset"), F.greatest("unreadable", F.lit(MARKER_OFFSETS)))
    sampled = (
        spans.join(ends.withColumn("hour", _hour("sampled_at_ms")), ["topic", "partition", "hour"])
        .where(sampled_at_ms.between(F.col("begin_ms"), F.col("end_ms")))
        .groupBy(*RECORD)
        .agg(
            F.max("end").alias("sample_end"),
            F.max(F.when(is_idle, sampled_at_ms)).alias("sample_idle_ms"),
            F.min(F.when(~is_idle, sampled_at_ms)).alias("sample_waiting_ms"),
        )
    )
    joined = steps.join(sampled, list(RECORD), "left").withColumns(
        {
            "high_watermark": F.greatest("high_watermark", "sample_end"),
            "idle_until_ms": F.greatest("idle_until_ms", "sample_idle_ms"),
            "waiting_from_ms": F.least("waiting_from_ms", "sample_waiting_ms"),
            "sampled_until_ms": F.when(F.col("is_step"), F.greatest("sampled_until_ms", F.lit(until_ms))),
        }
    )
    return joined.select(*steps.columns)


def _with_new_partitions(steps: DataFrame, watermarks: DataFrame | None) -> DataFrame:
    """Returns first commits with what earlier samples show of their partition, if a sample before them shows the topic
    without that partition. All rows returned are steps."""
    if watermarks is None:
        return steps
    firsts = steps.where("is_first AND new_from_ms IS NULL").select(*RECORD, "topic", "partition", "at_ms")
    # Few commits are first ones, so that few topics are looked at.
    sampled = watermarks.join(F.broadcast(firsts.select("topic").distinct()), "topic", "left_semi").select(
        *("topic", "partition", F.unix_millis("sampled_at").alias("sampled_at_ms")),
        F.col("high_watermark").alias("end"),
    )
    seen = sampled.groupBy("topic", "partition").agg(F.min("sampled_at_ms").alias("from_ms"))
    topic_ms = F.min("from_ms").over(Window.partitionBy("topic"))
    new = seen.withColumn("topic_ms", topic_ms).where("from_ms > topic_ms").drop("topic_ms")
    is_soon = F.col("at_ms").between(F.col("from_ms") + 1, F.col("from_ms") + NEW_PARTITION_MS)
    place = ["topic", "partition"]
    before = firsts.join(F.broadcast(new), place).where(is_soon).drop("from_ms").join(sampled, place)
    added = (
        before.where(F.col("end").isNotNull() & (F.col("sampled_at_ms") < F.col("at_ms")))
        .groupBy(*RECORD)
        .agg(
            F.min("sampled_at_ms").alias("sample_from_ms"),
            F.min_by("end", "sampled_at_ms").alias("sample_new_end"),
            F.max("sampled_at_ms").alias("sample_until_ms"),
            F.max_by("end", "sampled_at_ms").alias("sample_unread_end"),
        )
    )
    sample_names = dict(
        zip(NEW, ("sample_from_ms", "sample_new_end", "sample_until_ms", "sample_unread_end"), strict=True)
    )
    joined = steps.join(added, list(RECORD), "left").withColumns(
        {name: F.coalesce(name, sample_name) for name, sample_name in sample_names.items()}
    )
    is_step = F.col("is_step") | F.col("new_from_ms").isNotNull()
    return joined.withColumn("is_step", is_step).select(*steps.columns)


def _hour(name: str) -> Column:
    return F.expr(f"{name} DIV {HOUR_MS}")


def with_suspicion(steps: DataFrame, rules: Rules, as_of_ms: int) -> DataFrame:
    """Returns the steps with 1 in `is_suspect` if they may be an incident by themselves: the next commit went back, or
    came too late for the usual interval while records waited, or it is the first commit of a partition that already had
    records. A first commit has no usual interval yet."""
    length_ms = F.coalesce("next_at_ms", F.lit(as_of_ms)) - F.col("at_ms")
    usual_ms = rules.commit_gap_intervals * F.coalesce("interval_ms", F.lit(0))
    is_gap = (length_ms >= usual_ms) & F.col("waiting_from_ms").isNotNull()
    is_unread = (F.col("unread_end") > MARKER_OFFSETS) & (F.col("offset") >= F.col("unread_end"))
    is_suspect = F.col("is_step") & ((F.col("next_offset") < F.col("offset")) | is_gap | is_unread)
    return steps.withColumn("is_suspect", F.coalesce(is_suspect, F.lit(False)).cast("int"))


def is_telling(rules: Rules, as_of_ms: int) -> Column:
    """Returns whether a step may be an incident by itself, or lasts too long for the usual interval of its commits, be
    there records or not."""
    usual_ms = rules.commit_gap_intervals * F.col("interval_ms")
    length_ms = F.coalesce("next_at_ms", F.lit(as_of_ms)) - F.col("at_ms")
    is_long = (length_ms >= usual_ms) & (length_ms >= rules.commit_gap_ms)
    return F.coalesce((F.col("is_suspect") == 1) | is_long, F.lit(False))


def with_earlier(steps: DataFrame, lines: DataFrame) -> DataFrame:
    """Returns the steps; a last record gets the times of the records before it, which the usual interval is computed
    from."""
    from_end = Window.partitionBy(*LINE).orderBy(F.desc("kafka_offset"))
    before = lines.withColumn("rank", F.row_number().over(from_end)).where(F.col("rank") <= INTERVAL_SAMPLE + 1)
    record = F.struct("kafka_offset", "at_ms")
    earlier = F.sort_array(F.collect_list(F.when(F.col("rank") > 1, record))).alias("earlier")
    joined = steps.join(before.groupBy(*LINE).agg(earlier), list(LINE), "left")
    return joined.withColumn("earlier", F.when(F.col("is_open") == 1, F.col("earlier")))
