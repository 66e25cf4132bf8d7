"""Instants and lengths of time, as a page shows them and as its script takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

MINUTE_SECONDS = 60


def milliseconds(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000)


def clock(at: datetime | None) -> str:
    """Returns an instant in UTC to the second, which is what a table on a page has room for."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def duration(seconds: float | None) -> str:
    """Returns a length of time in its two largest units."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms" if seconds else "0 s"
    if seconds < MINUTE_SECONDS:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
