"""Computes the committed offsets of groups at an instant, as OffsetFetch would have answered then.

The instant is turned into a position in the log, and the newest record of each key below it counts: so the answer is a
state that the log really had. An instant is known in a `complete` stretch of coverage only. Records before the stretch
count too, since compaction keeps each key's last record; if a hole lies between, the answer is `unknown`. Where clocks
went back after a failover, one instant has several positions, and a partition that they disagree on is `unknown` too. A
partition whose last record is a removal (deleted, expired) or offset -1 has no row.

A transactional commit stands where it was written, which is shortly before its transaction ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.words import Completeness, OffsetStatus
from groupledger.transforms.offsets.offset_commits import with_known_from

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame


def offsets_at(log: DataFrame, coverage: DataFrame, at: datetime) -> DataFrame:
    """Returns a row for each group, topic and partition that had a committed offset. `log` is a `commit_log`. A group
    whose log is not known at that instant has no row; offset, epoch, metadata and times are null if `unknown`."""
    group, key = ["cluster", "group_id"], ["cluster", "group_id", "topic", "partition"]
    instant = F.lit(at)
    known = with_known_from(coverage).where(
        (F.col("completeness") == Completeness.COMPLETE)
        & (F.col("from_time") <= instant)
        & (instant < F.col("to_time"))
    )
    known = known.select("cluster", "kafka_partition", "from_offset", "to_offset", "known_from")
    read = log.join(F.broadcast(known), ["cluster", "kafka_partition"]).where(
        F.col("kafka_offset") < F.col("to_offset")
    )
    is_later = (F.col("kafka_offset") >= F.col("from_offset")) & (F.col("kafka_timestamp") > instant)
    positions = read.groupBy(*group).agg(
        F.min(F.when(is_later, F.col("kafka_offset"))).alias("first_later"),
        F.max(F.when(~is_later, F.col("kafka_offset"))).alias("last_earlier"),
    )
    state = F.struct("kafka_offset", "kafka_timestamp", "is_tombstone", "committed_offset", "leader_epoch", "metadata")
    is_certain = F.coalesce(F.col("kafka_offset") < F.col("first_later"), F.lit(True))
    newest = (
        read.join(positions, group)
        .where(F.col("kafka_offset") <= F.col("last_earlier"))
        .groupBy(*key)
        .agg(
            F.max_by(state, "kafka_offset").alias("state"),
            F.max(F.when(is_certain, F.col("kafka_offset"))).alias("certain_offset"),
            F.max("known_from").alias("known_from"),
        )
    )
    offset = F.col("state.kafka_offset")
    is_known = (offset >= F.col("known_from")) & offset.eqNullSafe(F.col("certain_offset"))
    is_committed = ~F.col("state.is_tombstone") & F.col("state.committed_offset").isNotNull()
    return newest.where(~is_known | is_committed).select(
        *key,
        F.when(is_known, OffsetStatus.COMMITTED).otherwise(OffsetStatus.UNKNOWN).alias("status"),
        *(
            F.when(is_known, F.col(f"state.{name}")).alias(alias)
            for name, alias in (
                ("committed_offset", "committed_offset"),
                ("leader_epoch", "leader_epoch"),
                ("metadata", "metadata"),
                ("kafka_timestamp", "committed_at"),
                ("kafka_offset", "kafka_offset"),
            )
        ),
    )
