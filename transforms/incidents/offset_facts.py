"""Selects the rows of the ledger that the rules of lost offsets need (`transforms.incidents.rules.offset_losses`).

    moves_and_losses(offset_events)              the events that moved an offset or lost its records, if harmful
    returns(offset_events, ..., watermarks)      the first commit of each partition after its offset was lost
    old_offsets(committed_offsets, ...)          offsets that will expire soon unless somebody keeps them
    expiring(old, watermarks)                    old offsets whose loss would cost something
    readers(coordinator_records, groups, old)    the records that show whether members of modern groups keep them

Each function returns few rows however long the log is: it begins with the events, or with the old offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.words import Completeness, GroupType, OffsetEventEvidence, OffsetEventKind
from groupledger.transforms.incidents.rules.facts import MARKER_OFFSETS
from groupledger.transforms.numbers import plus, record_ms
from groupledger.transforms.offsets.offset_commits import commit_log
from groupledger.transforms.offsets.rules.expiring_offsets import KEY_OF_RECORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.incidents.rules import Rules

HARMFUL = (OffsetEventKind.SKIPPED, OffsetEventKind.LOST_TO_RETENTION)
MOVES = (*HARMFUL, OffsetEventKind.REWOUND)
PLACE = ("group_id", "topic", "partition")
RECORD = ("kafka_partition", "kafka_offset")
ENDS = ("high_watermark", "log_start_offset")


def row_key() -> Column:
    at = F.date_format("happened_at", "yyyy-MM-dd'T'HH:mm:ss.SSSX")
    return F.concat_ws("/", *PLACE, "kind", at, "kafka_offset").alias("row_key")


def moves_and_losses(offset_events: DataFrame) -> DataFrame:
    # By the records alone, a commit for a topic that was created again harms nobody.
    is_reached = (F.col("kind") == OffsetEventKind.TOPIC_RECREATED) & (F.col("evidence") == OffsetEventEvidence.SAMPLES)
    is_harm = F.col("kind").isin(*HARMFUL) | is_reached
    harmed = offset_events.where(is_harm).select("group_id").distinct()
    return (
        offset_events.where(F.col("kind").isin(*MOVES) | is_reached)
        .join(harmed, "group_id", "left_semi")
        .select(
            *(*PLACE, "kind", *RECORD, "offset_before", "offset_after", row_key()),
            F.unix_millis("happened_at").alias("at_ms"),
        )
    )


def with_sample(rows: DataFrame, watermarks: DataFrame | None, until_ms: str) -> DataFrame:
    """Adds the start and end of each row's topic partition by the last sample before `until_ms`; null where there is no
    sample, or where the sample is of another topic of that name."""
    if watermarks is None:
        return rows.withColumns({name: F.lit(None).cast("long") for name in ENDS})
    sample = watermarks.where(F.col("high_watermark").isNotNull()).select(
        *("topic", "partition", *ENDS), "sampled_at", F.col("topic_id").alias("sampled_topic_id")
    )
    is_same = F.coalesce(F.col("topic_id") == F.col("sampled_topic_id"), F.lit(True))
    sampled = (
        rows.select(*PLACE, "topic_id", until_ms, "kafka_offset")
        .join(sample, ["topic", "partition"])
        .where((F.unix_millis("sampled_at") <= F.col(until_ms)) & is_same)
        .groupBy(*PLACE, "kafka_offset")
        .agg(F.max_by(F.struct(*ENDS), "sampled_at").alias("sample"))
    )
    joined = rows.join(sampled, [*PLACE, "kafka_offset"], "left")
    return joined.select(*rows.columns, *(F.col(f"sample.{name}").alias(name) for name in ENDS))


# Lost, and come back


def lost(offset_events: DataFrame) -> DataFrame:
    """Returns the events after which a consumer starts where auto.offset.reset says: an offset expired, or the log's
    start passed it."""
    kinds = (OffsetEventKind.EXPIRED, OffsetEventKind.LOST_TO_RETENTION)
    return offset_events.where(F.col("kind").isin(*kinds) & F.col("offset_before").isNotNull())


def returns(
    offset_events: DataFrame,
    coordinator_records: DataFrame,
    coverage: DataFrame,
    generations: DataFrame,
    watermarks: DataFrame | None,
) -> DataFrame:
    """Returns one row for each lost offset whose partition was committed again, if no record is missing in
    between."""
    losses = lost(offset_events).select(
        *(*PLACE, *RECORD, F.col("kind").alias("lost_by"), "offset_before", row_key()),
        F.unix_millis("happened_at").alias("lost_at_ms"),
    )
    found = _with_commits(_with_end_of_stretch(losses, coverage), coordinator_records)
    return with_sample(_with_begin(found, generations), watermarks, "began_at_ms")


def _with_end_of_stretch(losses: DataFrame, coverage: DataFrame) -> DataFrame:
    complete = coverage.where(F.col("completeness") == Completeness.COMPLETE).select(
        "kafka_partition", "from_offset", F.col("to_offset").alias("known_to")
    )
    is_inside = (F.col("kafka_offset") >= F.col("from_offset")) & (F.col("kafka_offset") < F.col("known_to"))
    return losses.join(F.broadcast(complete), "kafka_partition").where(is_inside).drop("from_offset")


def _with_commits(losses: DataFrame, coordinator_records: DataFrame) -> DataFrame:
    """Adds the first commit after each loss, and what the commits before it show. The event of an expiry has the place
    of the removal, that of a passed offset the place of its commit."""
    line = Window.partitionBy(*PLACE).orderBy("kafka_offset")
    at_ms = record_ms()
    commits = (
        commit_log(coordinator_records)
        .join(F.broadcast(losses.select(*PLACE).distinct()), list(PLACE), "left_semi")
        .where(F.col("committed_offset").isNotNull())
    )
    pace = (F.col("committed_offset") - F.lag("committed_offset").over(line)) / (at_ms - F.lag(at_ms).over(line))
    commits = commits.select(
        *PLACE,
        F.struct(
            "kafka_offset", at_ms.alias("at_ms"), F.col("committed_offset").alias("offset"), "leader_epoch", "topic_id"
        ).alias("each"),
        F.when(at_ms > F.lag(at_ms).over(line), pace).alias("pace"),
    )
    is_before = F.col("each.kafka_offset") <= F.col("kafka_offset")
    later = F.when(F.col("each.kafka_offset") > F.col("kafka_offset"), F.col("each"))
    found = (
        losses.join(commits, list(PLACE))
        .groupBy(*losses.columns)
        .agg(
            F.min_by(later, later["kafka_offset"]).alias("next"),
            F.max_by("each.topic_id", F.when(is_before, F.col("each.kafka_offset"))).alias("topic_id"),
            F.max(F.when(is_before & (F.col("pace") > 0), F.col("pace"))).alias("records_per_ms"),
        )
        .where(F.col("next.kafka_offset") < F.col("known_to"))
    )
    return found.select(
        *(*(name for name in losses.columns if name != "known_to"), "topic_id", "records_per_ms"),
        *(F.col(f"next.{name}").alias(f"next_{name}") for name in ("kafka_offset", "at_ms", "offset")),
        F.col("next.leader_epoch").alias("leader_epoch"),
        F.coalesce(F.col("next.topic_id") == F.col("topic_id"), F.lit(False)).alias("is_same_topic"),
        F.coalesce(F.col("next.topic_id") != F.col("topic_id"), F.lit(False)).alias("is_other_topic"),
    )


def _with_begin(found: DataFrame, generations: DataFrame) -> DataFrame:
    """Adds `began_at_ms`: before it no consumer began to read there."""
    begun = generations.where(F.col("member_count") > 0).select(
        F.col("group_id").alias("of_group"),
        F.col("kafka_offset").alias("of_offset"),
        F.unix_millis("started_at").alias("started_at_ms"),
    )
    is_between = (
        (F.col("of_group") == F.col("group_id"))
        & (F.col("of_offset") > F.col("kafka_offset"))
        & (F.col("of_offset") < F.col("next_kafka_offset"))
    )
    first = F.min("started_at_ms").alias("started_at_ms")
    joined = found.join(begun, is_between, "left").groupBy(*found.columns).agg(first)
    began_at_ms = F.greatest(F.coalesce("started_at_ms", "lost_at_ms"), F.col("lost_at_ms"))
    return joined.withColumn("began_at_ms", began_at_ms).drop("started_at_ms")


# About to expire


def old_offsets(
    committed_offsets: DataFrame, generations: DataFrame, coverage: DataFrame, rules: Rules, as_of_ms: int
) -> DataFrame:
    """Returns the offsets that will expire soon by their age alone. Offsets that may already be gone without a record
    are left out."""
    hides_ends = (F.col("completeness") == Completeness.UNKNOWN) | F.coalesce("is_state_lost", F.lit(False))
    hidden = coverage.where(hides_ends).groupBy("kafka_partition").agg(F.max("from_offset").alias("hidden_to"))
    is_there = F.coalesce(F.col("commit_kafka_offset") >= F.col("hidden_to"), F.lit(True))
    is_committed = ~F.col("is_removed") & F.col("committed_offset").isNotNull() & is_there
    empty = generations.where("is_current AND member_count = 0").select(
        "group_id", F.unix_millis("current_state_at").alias("empty_since_ms")
    )
    # An administrator's commit does not make the offsets of an empty group younger.
    since_ms = F.least("committed_at_ms", F.coalesce("empty_since_ms", "committed_at_ms"))
    due_ms = F.coalesce("expire_at_ms", since_ms + rules.offsets.retention_ms)
    return (
        committed_offsets.join(F.broadcast(hidden), "kafka_partition", "left")
        .where(is_committed)
        .join(F.broadcast(empty), "group_id", "left")
        .where(due_ms <= as_of_ms + rules.expires_soon_ms)
        .select(
            *(*PLACE, *RECORD, "commit_kafka_offset", "committed_offset", "topic_id"),
            F.timestamp_millis("committed_at_ms").alias("committed_at"),
            F.timestamp_millis("expire_at_ms").alias("expire_at"),
            F.lit(as_of_ms).alias("as_of_ms"),
        )
    )


def expiring(old: DataFrame, watermarks: DataFrame | None) -> DataFrame:
    """Returns the old offsets whose loss would cost something: the topic's log has records before or after them."""
    sampled = with_sample(old, watermarks, "as_of_ms").drop("as_of_ms", "topic_id")
    return sampled.where(_is_harm() & F.col("high_watermark").isNotNull())


def may_matter(old: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Returns the old offsets of which the newest samples show such records, or show nothing."""
    sampled = with_sample(old, watermarks, "as_of_ms")
    return sampled.where(_is_harm() | F.col("high_watermark").isNull())


def _is_harm() -> Column:
    margin = F.lit(MARKER_OFFSETS)
    is_harm = F.col("high_watermark") > plus(F.col("committed_offset"), margin)
    return is_harm | (F.col("committed_offset") > plus(F.coalesce("log_start_offset", F.lit(0)), margin))


def modern(groups: DataFrame, old: DataFrame) -> DataFrame:
    """Returns the names of those modern groups (not classic ones) that have old offsets."""
    found = groups.where(F.col("group_type") != GroupType.CLASSIC).select("group_id")
    return found.join(old.select("group_id").distinct(), "group_id", "left_semi")


def readers(coordinator_records: DataFrame, groups: DataFrame, old: DataFrame) -> DataFrame:
    """Returns the records about members and subscriptions of those modern groups that have old offsets."""
    is_keyed = F.col("record_type").isin(*KEY_OF_RECORD) & F.col("decode_error").isNull()
    return (
        coordinator_records.where(is_keyed)
        .join(F.broadcast(modern(groups, old)), "group_id", "left_semi")
        .select("group_id", "kafka_offset", "record_type", "is_tombstone", "record_json")
    )
