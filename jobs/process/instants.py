"""Reads the instants that people type, and shows instants in the zone that they read in.

    2026-01-31T14:03:00Z    also without the Z, the seconds or the time
    14:03                   the last time that it was 14:03
    2h                      two hours ago; s, m, h, d and w
    now

What names no zone is in the zone of `--tz`, which is UTC unless it is given. Tables show instants in it, too; JSON is
in UTC always.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, timezone, tzinfo

import click

from groupledger.transforms.coverage.rules.coverage_at import iso

ZONE = "groupledger.zone"
AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_instant(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Returns the instant in UTC. Raises ValueError or OverflowError if the text is none."""
    text = text.strip()
    ago = AGO.fullmatch(text)
    if text == "now":
        found = now
    elif ago is not None:
        found = now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    elif ":" in text[:3]:
        found = last_time_of_day(time.fromisoformat(text), now.astimezone(zone))
    else:
        # Python 3.10 reads no Z.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if found.tzinfo is None:
            found = found.replace(tzinfo=zone)
    return found.astimezone(timezone.utc)


def last_time_of_day(wanted: time, now: datetime) -> datetime:
    """Returns when it was last that time, of today or the day before."""
    if wanted.tzinfo is not None:
        raise ValueError(f"{wanted} names a zone: write the date, too")
    today = datetime.combine(now.date(), wanted, now.tzinfo)
    return today if today <= now else datetime.combine(now.date() - timedelta(days=1), wanted, now.tzinfo)


def in_zone(instant: datetime) -> str:
    """Returns an instant for people, in the zone of the command that runs."""
    return iso(instant.astimezone(zone_of(click.get_current_context(silent=True))))


def lasted(duration: timedelta) -> str:
    """Returns a duration for people, in its two largest units: 24 s, 2 min 7 s, 3 h 5 min, 4 d 2 h."""
    minutes, seconds = divmod(max(int(duration.total_seconds()), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((number for number, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(shown) or "0 s"


def zone_of(context: click.Context | None) -> tzinfo:
    zone = None if context is None else context.find_root().meta.get(ZONE)
    return zone if isinstance(zone, tzinfo) else timezone.utc
