"""Computes `offset_events`, and `committed_offsets`, from which the next run starts.

    offset_log(records, committed)              the new records about offsets, and the last known commit of each
    committed_offsets(log)                      the last commit of each offset at the end of the log
    steps_of(log)                               the records that may be more than normal progress
    offset_events(steps, records, generations, coverage, rules)

`records` are rows of `coordinator_records` of one cluster, and must have each operation of a coordinator whole or not
at all, because the removal of a group begins with the removal of its offsets and ends with that of the group.
`coverage` has the stretches of each partition of `__consumer_offsets`. Most commits only advance. Spark leaves these
out, and `rules` decides about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from groupledger.schemas.instants import EARLIEST_MS, LATEST_MS, ms_of
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.table import IS_CARRIED_OVER
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.schemas.words import Completeness, EndedBy
from groupledger.transforms.by_group import by_row
from groupledger.transforms.offsets.offset_commits import with_known_from
from groupledger.transforms.offsets.rules.offset_event import (
    Commit,
    Generation,
    OffsetChange,
    OffsetRules,
    event_row,
    offset_event,
)
from groupledger.transforms.troubles import stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.troubles import Report

    Row = dict[str, Any]

PLACE = ("group_id", "topic", "partition")
GROUP_TOMBSTONES = ("group_metadata", "consumer_group_metadata", "streams_group_metadata")
COMMIT = ("kafka_offset", "offset", "committed_at_ms", "leader_epoch", "topic_id", "expire_at_ms")

_OF_RECORD = (*PLACE, "happened_at", "kafka_partition", "kafka_offset")
_FOUND = T.StructType(
    [
        *OFFSET_EVENTS.without("cluster", "committed_at", IS_CARRIED_OVER.name),
        T.StructField("committed_at_ms", T.LongType()),
    ]
)


# The log


def is_removal() -> Column:
    return F.col("record_type").isin(*OFFSET_COMMIT_TYPES) & F.col("is_tombstone")


def offset_log(records: DataFrame, committed: DataFrame) -> DataFrame:
    """Returns one row for each new record about an offset. For the last known commit of each of these offsets, in
    `committed`, it returns a row with `is_new` False.

    `commit` is null in the row of a removal. In a row from `committed` it is the last commit, even if the offset was
    removed after it.
    """
    is_offset = F.col("record_type").isin(*OFFSET_COMMIT_TYPES) & F.col("decode_error").isNull()
    new = records.where(is_offset).select(
        *("group_id", "offset_commit.topic", "offset_commit.partition", F.col("kafka_timestamp").alias("happened_at")),
        *("kafka_partition", "kafka_offset", F.col("is_tombstone").alias("is_removed")),
        F.when(
            ~F.col("is_tombstone"),
            F.struct(
                "kafka_offset",
                _unless_negative("offset_commit.offset").alias("offset"),
                _bounded(F.coalesce("offset_commit.commit_timestamp_ms", F.unix_millis("kafka_timestamp"))).alias(
                    "committed_at_ms"
                ),
                _unless_negative("offset_commit.leader_epoch").alias("leader_epoch"),
                F.when(F.col("offset_commit.topic_id") != ZERO_UUID, F.col("offset_commit.topic_id")).alias("topic_id"),
                _bounded(_unless_negative("offset_commit.expire_timestamp_ms")).alias("expire_at_ms"),
            ),
        ).alias("commit"),
        F.lit(True).alias("is_new"),
    )
    stood = committed.join(new.select(*PLACE).distinct(), list(PLACE), "left_semi").select(
        *(*PLACE, F.lit(None).cast("timestamp").alias("happened_at"), "kafka_partition", "kafka_offset", "is_removed"),
        F.when(
            F.col("commit_kafka_offset").isNotNull(),
            F.struct(
                F.col("commit_kafka_offset").alias("kafka_offset"),
                F.col("committed_offset").alias("offset"),
                "committed_at_ms",
                "leader_epoch",
                "topic_id",
                "expire_at_ms",
            ),
        ).alias("commit"),
        F.lit(False).alias("is_new"),
    )
    return new.unionByName(stood)


def committed_offsets(log: DataFrame) -> DataFrame:
    """Returns the last commit of each offset at the end of the log, and whether a removal followed it, without the
    column `cluster`."""
    newest = F.struct("kafka_partition", "kafka_offset", "is_removed")
    last_commit = F.max_by("commit", F.when(F.col("commit").isNotNull(), F.col("kafka_offset")))
    found = log.groupBy(*PLACE).agg(F.max_by(newest, "kafka_offset").alias("newest"), last_commit.alias("commit"))
    return found.select(
        *(*PLACE, "newest.*"),
        F.col("commit.kafka_offset").alias("commit_kafka_offset"),
        F.col("commit.offset").alias("committed_offset"),
        *(f"commit.{name}" for name in ("leader_epoch", "topic_id", "committed_at_ms", "expire_at_ms")),
    )


def _unless_negative(column: str) -> Column:
    return F.when(F.col(column) >= 0, F.col(column))


def _bounded(instant_ms: Column) -> Column:
    return F.when(instant_ms.isNotNull(), F.least(F.greatest(instant_ms, F.lit(EARLIEST_MS)), F.lit(LATEST_MS)))


# The events


def offset_events(
    steps: DataFrame,
    records: DataFrame,
    generations: DataFrame,
    coverage: DataFrame,
    rules: OffsetRules,
    report: Report = stop,
) -> DataFrame:
    """Returns one row for each event, without `cluster` and the columns that a rebuild carries over. If the rule fails
    on a record, its group is reported. For each step, `generations` must have at least the generation in force, or the
    last one before it, and it may have others."""
    steps = _with_coverage(steps, coverage)
    steps = _with_generation(_with_end_of_group(steps, records), generations)
    # Clients that commit no leader epoch commit all the time, and mostly as members.
    is_empty = F.col("generation").isNull() | F.coalesce(F.col("generation.member_count") == 0, F.lit(False))
    has_emptied = F.coalesce(is_empty & (F.col("generation.protocol_type") != ""), F.lit(False))
    is_simple = is_empty & F.col("is_group_known") & F.col("before.leader_epoch").isNotNull()
    steps = steps.where(~F.col("is_higher") | has_emptied | is_simple)

    def of_record(_: str, row: Row) -> Iterator[Row]:
        step = _step(row)
        event = offset_event(step, rules)
        if event is not None:
            yield {**{name: row[name] for name in _OF_RECORD}, **event_row(step, event)}

    found = by_row(steps, "group_id", of_record, _FOUND, report)
    return found.withColumn("committed_at", F.timestamp_millis("committed_at_ms")).drop("committed_at_ms")


def steps_of(log: DataFrame) -> DataFrame:
    """Returns the new records that may be more than normal progress, each with the commit before it."""
    of_place = Window.partitionBy(*PLACE)
    in_order = of_place.orderBy("kafka_offset")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    stood_at = F.max(F.when(~F.col("is_new"), F.col("kafka_offset"))).over(of_place)
    steps = log.select(
        *("*", F.last("commit", ignorenulls=True).over(earlier).alias("before")),
        F.coalesce(F.lag("is_removed").over(in_order), F.lit(False)).alias("was_removed"),
        F.coalesce(stood_at, F.lit(-1)).alias("stood_at"),
    )
    now, before = F.col("commit"), F.col("before")
    is_other = (now.offset < before.offset) | (now.topic_id != before.topic_id)
    is_other |= F.col("is_removed") & ~F.col("was_removed")
    is_higher = (now.offset > before.offset) & now.leader_epoch.isNull() & ~F.col("was_removed")
    is_later = F.col("is_new") & (F.col("kafka_offset") > F.col("stood_at"))
    compared = {
        "is_other": F.coalesce(is_other, F.lit(False)),
        "is_higher": F.coalesce(is_higher & ~F.coalesce(is_other, F.lit(False)), F.lit(False)),
    }
    return steps.where(is_later).withColumns(compared).where("is_other OR is_higher").drop("is_other")


def _with_coverage(steps: DataFrame, coverage: DataFrame) -> DataFrame:
    """Adds `is_known`: no record is missing between this record and the commit before it or, if there is none, the
    beginning of the log."""
    before = Window.partitionBy("kafka_partition").orderBy("from_offset")
    is_complete = F.col("completeness") == Completeness.COMPLETE
    stretch = with_known_from(coverage).select(
        F.col("kafka_partition").alias("of_partition"),
        *("from_offset", "to_offset", "known_from", is_complete.alias("is_complete")),
        (F.bool_and(is_complete).over(before) & (F.min("from_offset").over(before) == 0)).alias("is_whole"),
    )
    is_inside = (
        (F.col("kafka_partition") == F.col("of_partition"))
        & (F.col("kafka_offset") >= F.col("from_offset"))
        & (F.col("kafka_offset") < F.col("to_offset"))
    )
    joined = steps.join(F.broadcast(stretch), is_inside, "left")
    is_seen = F.col("is_complete") & (F.col("before.kafka_offset") >= F.col("known_from"))
    is_known = F.when(F.col("before").isNull(), F.col("is_whole")).otherwise(is_seen)
    return joined.withColumn("is_known", F.coalesce(is_known, F.lit(False))).drop(
        "of_partition", "from_offset", "to_offset", "is_complete", "is_whole"
    )


def _with_end_of_group(steps: DataFrame, records: DataFrame) -> DataFrame:
    """Adds `ends_group` and `groups_at_once`. All records of an operation have one timestamp."""
    is_end = F.col("record_type").isin(*GROUP_TOMBSTONES) & F.col("is_tombstone")
    ended = records.where(is_end & F.col("decode_error").isNull()).withColumnRenamed("kafka_timestamp", "happened_at")
    ends = ended.groupBy("group_id", "happened_at").agg(F.max("kafka_offset").alias("end_offset"))
    found = steps.join(ends, ["group_id", "happened_at"], "left").withColumn(
        "ends_group", F.coalesce(F.col("end_offset") > F.col("kafka_offset"), F.lit(False))
    )
    at_once = Window.partitionBy("kafka_partition", "topic", "happened_at")
    stays = F.when(F.col("is_removed") & ~F.col("ends_group"), F.col("group_id"))
    return found.withColumn("groups_at_once", F.size(F.collect_set(stays).over(at_once))).drop("end_offset")


def _with_generation(steps: DataFrame, generations: DataFrame) -> DataFrame:
    """Adds the generation in force, and `is_group_known`."""
    stated = generations.join(steps.select("group_id").distinct(), "group_id", "left_semi").select(
        *("group_id", "kafka_offset"),
        F.struct(
            *("protocol_type", "member_count", F.unix_millis("current_state_at").alias("since_ms")),
            *(F.unix_millis("started_at").alias("begun_ms"), "to_offset", "ended_by"),
        ).alias("stated"),
    )
    so_far = Window.partitionBy("group_id").orderBy("kafka_offset").rowsBetween(Window.unboundedPreceding, 0)
    found = steps.unionByName(stated, allowMissingColumns=True)
    found = found.withColumn("stated", F.last("stated", ignorenulls=True).over(so_far)).where(F.col("is_new"))
    is_in_force = F.col("stated.to_offset").isNull() | (F.col("kafka_offset") < F.col("stated.to_offset"))
    has_gone = F.col("stated.ended_by").isin(EndedBy.TOMBSTONE, EndedBy.UPGRADE)
    has_gone &= F.col("stated.to_offset") >= F.col("known_from")
    is_known = F.when(F.col("stated").isNull(), F.col("known_from") == 0).otherwise(is_in_force | has_gone)
    return found.withColumns(
        {
            "is_group_known": F.coalesce(is_known, F.lit(False)),
            "generation": F.when(F.col("stated").isNotNull() & is_in_force, F.col("stated")),
        }
    )


def _step(row: Row) -> OffsetChange:
    generation = row["generation"]
    return OffsetChange(
        at_ms=ms_of(row["happened_at"]),
        after=None if row["is_removed"] else _commit(row["commit"]),
        before=_commit(row["before"]),
        was_removed=row["was_removed"],
        is_known=row["is_known"],
        generation=None
        if generation is None
        else Generation(
            protocol_type=generation["protocol_type"],
            member_count=generation["member_count"],
            since_ms=generation["since_ms"],
            begun_ms=generation["begun_ms"],
        ),
        is_group_known=row["is_group_known"],
        ends_group=row["ends_group"],
        groups_at_once=row["groups_at_once"],
    )


def _commit(fields: Row | None) -> Commit | None:
    return None if fields is None else Commit(**{name: fields[name] for name in COMMIT})
