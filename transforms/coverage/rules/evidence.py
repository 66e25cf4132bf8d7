"""Judges what may have been removed from a stretch of a partition before it was read.

Offsets without a row say nothing by themselves: markers and aborted transactions take offsets too. What proves that
nothing was removed:
- No offset is without a row.
- The headers of the batches account for every offset: the batches follow one another, each has as many records as
  offsets, and what has no row lies in a control batch or in an aborted transaction. (Kafka's cleaner keeps the base and
  last offset of a batch and lowers its count; a batch that it empties goes.)
- A key comes a second time. The cleaner works up to some point, and leaves at most the newest record of each key below
  it. So on one replica nothing was removed from the second record of a key on; and what is known of a group there is
  known whole, since the newest record of each of its keys is still below, if there was one.

The cleaner's point lies somewhere above an offset without a row that is not explained. So the complete stretch begins
with the first key that comes again above the last such offset; not at the offset itself, since a record above it may be
all that is left of its key. Facts: LogCleaner and RecordBatch of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from groupledger.schemas.words import Proof
from groupledger.transforms.coverage.rules.stretches import Reading

WINDOW = 50_000  # offsets whose headers are asked for at once


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [begin, end) that have no row."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch; `is_without_rows` says that a reader of committed records gets none of it."""

    base_offset: int
    last_offset: int
    record_count: int
    is_without_rows: bool

    @property
    def is_whole(self) -> bool:
        return self.record_count == self.last_offset - self.base_offset + 1


Headers = Callable[[int, int], Iterable[Batch]]
"""Returns the batches that hold any of the offsets [begin, end), in order."""


class UnreadError(ValueError):
    """A committed record lies whole in the log, and the reader did not get it."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """What was read of a partition: the offsets [begin, end).

    Every offset from `explained_from` on is accounted for, by `proof`. `repeated` is the first record from there on
    whose key has occurred before in what was read, and `at_end` the log's end at some later time, both as offset and
    time in milliseconds. `begin_ms` is the time of the first record. It `may_lack_tombstones` if it was read so late
    that those of groups which are known from before may have come and gone.
    """

    begin: int
    end: int
    begin_ms: int
    explained_from: int
    proof: str
    repeated: tuple[int, int] | None
    at_end: tuple[int, int]
    may_lack_tombstones: bool = False


def explained_from(found: Sequence[Gap], begin: int, headers: Headers) -> int:
    """Returns the offset from which on the headers account for every gap: `begin` if for all.

    It goes down from the last gap, and asks no further than to the first gap that is not explained. Raises UnreadError
    if a record was not delivered.
    """
    left = len(found)  # gaps, of which the last may reach into the window before
    low = found[-1].end if found else begin
    while left:
        end = min(found[left - 1].end, low)
        low = max(begin, end - WINDOW)
        inside: list[Gap] = []
        while left and found[left - 1].end > low:
            gap = found[left - 1]
            inside.append(Gap(max(gap.begin, low), min(gap.end, end)))
            if gap.begin < low:
                break
            left -= 1
        unexplained = _last_unexplained(inside[::-1], headers(low, end))
        if unexplained is not None:
            return unexplained + 1
    return begin


def _last_unexplained(found: Sequence[Gap], batches: Iterable[Batch]) -> int | None:
    """Returns the last offset of the gaps that no batch without rows accounts for."""
    last: int | None = None
    waiting = iter(found)
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


def in_doubt(
    readings: Mapping[int, Sequence[Reading]], explained: Mapping[int, int], begins: Mapping[int, int]
) -> dict[int, int]:
    """Returns, by partition, from where on to look for a repeated key: where something may have been removed from what
    was read, or from what lies before it."""
    return {
        partition: at
        for partition, at in explained.items()
        if at > begins[partition] or 0 < begins[partition] < readings[partition][-1].complete_from
    }


def judged(readings: Sequence[Reading], read: Read) -> list[Reading]:
    """Returns the readings after one more piece was read, which the last of them, or a new one, goes on with."""
    *earlier, last = readings
    is_explained = read.explained_from <= read.begin
    if is_explained and read.begin == 0:
        return [_complete_from(last, 0, read.begin_ms, read.proof)]
    is_state_lost = read.may_lack_tombstones and not is_explained and read.begin > last.from_offset
    if read.begin >= last.complete_from and is_explained:
        return [*earlier, replace(last, proof=_weaker(last.proof, read.proof))]
    if read.begin >= last.complete_from or is_state_lost:
        offset, time_ms = read.repeated or read.at_end
        new = Reading(
            from_offset=read.begin,
            complete_from=offset,
            complete_from_ms=time_ms,
            proof=read.proof,
            is_state_lost=is_state_lost,
            began_ms=read.at_end[1] if is_state_lost else last.began_ms,
        )
        return [*readings, new]
    if not is_explained:  # a cleaning may have gone beyond where the log ended before
        return [*earlier, _complete_from(last, *(read.repeated or read.at_end), read.proof)]
    if read.repeated is not None and read.repeated[0] < last.complete_from:
        return [*earlier, _complete_from(last, *read.repeated, read.proof)]
    return [*earlier, replace(last, proof=read.proof)]


PROOFS = (Proof.NO_GAP, Proof.BATCH_HEADERS, Proof.REPEATED_KEY)


def _weaker(one: str | None, other: str) -> str | None:
    return None if one is None else max(one, other, key=PROOFS.index)


def _complete_from(reading: Reading, offset: int, time_ms: int, proof: str) -> Reading:
    return replace(reading, complete_from=offset, complete_from_ms=time_ms, proof=proof)
