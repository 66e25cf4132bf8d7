"""Converts instants between datetimes in UTC, which tables hold, and integers since 1970, which rules use, without
rounding.

Records, logs and captures may have any number as a time: -1 if there is no time, or that of a broken clock. `known_ms`
returns a number that may be a record's time, and None for any other. `transforms.numbers` does the same in Spark.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND: Final = timedelta(milliseconds=1)
MICROSECOND: Final = timedelta(microseconds=1)

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
EARLIEST_MS: Final = 0  # Kafka accepts no time below it; -1 means no time
LATEST_MS: Final = 2**47  # in the year 6429, so that what is added to it is still before 9999, Python's last
WRITTEN_FROM_MS: Final = 1_293_840_000_000  # 2011, Kafka's first release
WRITTEN_UNTIL_MS: Final = 4_102_444_800_000  # 2100


def known_ms(at_ms: int | None) -> int | None:
    """Returns the milliseconds since 1970 if they are from EARLIEST_MS to LATEST_MS, else None."""
    return at_ms if at_ms is not None and EARLIEST_MS <= at_ms <= LATEST_MS else None


def bounded_ms(at_ms: int) -> int:
    """Returns the milliseconds since 1970, cut to the range from EARLIEST_MS to LATEST_MS."""
    return min(max(at_ms, EARLIEST_MS), LATEST_MS)


def saturated_int32(number: int) -> int:
    """Returns the number, or the nearest that 32 bits hold."""
    return min(max(number, INT32_MIN), INT32_MAX)


def saturated_int64(number: int) -> int:
    """Returns the number, or the nearest that 64 bits hold."""
    return min(max(number, INT64_MIN), INT64_MAX)


def instant_of_ms(at_ms: int) -> datetime:
    """Returns the instant so many milliseconds after 1970."""
    return EPOCH + at_ms * MILLISECOND


def instant_if_known(at_ms: int | None) -> datetime | None:
    """Returns the instant so many milliseconds after 1970; None if `at_ms` is None."""
    return None if at_ms is None else instant_of_ms(at_ms)


def instant_of_us(at_us: int) -> datetime:
    """Returns the instant so many microseconds after 1970."""
    return EPOCH + at_us * MICROSECOND


def ms_of(at: datetime) -> int:
    """Returns the whole milliseconds since 1970."""
    return (at - EPOCH) // MILLISECOND


def ms_if_known(at: datetime | None) -> int | None:
    """Returns the whole milliseconds since 1970; None if `at` is None."""
    return None if at is None else ms_of(at)


def us_of(at: datetime) -> int:
    """Returns the microseconds since 1970."""
    return (at - EPOCH) // MICROSECOND
