"""Selects the rows of `lag` that `rules.retention_ahead` needs to find commits that retention will overtake.

    near_the_start(newest)     the partitions of the newest round whose commits lie in the older half of their logs
    lag_rounds(lag, near)      the rows of these partitions in all rounds, only the last one of each minute

Few commits are near the start of a log, so few rows of earlier rounds are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.transforms.incidents.rules.facts import MARKER_OFFSETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE = ("group_id", "topic", "partition")
SEEN = ("committed_offset", "log_start_offset", "lag", "status")
MINUTE_MS = 60_000


def near_the_start(newest: DataFrame) -> DataFrame:
    left = F.col("committed_offset") - F.col("log_start_offset")
    is_near = left.between(0, F.col("lag")) & (F.col("lag") > MARKER_OFFSETS) & (F.col("log_start_offset") > 0)
    return newest.where(is_near).select(*PLACE)


def lag_rounds(lag: DataFrame, near: DataFrame) -> DataFrame:
    at_ms = F.unix_millis("sampled_at")
    rows = lag.join(F.broadcast(near), list(PLACE), "left_semi").select(*PLACE, *SEEN, at_ms.alias("sampled_at_ms"))
    minute = F.floor(F.col("sampled_at_ms") / MINUTE_MS).alias("minute")
    last = F.max_by(F.struct("sampled_at_ms", *SEEN), "sampled_at_ms").alias("last")
    return rows.groupBy(*PLACE, minute).agg(last).select(*PLACE, "last.*")
