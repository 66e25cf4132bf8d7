"""Turns what was read of one `__consumer_offsets` partition into the stretches of `coverage`.

A reading begins where nothing is known: at the first ingest, and again after a hole. What lay in the topic when a
reading began may have been compacted, since nobody read it as it was written; what came later was tailed. So a reading
gives up to three stretches: the hole before it, what was there when it began, and what came since.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.words import Completeness


@dataclass(frozen=True)
class Reading:
    """An uninterrupted reading of the partition.

    `end_offset` is the partition's end when the reading began; `resumed_from` is where the one before had stopped, None
    for the first.
    """

    started_at_ms: int
    from_offset: int
    end_offset: int
    resumed_from: int | None = None


@dataclass(frozen=True)
class Stretch:
    """A row of `coverage`: offsets [from_offset, to_offset); a time is None where it is not known."""

    from_offset: int
    to_offset: int
    from_time_ms: int | None
    to_time_ms: int | None
    completeness: str


def stretches(readings: list[Reading], position: int, known_until_ms: int | None) -> list[Stretch]:
    """Returns the stretches of one partition in order, without empty ones.

    `position` is the next offset to read. Before `known_until_ms` nothing was written at or above it; None if the
    reader is not at the end.
    """
    found = []
    for reading, following in zip(readings, [*readings[1:], None], strict=True):
        stop = position if following is None or following.resumed_from is None else following.resumed_from
        known_ms = known_until_ms if following is None else None
        if reading.resumed_from is not None:
            found.append(Stretch(reading.resumed_from, reading.from_offset, None, None, Completeness.UNKNOWN))
        seen_at_begin = min(reading.end_offset, stop)
        is_finished = stop >= reading.end_offset
        found.append(
            Stretch(
                reading.from_offset,
                seen_at_begin,
                None,
                reading.started_at_ms if is_finished else None,
                Completeness.COMPACTED,
            )
        )
        found.append(Stretch(seen_at_begin, stop, reading.started_at_ms, known_ms, Completeness.TAILED))
    return [stretch for stretch in found if stretch.from_offset < stretch.to_offset]
