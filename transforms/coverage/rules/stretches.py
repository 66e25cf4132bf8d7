"""Turns the readings of one `__consumer_offsets` partition into the stretches of `coverage`.

A new reading begins at the first ingest, after a hole, and where records were removed between two passes. Below
`complete_from` Kafka's cleaner may have removed records. From there on nothing was removed before it was read, and from
`settled_from` on the newest record of each earlier key is present, too (`evidence` says how that is known). So a
reading gives up to four stretches: the hole before it; a compacted stretch; a stretch that has all its records but
still counts as compacted, with its proof; and a complete stretch. If a partition has been quiet since it was first
read, its complete stretch is empty, and only says until when nothing was written.

A compacted stretch still has the newest record of each key that occurs in it, so a group without a record there has not
changed. Tombstones are the exception: Kafka removes them `delete.retention.ms` after its cleaner met them. If a stretch
was read more than that time after the previous one, nothing is known about groups without a record in it
(`is_state_lost`). The same holds for the first stretch after a log was truncated and has grown again: unread records
have the offsets of some that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import ms_if_known
from groupledger.schemas.words import Completeness, Proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRETCHES_OF_READING = 4


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Describes an uninterrupted reading of a partition, up to where the next reading begins.

    `settled_from` is None if it equals `complete_from`. Records written after the instant `complete_from_ms` lie at or
    above the beginning of the complete stretch. `resumed_from` is the offset where the previous reading stopped, if a
    hole lies between the two; else None. `proof` is None for readings of an older release. No record of it was read
    before the instant `began_ms`, which is 0 if an older release began the reading.
    """

    from_offset: int
    complete_from: int
    complete_from_ms: int
    resumed_from: int | None = None
    proof: str | None = Proof.NO_GAP
    is_state_lost: bool = False
    began_ms: int = 0
    settled_from: int | None = None

    @property
    def known_from(self) -> int:
        """Returns the offset at which the complete stretch of the reading begins: every record from there on was read,
        and of each key that occurs below it, the newest record below it was read, too."""
        return self.complete_from if self.settled_from is None else max(self.complete_from, self.settled_from)

    @property
    def begin(self) -> int:
        """Returns the offset at which this reading begins, or at which the hole before it begins, if there is one."""
        return self.from_offset if self.resumed_from is None else self.resumed_from


@dataclass(frozen=True)
class Stretch:
    """Holds a row of `coverage`, about the offsets [from_offset, to_offset). A time is None if it is not known. A
    compacted stretch with a `proof` has all its own records; only records before it may be missing."""

    from_offset: int
    to_offset: int
    from_time_ms: int | None
    to_time_ms: int | None
    completeness: str
    proof: str | None = None
    is_state_lost: bool = False


def stretches(readings: list[Reading], position: int, known_until_ms: int | None) -> list[Stretch]:
    """Returns the stretches of one partition in order. Empty stretches are left out, except the complete stretch of a
    partition to which nothing was written since it was first read.

    `position` is the next offset to read. Nothing was written at or above it before the instant `known_until_ms`; None
    if the reader has not reached the end of the log.
    """
    found = []
    for reading, following in zip_longest(readings, readings[1:]):
        stop = position if following is None else following.begin
        known_ms = known_until_ms if following is None else None
        if reading.resumed_from is not None:
            found.append(Stretch(reading.resumed_from, reading.from_offset, None, None, Completeness.UNKNOWN))
        seen = min(reading.complete_from, stop)
        settled = min(reading.known_from, stop)
        seen_ms = reading.complete_from_ms if stop >= reading.known_from else None
        since_ms = reading.complete_from_ms
        read = [
            Stretch(reading.from_offset, seen, None, seen_ms, Completeness.COMPACTED),
            Stretch(seen, settled, None, None, Completeness.COMPACTED, reading.proof),
            Stretch(settled, stop, since_ms, known_ms, Completeness.COMPLETE, reading.proof),
        ]
        first, *others = [stretch for stretch in read if stretch.from_offset < stretch.to_offset] or [read[0]]
        found += [replace(first, is_state_lost=reading.is_state_lost), *others]
    found = [stretch for stretch in found if stretch.from_offset < stretch.to_offset]
    if readings and _is_quiet(readings[-1], position, known_until_ms):
        last = readings[-1]
        is_first = last.is_state_lost and last.from_offset == position
        of_time = (last.complete_from_ms, known_until_ms, Completeness.COMPLETE)
        found.append(Stretch(position, position, *of_time, last.proof, is_state_lost=is_first))
    return found


def stretch_of(row: Mapping[str, Any]) -> Stretch:
    """Returns a stretch from its row."""
    return Stretch(
        from_offset=row["from_offset"],
        to_offset=row["to_offset"],
        from_time_ms=ms_if_known(row["from_time"]),
        to_time_ms=ms_if_known(row["to_time"]),
        completeness=row["completeness"],
        proof=row["proof"],
        is_state_lost=bool(row["is_state_lost"]),
    )


def _is_quiet(last: Reading, position: int, known_until_ms: int | None) -> bool:
    """Returns whether nothing was written since a reading, which has read something, came to its end."""
    if known_until_ms is None or known_until_ms <= last.complete_from_ms:
        return False
    return last.begin < position == last.known_from


def above_floor(known: Sequence[Stretch], floor: int) -> list[Stretch]:
    """Returns the stretches of one partition, with everything below an offset turned into a hole."""
    if not known or floor <= known[0].from_offset:
        return list(known)
    kept_part = [replace(each, from_offset=max(each.from_offset, floor)) for each in known if each.to_offset > floor]
    return [Stretch(known[0].from_offset, floor, None, None, Completeness.UNKNOWN), *kept_part]


def readings_of(known: Sequence[Stretch]) -> list[Reading]:
    """Returns the readings of one partition that `stretches` turns into `known`, in order.

    Stretches hold less than readings do, and the most cautious value is used for what is missing: the time at which a
    reading began, and the end of the log at a reading that had not reached it.
    """
    readings: list[Reading] = []
    left = list(known)
    while left:
        counts = range(min(STRETCHES_OF_READING, len(left)), 0, -1)
        count = next((count for count in counts if _is_of_one_reading(left[:count])), 1)
        readings.append(_reading_of(left[:count]))
        del left[:count]
    return readings


def _is_of_one_reading(known: list[Stretch]) -> bool:
    return stretches([_reading_of(known)], known[-1].to_offset, known[-1].to_time_ms) == known


def _reading_of(known: list[Stretch]) -> Reading:
    hole = known[0] if known[0].completeness == Completeness.UNKNOWN else None
    begin = known[0].from_offset if hole is None else hole.to_offset
    read, last = known[1:] if hole else known, known[-1]
    seen = [each.to_offset for each in read if each.completeness == Completeness.COMPACTED and each.proof is None]
    settled = [each.to_offset for each in read if each.completeness == Completeness.COMPACTED and each.proof]
    is_complete = last.completeness == Completeness.COMPLETE
    known_ms = last.from_time_ms if is_complete else known[0].to_time_ms
    beyond = int(known_ms is None)  # it had not come to the log's end
    return Reading(
        from_offset=begin,
        complete_from=(seen[0] if seen else begin) + (0 if settled else beyond),
        complete_from_ms=known_ms or 0,
        resumed_from=None if hole is None else hole.from_offset,
        proof=last.proof if is_complete or settled else Proof.REPEATED_KEY,
        is_state_lost=any(each.is_state_lost for each in read),
        settled_from=settled[0] + beyond if settled else None,
    )


def regained(known: Sequence[Stretch], position: int, end: tuple[int, int]) -> list[Reading]:
    """Returns the readings of one partition up to `position`, computed from its stretches because the readings
    themselves are lost. `end` is the log's end now, as offset and time in milliseconds.

    If the stretches do not say from where the log is complete, or if they end before `position`, the part up to the
    log's end counts as compacted, and the state of groups without a record in it as lost. A reading that had begun at
    `position` and had read nothing left no stretch, so the reading before it is continued.
    """
    readings = readings_of(known)
    known_to = known[-1].to_offset if known else 0
    if readings and readings[-1].known_from <= known_to == position:
        return readings
    end_offset, end_ms = end
    new = Reading(
        from_offset=known_to,
        complete_from=max(end_offset, position),
        complete_from_ms=end_ms,
        is_state_lost=bool(known),
        began_ms=end_ms,
    )
    return [*readings, new]
