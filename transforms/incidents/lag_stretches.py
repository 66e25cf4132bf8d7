"""Turns rows of `lag` into stretches: rounds in a row in which a commit had one status. `rules.waiting` makes incidents
of them.

    lag_stretches(lag)                      the stretches in some rounds
    joined(stretches)                       joins stretches of earlier and of later rounds
    still_needed(stretches, last_ms, shortest_ms)  the stretches that incidents need now, or may need later

While a group waits for an open transaction, the last stable offset stands still, and it never comes back to the same
value later: all rounds that show the same last stable offset are one stretch, whatever lies between. A commit beyond
the end of the log stays so until somebody resets it or the log has grown so far. A stretch that has ended and was too
short for an incident is dropped.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.words import LagStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

STATUSES = (LagStatus.WAITING_FOR_TRANSACTION, LagStatus.AHEAD_OF_LOG)
KEY = ("group_id", "topic", "partition", "status", "committed_offset", "last_stable_offset")
COLUMNS = (*KEY, "high_watermark", "from_ms", "until_ms")


def lag_stretches(lag: DataFrame) -> DataFrame:
    sampled_ms = F.unix_millis("sampled_at")
    is_waiting = F.col("status") == LagStatus.WAITING_FOR_TRANSACTION
    stable = F.when(is_waiting, F.col("last_stable_offset")).alias("last_stable_offset")
    rows = lag.where(F.col("status").isin(*STATUSES) & F.col("committed_offset").isNotNull())
    return joined(
        rows.select(
            *(name for name in KEY if name != "last_stable_offset"),
            *(stable, "high_watermark", sampled_ms.alias("from_ms"), sampled_ms.alias("until_ms")),
        )
    )


def joined(stretches: DataFrame) -> DataFrame:
    return stretches.groupBy(*KEY).agg(
        F.max_by("high_watermark", "until_ms").alias("high_watermark"),
        F.min("from_ms").alias("from_ms"),
        F.max("until_ms").alias("until_ms"),
    )


def still_needed(stretches: DataFrame, last_ms: int, shortest_ms: Mapping[str, int]) -> DataFrame:
    """Returns the stretches that incidents need now, or may need later. `shortest_ms` says, for each status, how long a
    stretch has to be for an incident."""
    return stretches.where(is_long(shortest_ms) | (F.col("until_ms") >= last_ms)).select(*COLUMNS)


def is_long(shortest_ms: Mapping[str, int]) -> Column:
    """Returns whether a stretch is long enough for an incident."""
    length_ms = F.col("until_ms") - F.col("from_ms")
    long = ((F.col("status") == status) & (length_ms >= each_ms) for status, each_ms in shortest_ms.items())
    return reduce(or_, long)
