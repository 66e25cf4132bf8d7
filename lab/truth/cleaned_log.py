"""Models a partition of `__consumer_offsets` with Kafka's log cleaner, and a reader that judges what it reads.

The cleaner follows LogCleaner and Cleaner of Kafka 4.2. It builds a map of the newest record of each key. The map has a
limited size, and covers only the dirty part of the log. Then the cleaner rewrites the segments below the end of the
map, one group of segments after the other. Batches keep their first and last offset and lose records. A batch that has
lost all records is removed, or remains because it is its producer's last one. A record is removed if the map has a
later one of its key; a tombstone or a marker is removed some time after the cleaner first met its batch. The next
cleaning begins its map after the present one only if all groups are done. After a crash it begins at the same place. So
some segments may lack records because of later records far above them. Places and times of the cleaner's work are
random, and a reader may come between any two groups of segments.

The reader takes the steps of `jobs.ingest.evidence`: gaps, headers, repeated keys, verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from groupledger.schemas.words import Proof
from groupledger.transforms.coverage.offset_gaps import gaps
from groupledger.transforms.coverage.rules.evidence import BatchHeader, Read, explained_from, judged
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from random import Random


GROUP_SEGMENTS_MAX = 3
GROUPS_MAX = 6  # after which a cleaning rests or crashes
EMPTY_SHARE = 0.1  # of the emptied batches, which are the last of their producers


@dataclass
class Stored:
    """A batch of the log. `base` and `last` are its first and last offset when it was written, and `records` has the
    keys of the remaining records by offset."""

    base: int
    last: int
    records: dict[int, Hashable]
    is_control: bool = False
    is_aborted: bool = False
    horizon_ms: int | None = None  # from when on the cleaner drops its tombstones

    def header(self) -> BatchHeader:
        return BatchHeader(self.base, self.last, len(self.records), self.is_control or self.is_aborted)


@dataclass(kw_only=True)
class CleanedLog:
    """Models one partition of `__consumer_offsets`, its cleaner and its reader. `batches` has the records that the
    cleaner has left; `committed` has, by offset, the key of every record that was ever appended, except markers and
    records of aborted transactions. `key_count` is the maximum number of keys in the cleaner's map, `retention_ms` is
    how long the cleaner keeps tombstones and markers, and `roll_share` is the share of batches that begin a segment.
    Unless `has_headers`, the reader gets no batch headers, and judges gaps by repeated keys alone."""

    random: Random
    key_count: int
    retention_ms: int
    roll_share: float = 0.2
    has_headers: bool = True
    batches: list[Stored] = field(default_factory=list)
    committed: dict[int, Hashable] = field(default_factory=dict)
    tombstones: set[int] = field(default_factory=set)
    times_ms: dict[int, int] = field(default_factory=dict)
    now_ms: int = 0
    end: int = 0
    cleaned: int = 0
    segments: list[int] = field(default_factory=lambda: [0])
    _cleaning: Iterator[None] | None = None

    def append(self, keys: Sequence[Hashable], *, is_control: bool = False, is_aborted: bool = False) -> range:
        """Appends a batch with one record for each key, at the present time, and returns the offsets of the records."""
        offsets = range(self.end, self.end + len(keys))
        if self.end > self.segments[-1] and self.random.random() < self.roll_share:
            self.segments.append(self.end)
        stored = Stored(offsets[0], offsets[-1], dict(zip(offsets, keys, strict=True)), is_control, is_aborted)
        self.batches.append(stored)
        self.times_ms |= dict.fromkeys(offsets, self.now_ms)
        self.end += len(keys)
        if not stored.header().is_without_rows:
            self.committed |= stored.records
        return offsets

    def clean(self) -> None:
        """Cleans some groups of segments, or all. It continues a cleaning that was interrupted, or begins a new one,
        and may crash afterwards."""
        cleaning = self._cleaning or self._groups_cleaned()
        self._cleaning = None
        groups = None if self.random.random() < 0.5 else self.random.randrange(1, GROUPS_MAX)
        for _ in islice(cleaning, groups):
            pass
        if groups is not None and self.random.random() < 0.5:
            self._cleaning = cleaning

    def _groups_cleaned(self) -> Iterator[None]:
        """Yields after each group of segments that it has rewritten."""
        now_ms = self.now_ms
        bound = self.random.choice([self.end, *self.segments])
        if bound == self.end > self.segments[-1]:
            self.segments.append(self.end)
        newest, goal = self._map(bound)
        rest = [base for base in self.segments if base < goal]
        while rest:
            group, rest = rest[: (size := self.random.randint(1, GROUP_SEGMENTS_MAX))], rest[size:]
            end = next((base for base in self.segments if base > group[-1]), self.end)
            inside = [batch for batch in self.batches if group[0] <= batch.base < end]
            emptied = {batch.base for batch in inside if not self._keeps(batch, newest, goal, now_ms)}
            self.batches = [batch for batch in self.batches if batch.base not in emptied]
            self.segments = [base for base in self.segments if base not in group[1:]]
            yield
        self.cleaned = max(self.cleaned, goal)

    def _map(self, bound: int) -> tuple[dict[Hashable, int], int]:
        """Returns the newest offset of each key in the dirty part below a bound, and the offset where the map ends."""
        newest: dict[Hashable, int] = {}
        goal = self.cleaned
        for batch in self.batches:
            if batch.last < self.cleaned or batch.base >= bound:
                continue
            for offset, key in batch.records.items() if not batch.header().is_without_rows else ():
                if offset >= self.cleaned:
                    if len(newest) == self.key_count:
                        return newest, goal
                    newest[key], goal = offset, offset + 1
            goal = batch.last + 1
        return newest, goal

    def _keeps(self, batch: Stored, newest: dict[Hashable, int], goal: int, now_ms: int) -> bool:
        """Rewrites a batch, and returns whether it stays."""
        is_expired = batch.horizon_ms is not None and now_ms >= batch.horizon_ms
        is_discarded = batch.is_aborted or (batch.is_control and is_expired)
        batch.records = {
            offset: key
            for offset, key in batch.records.items()
            if not is_discarded
            and (
                batch.is_control
                or offset >= goal
                or (newest.get(key, -1) <= offset and not (is_expired and offset in self.tombstones))
            )
        }
        if batch.horizon_ms is None and batch.last < goal:  # the one deviation: the broker marks the segment to its end
            batch.horizon_ms = now_ms + self.retention_ms
        return bool(batch.records) or self.random.random() < EMPTY_SHARE

    def pause(self) -> None:
        """Runs the cleaner a random number of times, often none, each after a random time."""
        while self.random.random() < 0.3:
            self.now_ms += self.random.randint(0, self.retention_ms)
            self.clean()

    def headers(self, begin: int, end: int) -> list[BatchHeader]:
        return [batch.header() for batch in self.batches if batch.last >= begin and batch.base < end]

    def rows(self, begin: int, end: int) -> dict[int, Hashable]:
        """Returns the keys, by offset, of the records from `begin` to before `end` that a read_committed reader
        gets."""
        kept = [batch.records for batch in self.batches if not batch.header().is_without_rows]
        return {offset: key for records in kept for offset, key in records.items() if begin <= offset < end}

    def first_reading(self) -> Reading:
        return Reading(from_offset=0, complete_from=self.end, complete_from_ms=self.now_ms, began_ms=self.now_ms)

    def read(
        self, readings: Sequence[Reading], begin: int, end: int, known_until_ms: int
    ) -> tuple[list[Reading], dict[int, Hashable]]:
        """Reads the offsets from `begin` to before `end`. Returns all readings as they are judged now, and the keys of
        the records that were read, by offset. `known_until_ms` is the last instant up to which nothing was unknown. The
        cleaner may work during the read."""
        rows = self.rows(begin, end)
        if self.random.random() < 0.3:
            self.clean()
        missing = gaps(np.array(sorted(rows), np.int64), begin, end)
        explained, proof = begin, Proof.BATCH_HEADERS if missing else Proof.NO_GAP
        if missing and self.has_headers:
            explained = explained_from(missing, begin, self.headers)
        elif missing:
            explained, proof = self._first_repeated(rows, end), Proof.REPEATED_KEY
        read = Read(
            begin=begin,
            end=end,
            begin_ms=self.times_ms[min(rows)] if rows else 0,
            explained_from=explained,
            proof=proof,
            at_end=(self.end, self.now_ms),
            may_lack_tombstones=self.now_ms - max(known_until_ms, readings[-1].began_ms) >= self.retention_ms,
        )
        return judged(readings, read), rows

    def _first_repeated(self, rows: dict[int, Hashable], end: int) -> int:
        """Returns the first record whose key has occurred before in what was read, or where that ends."""
        seen: set[Hashable] = set()
        for offset, key in sorted(rows.items(), key=lambda row: row[0]):
            if key in seen:
                return offset
            seen.add(key)
        return end
