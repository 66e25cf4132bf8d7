"""Finds the committed offsets that Kafka will expire, by the rules of its OffsetExpirationConditionImpl.

- Offsets of a group without members expire: those of a classic group some time after it became empty; those of a simple
  consumer, of a modern group, and where no record tells when the group became empty, some time after their commit.
- While a group of consumers or of streams has members, the offsets of topics that none of them subscribes to expire
  some time after their commit. Other members (of Connect, of a schema registry) keep all offsets of their group, and so
  does a subscription that can't be read here.
- A commit may name its own expiry (value version 1), which takes the place of that time.

Members of classic groups are those of the history; those of modern groups are the newest records of their keys. Share
groups commit no offsets.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.schemas.words import ExpiryCause, GroupType
from groupledger.transforms.history.group_activity import GROUP
from groupledger.transforms.history.rules.events import CONSUMER
from groupledger.transforms.records.record_structs import record_structs

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from pyspark.sql import Column, DataFrame

_OF_GROUP = ("group_type", "is_simple", "member_count")
_LATEST_MS = 2**47  # in the year 6429: a client may name any number, and an instant can't hold all


def expiring_offsets(
    *,
    groups: DataFrame,
    generations: DataFrame,
    members: DataFrame,
    coordinator_records: DataFrame,
    as_of: datetime,
    idle_for: timedelta,
    retention: timedelta,
) -> DataFrame:
    """Returns a row for each group and cause, and for each topic that no member subscribes to, with the time at which
    the last of the offsets goes; only those that were idle for so long, or will expire as soon."""
    records = coordinator_records.where(F.col("decode_error").isNull())
    committed = _committed(records).join(groups.where(F.col("is_alive")).select(*GROUP, *_OF_GROUP), GROUP)
    found = committed.join(_readers(groups, members, records), GROUP, "left")
    found = found.join(_empty_since(generations), GROUP, "left")

    is_classic = F.col("group_type") == GroupType.CLASSIC
    count = F.when(is_classic, F.col("member_count")).otherwise(F.coalesce("reader_count", F.lit(0)))
    is_empty = F.col("is_simple") | F.coalesce(count == 0, F.lit(False))
    is_left_out = (count > 0) & F.col("are_topics_known") & ~F.array_contains("topics", F.col("topic"))
    begin = F.when(is_classic & is_empty, F.col("empty_since"))
    begin = F.coalesce(begin, "committed_at")
    cause = (
        F.when(F.col("expire_at").isNotNull(), ExpiryCause.EXPLICIT)
        .when(is_empty, ExpiryCause.NO_MEMBERS)
        .otherwise(ExpiryCause.NOT_SUBSCRIBED)
    )
    told = found.where(is_empty | F.coalesce(is_left_out, F.lit(False))).select(
        *GROUP,
        *("group_type", "is_simple", "committed_at"),
        cause.alias("cause"),
        F.when(cause == ExpiryCause.NOT_SUBSCRIBED, F.col("topic")).alias("topic"),
        begin.alias("begin"),
        F.coalesce("expire_at", begin + F.lit(retention)).alias("expire_at"),
    )
    return (
        told.groupBy(*GROUP, "group_type", "is_simple", "cause", "topic")
        .agg(
            F.count("*").alias("committed_partition_count"),
            F.max("committed_at").alias("last_commit_at"),
            F.max("begin").alias("idle_since"),
            F.max("expire_at").alias("offsets_expire_at"),
        )
        .where(F.col("offsets_expire_at") <= F.lit(as_of + retention - idle_for))
    )


def _committed(records: DataFrame) -> DataFrame:
    """Returns the newest commit of each partition of a group that has not been removed."""
    commits = records.where(F.col("record_type").isin(*OFFSET_COMMIT_TYPES))
    commits = commits.select(*GROUP, "kafka_offset", "kafka_timestamp", "is_tombstone", "offset_commit.*")
    newest = F.struct(
        "is_tombstone",
        F.coalesce(_instant("commit_timestamp_ms"), "kafka_timestamp").alias("committed_at"),
        F.when(F.col("expire_timestamp_ms") >= 0, _instant("expire_timestamp_ms")).alias("expire_at"),
    )
    found = commits.groupBy(*GROUP, "topic", "partition").agg(F.max_by(newest, "kafka_offset").alias("newest"))
    return found.select(*GROUP, "topic", "newest.*").where(~F.col("is_tombstone"))


def _instant(column: str) -> Column:
    bounded = F.least(F.greatest(F.col(column), F.lit(0)), F.lit(_LATEST_MS))
    return F.timestamp_millis(F.when(F.col(column).isNotNull(), bounded))


def _empty_since(generations: DataFrame) -> DataFrame:
    is_empty = F.col("is_current") & (F.col("member_count") == 0) & (F.col("protocol_type") != "")
    return generations.where(is_empty).select(*GROUP, F.col("current_state_at").alias("empty_since"))


# Who subscribes to what


def _readers(groups: DataFrame, members: DataFrame, records: DataFrame) -> DataFrame:
    """Returns a row for each group with members: how many, the topics that they subscribe to, and whether all of these
    are known."""
    protocol_types = groups.select(*GROUP, "protocol_type")
    classic = members.where(F.col("is_open") == 1).join(protocol_types, GROUP)
    is_read = (F.col("protocol_type") == CONSUMER) & F.col("subscribed_topics").isNotNull()
    consumers = _alive(records, "consumer_group_member_metadata", "member_id")
    patterns = _alive(records, "consumer_group_regular_expression", "regular_expression")
    streams = _alive(records, "streams_group_member_metadata", "member_id")
    topologies = _alive(records, "streams_group_topology")
    is_listed = F.forall("value.subtopologies", lambda part: F.size(part.source_topic_regex) == 0)
    sides = (
        _side(classic, F.col("subscribed_topics"), is_read, members=1),
        _side(consumers, F.col("value.subscribed_topic_names"), F.lit(True), members=1),
        _side(patterns, F.col("value.topics"), F.lit(True), members=0),
        _side(streams, F.lit(None).cast("array<string>"), F.lit(True), members=1),
        _side(topologies, _source_topics(), is_listed, members=0),
    )
    found = reduce(lambda one, other: one.union(other), sides).groupBy(*GROUP)
    readers = found.agg(
        F.sum("members").alias("reader_count"),
        F.flatten(F.collect_list("topics")).alias("topics"),
        F.bool_and(F.coalesce("is_known", F.lit(False))).alias("are_topics_known"),
    )
    return readers.where(F.col("reader_count") > 0)


def _side(rows: DataFrame, topics: Column, is_known: Column, *, members: int) -> DataFrame:
    return rows.select(*GROUP, topics.alias("topics"), is_known.alias("is_known"), F.lit(members).alias("members"))


def _alive(records: DataFrame, record_type: str, *key: str) -> DataFrame:
    """Returns the newest record of each key, as `value`, unless it is a tombstone."""
    typed = record_structs(records, record_type)
    newest = F.struct("is_tombstone", F.col(record_type).alias("value"))
    keys = [F.col(f"{record_type}.{name}").alias(name) for name in key]
    by_key = typed.select(*GROUP, "kafka_offset", newest.alias("record"), *keys).groupBy(*GROUP, *key)
    found = by_key.agg(F.max_by("record", "kafka_offset").alias("newest"))
    return found.where(~F.col("newest.is_tombstone")).select(*GROUP, F.col("newest.value").alias("value"))


def _source_topics() -> Column:
    named = F.transform("value.subtopologies", lambda part: part.source_topics)
    between = F.transform(
        "value.subtopologies", lambda part: F.transform(part.repartition_source_topics, lambda topic: topic["name"])
    )
    return F.concat(F.flatten(named), F.flatten(between))
