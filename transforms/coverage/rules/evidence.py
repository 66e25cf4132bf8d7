"""Judges whether records may have been removed from a stretch of a partition before it was read.

Offsets without a row prove nothing by themselves: markers and aborted transactions take offsets too. Each of these
proves that nothing was removed:
- No offset is without a row.
- The headers of the batches account for every offset: the batches follow one another, each has as many records as
  offsets, and what has no row lies in a control batch or in an aborted transaction. (Kafka's cleaner keeps the base and
  last offset of a batch and lowers its count; a batch that it empties goes.)
- If nothing else explains the gaps: a key occurs a second time. The cleaner makes a map of the newest record of each
  key in the dirty part of the log, up to some offset, the map's end. Then it rewrites the segments below that end, one
  after the other. Suppose that a record is still there although its key occurs again later. Then the later record lies
  after the map's end, or the earlier one lies in a segment that was not rewritten yet. In both cases nothing was
  removed from the later record on. This holds for one replica, and for one read of it.

So every record after the last unexplained gap is present. Before it records may be missing: the cleaner may have
removed them because of a later record of their key, which may lie far above in a segment that it has not rewritten yet,
or did not rewrite before a crash. But it removes a record only if the log had a later record of its key by then (or if
the record is a tombstone). Take the log's end at any time after the gap was seen. When everything up to that end is
read without another such gap, the newest record of each key is known, and a key without a record had none. The stretch
is complete from that end on. Between the gap and that end it has all its records, and a key is known from its first
record there.

One case is not covered. A map that is full ends inside a segment, and the broker also marks the tombstones after that
end for removal, up to the end of the segment. Facts: LogCleaner, Cleaner and RecordBatch of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.schemas.words import Proof

if TYPE_CHECKING:
    from groupledger.transforms.coverage.rules.stretches import Reading

WINDOW = 50_000  # offsets whose headers are asked for at once


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [begin, end) that have no row."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """Holds the header of a batch. `is_without_rows`: a read_committed consumer gets no record of the batch, because it
    is a control batch or belongs to an aborted transaction."""

    base_offset: int
    last_offset: int
    record_count: int
    is_without_rows: bool

    @property
    def is_whole(self) -> bool:
        return self.record_count == self.last_offset - self.base_offset + 1


Headers = Callable[[int, int], Iterable[BatchHeader]]
"""Returns the batches that hold any of the offsets [begin, end), in order."""


class UnreadError(ValueError):
    """The log has a committed record that the reader did not get."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """The read part of a partition: the offsets [begin, end).

    Every record from `explained_from` on is present, as `proof` shows. `at_end` is the end of the log at a time after
    the gaps were seen, as offset and time in milliseconds. `begin_ms` is the time of the first record.
    `may_lack_tombstones`: the part was read so late that tombstones of known groups may have been written and removed
    before it was read.
    """

    begin: int
    end: int
    begin_ms: int
    explained_from: int
    proof: str
    at_end: tuple[int, int]
    may_lack_tombstones: bool = False


def explained_from(gaps: Sequence[Gap], begin: int, headers: Headers) -> int:
    """Returns the lowest offset from which on the batch headers account for every gap; `begin` if they account for all
    gaps.

    The search goes down from the last gap, and stops at the first gap that the headers do not explain. Raises
    UnreadError if the log has a committed record that the reader did not get.
    """
    left = len(gaps)  # number of gaps; the last may begin in the previous window
    low = gaps[-1].end if gaps else begin
    while left:
        end = min(gaps[left - 1].end, low)
        low = max(begin, end - WINDOW)
        inside: list[Gap] = []
        while left and gaps[left - 1].end > low:
            gap = gaps[left - 1]
            inside.append(Gap(max(gap.begin, low), min(gap.end, end)))
            if gap.begin < low:
                break
            left -= 1
        unexplained = _last_unexplained(inside[::-1], headers(low, end))
        if unexplained is not None:
            return unexplained + 1
    return begin


def _last_unexplained(gaps: Sequence[Gap], batches: Iterable[BatchHeader]) -> int | None:
    """Returns the last offset of the gaps that no batch without rows accounts for."""
    last: int | None = None
    waiting = iter(gaps)
    gap = next(waiting, None)
    for batch in batches:
        while gap is not None and gap.begin <= batch.last_offset:
            if gap.begin < batch.base_offset:  # removed with its batch
                last = min(gap.end, batch.base_offset) - 1
            begin, end = max(gap.begin, batch.base_offset), min(gap.end, batch.last_offset + 1)
            if begin < end and not (batch.is_whole and batch.is_without_rows):
                if batch.is_whole:
                    raise UnreadError(f"offset {begin}")
                last = end - 1
            if gap.end > batch.last_offset + 1:
                gap = Gap(batch.last_offset + 1, gap.end)
                break
            gap = next(waiting, None)
    return max(each.end for each in (gap, *waiting)) - 1 if gap is not None else last


def judged(readings: Sequence[Reading], read: Read) -> list[Reading]:
    """Returns the readings of a partition after `read`, which is the next part that was read. This part extends the
    last reading. It begins a new reading if records may be missing where the last reading was already complete, or if
    tombstones may have been removed before the part was read."""
    *earlier, last = readings
    is_explained = read.explained_from <= read.begin
    if is_explained and read.begin == 0:
        whole = replace(last, complete_from=0, complete_from_ms=read.begin_ms, settled_from=None, proof=read.proof)
        return [whole]
    if is_explained and read.begin >= last.complete_from:
        return [*earlier, replace(last, proof=_weaker(last.proof, read.proof))]
    if is_explained:  # the log's start has moved up to the reading's beginning
        from_begin = replace(last, complete_from=read.begin, settled_from=last.known_from, proof=read.proof)
        return [*earlier, from_begin]
    settled_from, settled_ms = read.at_end
    found = replace(
        last,
        complete_from=read.explained_from,
        settled_from=settled_from,
        complete_from_ms=settled_ms,
        proof=read.proof,
    )
    is_state_lost = read.may_lack_tombstones and read.begin > last.from_offset
    if read.begin < last.complete_from and not is_state_lost:
        return [*earlier, found]
    new = replace(found, from_offset=read.begin, resumed_from=None, is_state_lost=is_state_lost)
    return [*readings, replace(new, began_ms=settled_ms) if is_state_lost else new]


PROOFS = (Proof.NO_GAP, Proof.BATCH_HEADERS, Proof.REPEATED_KEY)


def _weaker(one: str | None, other: str) -> str | None:
    return None if one is None else max(one, other, key=PROOFS.index)
