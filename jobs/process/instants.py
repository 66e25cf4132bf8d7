"""Parses the instants that users type, and formats instants in the user's time zone.

    2026-01-31T14:03:00Z    also without the Z, the seconds or the time
    14:03                   the last time that clocks showed 14:03; the second one if they showed it twice
    2h                      two hours ago; s, m, h, d and w
    now

An instant without a zone is in the zone of `--tz`, by default UTC. Tables show instants in that zone, too; JSON always
has UTC. A date and time that occurred twice in that zone is refused with the two instants that it can mean. One that
the clocks skipped is refused, too.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, timezone, tzinfo

import click

from groupledger.transforms.coverage.rules.coverage_at import iso

SECONDS_MAX = 10**11  # some thousand years: sums of what clients wrote may be above
ZONE = "groupledger.zone"
AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
# Two days on which a zone leaves out the same time never follow each other.
DAYS_MAX = 3
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class AmbiguousTimeError(ValueError):
    """A local time occurred twice, or not at all; the text says what to write instead."""


def read_instant(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Returns the time in UTC. Raises ValueError or OverflowError if the text is not a valid time."""
    text = text.strip()
    ago = AGO.fullmatch(text)
    if text == "now":
        found = now
    elif ago is not None:
        found = now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    elif ":" in text[:3]:
        found = last_time_of_day(time.fromisoformat(text), now, zone)
    else:
        # Python 3.10 reads no Z.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if found.tzinfo is None:
            found = only_instant(found, zone)
    return found.astimezone(timezone.utc)


def last_time_of_day(wanted: time, now: datetime, zone: tzinfo) -> datetime:
    """Returns the last instant up to `now` at which the clocks of `zone` showed the time of day `wanted`. If an hour is
    repeated, that may be its second pass. A day on which the clocks skipped that time is passed over. Raises ValueError
    if `wanted` names a zone."""
    if wanted.tzinfo is not None:
        raise ValueError(f"{wanted} names a zone: write the date, too")
    today = now.astimezone(zone).date()
    days = (today - timedelta(days=days) for days in range(DAYS_MAX))
    found = [at for day in days for at in instants_of(datetime.combine(day, wanted), zone) if at <= now]
    return max(found)


def instants_of(local: datetime, zone: tzinfo) -> list[datetime]:
    """Returns the instants, in UTC, at which the clocks of `zone` show the time `local`: one normally, two in an hour
    that is repeated, an empty list in an hour that is skipped."""
    both = {local.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1)}
    return sorted(at for at in both if at.astimezone(zone).replace(tzinfo=None) == local)


def only_instant(local: datetime, zone: tzinfo) -> datetime:
    found = instants_of(local, zone)
    if len(found) == 1:
        return found[0]
    if not found:
        raise AmbiguousTimeError(f"{local.isoformat()} did not come in {zone}: the clocks left it out")
    forms = " or ".join(at.astimezone(zone).isoformat() for at in found)
    raise AmbiguousTimeError(f"{local.isoformat()} came twice in {zone}: write {forms}")


def in_zone(instant: datetime) -> str:
    """Returns an instant as text, in the time zone of the running command."""
    return iso(instant.astimezone(zone_of(click.get_current_context(silent=True))))


def lasted(duration: timedelta) -> str:
    """Returns a duration as text, in its two largest units: 24 s, 2 min 7 s, 3 h 5 min, 4 d 2 h."""
    minutes, seconds = divmod(max(int(duration.total_seconds()), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((number for number, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(shown) or "0 s"


def lasted_seconds(seconds: float) -> str:
    """Returns a number of seconds as a duration in text; a number too large for a duration stays a number of
    seconds."""
    return lasted(timedelta(seconds=seconds)) if abs(seconds) < SECONDS_MAX else f"{seconds:,.0f} s"


def zone_of(context: click.Context | None) -> tzinfo:
    zone = None if context is None else context.find_root().meta.get(ZONE)
    return zone if isinstance(zone, tzinfo) else timezone.utc
