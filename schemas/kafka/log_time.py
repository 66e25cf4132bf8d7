"""Parses the time of a log line in its possible forms, and finds the instant that it means.

    2026-10-25 02:30:00,123          in the zone of the settings; also with `T`, a decimal point, or no fraction
    2026-10-25T02:30:00.123+02:00    an instant: `Z`, `UTC`, `GMT`, `+02`, `+0200`; `CEST` if the zone has it
    1792888200123                    milliseconds since 1970; seconds with ten digits

A time without a zone can be two instants (in an hour that a clock change repeats) or none (in an hour that a clock
change skips). `ZoneEvidence` decides: the time of the container that took the line, or the pass of the hour that the
order of the lines shows. Without evidence the earlier time is used, and marked as ambiguous. A time that no broker can
have logged, such as -1 or the year 9999, is unknown."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from groupledger.schemas.instants import us_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# The groups `second`, `fraction` and `zone`, or `epoch`. No level ends in T, as the short names of zones do.
TIME = (
    r"(?:(?P<second>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[,.](?P<fraction>\d{3,9}))?"
    r"(?: ?(?P<zone>Z|UTC|[A-Z]{2,4}T|[+-]\d\d(?::?\d\d)?))?|(?P<epoch>\d{13}|\d{10}(?:\.\d{1,9})?))"
)
NO_TIME = "a time that no broker can have logged, or of another zone than logs.time_zone"
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
# Kafka's first release is of January 2011.
EARLIEST_US = us_of(datetime(2011, 1, 1, tzinfo=timezone.utc))
LATEST_US = us_of(datetime(2100, 1, 1, tzinfo=timezone.utc))
# A container takes a line within moments; where its time is that near, it decides which of two times a line means.
NEAR_US = 600 * SECOND_US
# Where the settings' zone does not fit at all, the container's time shows the zone, whose offset is in quarter hours.
QUARTER_US, QUARTERS_MAX, PROMPT_US = 900 * SECOND_US, 14 * 4, 60 * SECOND_US
_OF_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?")
_EPOCH_DIGITS = 10  # of the seconds, until the year 2286


class ZoneEvidence(NamedTuple):
    """The evidence for the instant of a local time: the pass of a repeated hour (0 or 1), and when the container took
    the line, in microseconds since 1970."""

    fold: int | None = None
    outer_us: int | None = None


NO_EVIDENCE = ZoneEvidence()


class LogTime(NamedTuple):
    at_us: int
    is_ambiguous: bool


def is_plausible(at_us: int) -> bool:
    return EARLIEST_US <= at_us < LATEST_US


def log_time(parts: Mapping[str, str | None], time_zone: str, evidence: ZoneEvidence) -> LogTime | None:
    """Returns the instant of a time, from the `parts` into which the pattern `TIME` divides it. If the time is invalid,
    or no broker can have logged it, returns the container's time, or None if there is no such time."""
    read = _read(parts, time_zone, evidence)
    if read is not None and is_plausible(read.at_us):
        return read
    outer_us = evidence.outer_us
    return None if outer_us is None or not is_plausible(outer_us) else LogTime(outer_us, is_ambiguous=False)


def _read(parts: Mapping[str, str | None], time_zone: str, evidence: ZoneEvidence) -> LogTime | None:
    epoch, second, zone = parts["epoch"], parts["second"], parts["zone"]
    if epoch is not None:
        digits = epoch.replace(".", "")
        return LogTime(int(digits[:16].ljust(_EPOCH_DIGITS + 6, "0")), is_ambiguous=False)
    both = None if second is None else instants_us(second, time_zone)
    if second is None or both is None:
        return None
    fraction_us = int((parts["fraction"] or "")[:6].ljust(6, "0"))
    if zone is not None:
        at_us = _in_zone(second, zone, time_zone)
        return None if at_us is None else LogTime(at_us + fraction_us, is_ambiguous=False)
    return _local_time(both[0] + fraction_us, both[1] + fraction_us, (_utc_us(second) or 0) + fraction_us, evidence)


def _local_time(first_us: int, second_us: int, as_utc_us: int, evidence: ZoneEvidence) -> LogTime:
    if evidence.outer_us is not None:
        return _beside(first_us, second_us, as_utc_us, evidence.outer_us)
    # The hour that is left out gives the later instant first, and neither is true.
    known = evidence.fold if first_us < second_us else None
    is_ambiguous = first_us != second_us and known is None
    return LogTime(second_us if known else first_us, is_ambiguous=is_ambiguous)


def _beside(first_us: int, second_us: int, as_utc_us: int, outer_us: int) -> LogTime:
    """Returns the instant that goes with the container's time."""
    nearest_us = min(first_us, second_us, key=lambda at_us: abs(at_us - outer_us))
    if abs(nearest_us - outer_us) <= NEAR_US:
        return LogTime(nearest_us, is_ambiguous=False)
    quarters = round((as_utc_us - outer_us) / QUARTER_US)
    derived_us = as_utc_us - quarters * QUARTER_US
    if abs(quarters) <= QUARTERS_MAX and abs(derived_us - outer_us) <= PROMPT_US:
        return LogTime(derived_us, is_ambiguous=False)
    return LogTime(nearest_us, is_ambiguous=first_us != second_us)


def _in_zone(second: str, zone: str, time_zone: str) -> int | None:
    """Returns the instant of a time that names its zone. A short name counts if the zone of the settings has it."""
    if zone in {"Z", "UTC", "GMT"}:
        return _utc_us(second)
    offset = _OF_ZONE.fullmatch(zone)
    at_us = _utc_us(second)
    if offset is not None:
        minutes = int(offset["hours"]) * 60 + int(offset["minutes"] or 0)
        return None if at_us is None else at_us - (-minutes if offset["sign"] == "-" else minutes) * 60 * SECOND_US
    local = _local(second)
    both = [] if local is None else [local.replace(tzinfo=ZoneInfo(time_zone), fold=fold) for fold in (0, 1)]
    return next((us_of(at) for at in both if at.tzname() == zone), None)


def _local(second: str) -> datetime | None:
    try:
        return datetime.fromisoformat(second.replace("T", " "))
    except ValueError:
        return None


def _utc_us(second: str) -> int | None:
    both = instants_us(second, "UTC")
    return None if both is None else both[0]


def instants_us(second: str, time_zone: str) -> tuple[int, int] | None:
    """Returns the two instants of a local time, in microseconds since 1970; None if it is not a valid time. They are
    equal unless the clocks were changed: in a repeated hour the first is the earlier one, in a skipped hour the later
    one."""
    minute = _minute_us(second[:16], time_zone)
    passed_us = int(second[17:19]) * SECOND_US
    if minute is None or passed_us >= MINUTE_US:
        return None
    return minute[0] + passed_us, minute[1] + passed_us


@lru_cache(maxsize=1024)
def _minute_us(minute: str, time_zone: str) -> tuple[int, int] | None:
    """Returns the instants of the beginning of a minute; no clock has been changed within one."""
    local, zone = _local(minute), ZoneInfo(time_zone)
    try:
        return None if local is None else (us_of(local.replace(tzinfo=zone)), us_of(local.replace(tzinfo=zone, fold=1)))
    except OverflowError:
        return None


@lru_cache(maxsize=64)
def has_changes(time_zone: str) -> bool:
    """Returns whether the zone's clocks are changed at any time from 2011, Kafka's first release, to 2100."""
    zone, day = ZoneInfo(time_zone), timedelta(days=7)
    at, end = datetime(2011, 1, 1, tzinfo=timezone.utc), datetime(2100, 1, 1, tzinfo=timezone.utc)
    first = at.astimezone(zone).utcoffset()
    while at < end:
        if at.astimezone(zone).utcoffset() != first:
            return True
        at += day
    return False
