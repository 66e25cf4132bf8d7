"""Turns what was read of one `__consumer_offsets` partition into the stretches of `coverage`.

A reading begins where the one before does not go on: at the first ingest, behind a hole, and where records were removed
between two passes. What it read up to `complete_from` may have been thinned by Kafka's cleaner; from there on nothing
was removed before it was read, and from `settled_from` on nothing is missing of what was before either (`evidence` says
how that is known). So a reading gives up to four stretches: the hole before it, the compacted one, one that has all its
records and is called compacted still, with its proof, and the complete one.

A compacted stretch still has the newest record of each key that occurs in it, so a group without a record there is as
it was before. That is not so for tombstones: Kafka removes them `delete.retention.ms` after its cleaner met them. A
stretch that was read so late behind the one before says nothing of the groups that it does not name: `is_state_lost`.
Nor does the first stretch behind a log that was cut and has grown again: records that nobody read took the offsets of
some that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupledger.schemas.words import Completeness, Proof


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An uninterrupted reading of the partition, up to where the next one begins.

    `settled_from` is None where it is `complete_from`. Whatever was written after the instant `complete_from_ms` lies
    at or above where the complete stretch begins. `resumed_from` is where the reading before had stopped if a hole lies
    in between, else None. `proof` is None for what an older release has read. Before the instant `began_ms` nothing of
    it was read; 0 where an older release began it.
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
        """The offset where the complete stretch begins."""
        return self.complete_from if self.settled_from is None else max(self.complete_from, self.settled_from)

    @property
    def begin(self) -> int:
        """The offset where this reading, with the hole before it, takes over from the one before."""
        return self.from_offset if self.resumed_from is None else self.resumed_from


@dataclass(frozen=True)
class Stretch:
    """A row of `coverage`: offsets [from_offset, to_offset); a time is None where it is not known. A compacted one with
    a proof has all its records, and only what was before it may be missing."""

    from_offset: int
    to_offset: int
    from_time_ms: int | None
    to_time_ms: int | None
    completeness: str
    proof: str | None = None
    is_state_lost: bool = False


def stretches(readings: list[Reading], position: int, known_until_ms: int | None) -> list[Stretch]:
    """Returns the stretches of one partition in order, without empty ones.

    `position` is the next offset to read. Before `known_until_ms` nothing was written at or above it; None if the
    reader is not at the end.
    """
    found = []
    for reading, following in zip(readings, [*readings[1:], None], strict=True):
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
    return [stretch for stretch in found if stretch.from_offset < stretch.to_offset]
