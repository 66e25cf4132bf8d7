"""Instants as tables give them, datetimes in UTC, and as rules count them, from 1970 on; both without rounding."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND: Final = timedelta(milliseconds=1)
MICROSECOND: Final = timedelta(microseconds=1)


def instant_of_ms(at_ms: int) -> datetime:
    """Returns the instant so many milliseconds after 1970."""
    return EPOCH + at_ms * MILLISECOND


def instant_if_known(at_ms: int | None) -> datetime | None:
    """Returns the instant so many milliseconds after 1970, None for no number."""
    return None if at_ms is None else instant_of_ms(at_ms)


def instant_of_us(at_us: int) -> datetime:
    """Returns the instant so many microseconds after 1970."""
    return EPOCH + at_us * MICROSECOND


def ms_of(at: datetime) -> int:
    """Returns the whole milliseconds since 1970."""
    return (at - EPOCH) // MILLISECOND


def ms_if_known(at: datetime | None) -> int | None:
    """Returns the whole milliseconds since 1970, None for no instant."""
    return None if at is None else ms_of(at)


def us_of(at: datetime) -> int:
    """Returns the microseconds since 1970."""
    return (at - EPOCH) // MICROSECOND
