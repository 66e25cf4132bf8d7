"""Computes in Spark with numbers and times from clients and captures. An overflow gives a bound or null, and never
fails a job.

    plus(one, other), minus(one, other)     whole numbers of 64 bits; a result that they can't hold is the nearest bound
    known_instant_ms(at_ms)                 milliseconds, null if no record can have that instant
    record_ms(), record_ms("happened_at")   milliseconds of a timestamp; for an impossible one the nearest bound

Kafka stores any number of 64 bits as a committed offset or as a time. In Spark's ANSI mode a single sum that overflows
ends the query, and so the pass of a whole cluster. `schemas.instants` has the bounds, and the same functions for rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.instants import EARLIEST_MS, INT64_MAX, INT64_MIN, LATEST_MS

if TYPE_CHECKING:
    from pyspark.sql import Column


def plus(one: Column, other: Column) -> Column:
    """Returns the sum, the nearest bound if 64 bits can't hold it, null if either is null."""
    return _within(one, other, F.try_add(one, other), F.lit(INT64_MAX), F.lit(INT64_MIN))


def minus(one: Column, other: Column) -> Column:
    """Returns the difference, the nearest bound if 64 bits can't hold it, null if either is null."""
    return _within(one, other, F.try_subtract(one, other), F.lit(INT64_MIN), F.lit(INT64_MAX))


def known_instant_ms(at_ms: Column) -> Column:
    """Returns the milliseconds; null if no record can have that instant (`schemas.instants`)."""
    return F.when(at_ms.between(EARLIEST_MS, LATEST_MS), at_ms)


def record_ms(timestamp: str = "kafka_timestamp") -> Column:
    """Returns the milliseconds of a record's timestamp; for one outside the possible range, the nearest bound."""
    at_ms = F.unix_millis(timestamp)
    return F.when(at_ms.isNotNull(), F.least(F.greatest(at_ms, F.lit(EARLIEST_MS)), F.lit(LATEST_MS)))


def _within(one: Column, other: Column, result: Column, if_positive: Column, if_negative: Column) -> Column:
    is_known = one.isNotNull() & other.isNotNull()
    return F.when(is_known, F.coalesce(result, F.when(other > 0, if_positive).otherwise(if_negative)))
