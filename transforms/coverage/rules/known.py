"""Checks whether a question asks for a time that was not read, so that "none" is answered only for time that was read.

Each source (`schemas.words.Source`) is known until an instant of its own, or was never read. A question needs some of
the sources, and asks about one or several instants, about a window, or about all that is known. A window without an end
extends to where the sources end, so a source lacks a part of it only if the window begins after the source's end. Logs
of the brokers need not be imported, so no question needs them: an answer leaves out what logs would say, and says until
when they were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Known = Mapping[str, datetime | None]
"""The instant until which each source was read; None for a source that was never read."""

# Each source with its name in a sentence, and the sentence for one that was never read.
UNTIL = {
    Source.TOPIC: ("the log is read up to {} only", "the log was not read to its end yet"),
    Source.HISTORY: ("the history is known until {} only", "the history is not made yet"),
    Source.SAMPLES: ("the last sampling round was at {}", "no sampling round is computed yet"),
    Source.INCIDENTS: ("incidents were looked for until {} only", "nobody has looked for incidents yet"),
}
LOGS = (Source.REQUEST_LOG, Source.SERVER_LOG)
REMEDY = "run `groupledger pipeline`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Time:
    """The time that a question is about: the window [since, until), and instants."""

    since: datetime | None = None
    until: datetime | None = None
    instants: tuple[datetime, ...] = ()

    @classmethod
    def at(cls, instant: datetime | None) -> Time:
        return cls(instants=() if instant is None else (instant,))


def topic_known_until(coverage: Iterable[Mapping[str, object]], partitions: Collection[int]) -> datetime | None:
    """Returns the instant until which all of these partitions of `__consumer_offsets` were read; None if one of them
    was not. Without `partitions`, returns the latest instant at which any partition was read to its end: one pass reads
    all partitions, so that instant counts for all."""
    ends: dict[object, datetime] = {}
    for row in coverage:
        partition, to_time = row["kafka_partition"], row["to_time"]
        if isinstance(to_time, datetime):
            ends[partition] = max(ends.get(partition, to_time), to_time)
    if not partitions:
        return max(ends.values(), default=None)
    return min((ends[partition] for partition in partitions), default=None) if ends.keys() >= {*partitions} else None


def why_not_known(known: Known, sources: Iterable[str], time: Time, age: timedelta | None = None) -> str | None:
    """Returns one sentence, with the remedy, about the sources that do not reach to the end of the question's time;
    None if all of that time is known. `age` is how long ago the question's window begins: if all sources end before it,
    the sentence names a beginning that is as long before their ends."""
    lacking = [(source, known[source]) for source in sources if _is_beyond(source, known[source], time)]
    if not lacking:
        return None
    limits = [UNTIL[source][0].format(iso(end)) if end is not None else UNTIL[source][1] for source, end in lacking]
    ends = [end for _, end in lacking if end is not None]
    earlier = ", or ask for a time before" if len(ends) == len(lacking) else ""
    if earlier and age is not None and age > timedelta() and time.since is not None and time.since >= min(ends):
        earlier += f", as --since {(min(ends) - age).strftime('%Y-%m-%dT%H:%M:%SZ')}"
    return f"Not known for all of the time that was asked: {', and '.join(limits)}; {REMEDY}{earlier}."


def is_nothing_known(known: Known, sources: Iterable[str], time: Time) -> bool:
    """Returns whether the question's window begins after the end of every source that the question needs."""
    ends = [known[source] for source in sources]
    return time.since is not None and all(end is None or time.since >= end for end in ends)


def last_instant(known: Known, sources: Iterable[str]) -> datetime | None:
    """Returns the latest instant until which any of the question's sources is known; the question takes it as "now".
    None if no source was read."""
    return max((end for source in sources if (end := known[source]) is not None), default=None)


def _is_beyond(source: str, end: datetime | None, time: Time) -> bool:
    if end is None:
        return True
    # A stretch of the log ends before its end; a round is of its instant.
    is_before = end.__ge__ if source == Source.SAMPLES else end.__gt__
    if any(not is_before(at) for at in time.instants):
        return True
    return (time.since is not None and time.since >= end) or (time.until is not None and time.until > end)
