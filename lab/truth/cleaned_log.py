"""Models a partition of `__consumer_offsets` with Kafka's log cleaner, and a reader that judges what it reads.

The cleaner is exact: batches keep their first and last offset and lose records; an emptied batch goes; a record goes if
the map, of limited size and built over the dirty part alone, has a later one of its key, and a tombstone some time
after the cleaner first met its batch. Where and when it works is random.

The reader takes the steps of `jobs.ingest.evidence`: gaps, headers, repeated keys, verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from groupledger.transforms.coverage.offset_gaps import gaps
from groupledger.transforms.coverage.rules.evidence import Batch, Read, explained_from, in_doubt, judged
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from random import Random


@dataclass
class Stored:
    """A batch of the log: its records by offset, with the key of each."""

    base: int
    last: int
    records: dict[int, Hashable]
    is_control: bool = False
    is_aborted: bool = False
    horizon_ms: int | None = None  # from when on the cleaner drops its tombstones

    def header(self) -> Batch:
        return Batch(self.base, self.last, len(self.records), self.is_control or self.is_aborted)


@dataclass(kw_only=True)
class CleanedLog:
    """The log: what is left of it in `batches`, and all that was ever committed. `key_count` bounds the cleaner's map,
    and `retention_ms` is how long it keeps tombstones."""

    random: Random
    key_count: int
    retention_ms: int
    batches: list[Stored] = field(default_factory=list)
    committed: dict[int, Hashable] = field(default_factory=dict)
    tombstones: set[int] = field(default_factory=set)
    times_ms: dict[int, int] = field(default_factory=dict)
    now_ms: int = 0
    end: int = 0
    cleaned: int = 0

    def append(self, keys: Sequence[Hashable], *, is_control: bool = False, is_aborted: bool = False) -> range:
        """Appends a batch with a record of each key now, and returns their offsets."""
        offsets = range(self.end, self.end + len(keys))
        stored = Stored(offsets[0], offsets[-1], dict(zip(offsets, keys, strict=True)), is_control, is_aborted)
        self.batches.append(stored)
        self.times_ms |= dict.fromkeys(offsets, self.now_ms)
        self.end += len(keys)
        if not stored.header().is_without_rows:
            self.committed |= stored.records
        return offsets

    def clean(self) -> None:
        """Cleans up to some point; the map takes only so many keys."""
        goal = self.random.randint(self.cleaned, self.end)
        goal = min((batch.base for batch in self.batches if batch.last >= goal), default=self.end)
        newest: dict[Hashable, int] = {}
        for batch in self.batches:
            if batch.base < self.cleaned or batch.last >= goal or batch.is_control:
                continue
            if len(newest.keys() | set(batch.records.values())) > self.key_count and self.random.random() < 0.5:
                goal = batch.base
                break
            if not batch.is_aborted:
                newest |= {key: offset for offset, key in batch.records.items()}
        for batch in self.batches:
            if batch.last < goal and not batch.is_control:
                self._clean_batch(batch, newest)
        self.batches = [batch for batch in self.batches if batch.records or batch.last >= goal]
        self.cleaned = goal

    def _clean_batch(self, batch: Stored, newest: dict[Hashable, int]) -> None:
        drops_tombstones = batch.horizon_ms is not None and self.now_ms >= batch.horizon_ms
        batch.records = {
            offset: key
            for offset, key in batch.records.items()
            if not batch.is_aborted
            and newest.get(key, -1) <= offset
            and not (drops_tombstones and offset in self.tombstones)
        }
        if batch.horizon_ms is None:
            batch.horizon_ms = self.now_ms + self.retention_ms

    def pause(self) -> None:
        """Lets time pass, in which the cleaner may work more than once."""
        while self.random.random() < 0.3:
            self.now_ms += self.random.randint(0, self.retention_ms)
            self.clean()

    def headers(self, begin: int, end: int) -> list[Batch]:
        return [batch.header() for batch in self.batches if batch.last >= begin and batch.base < end]

    def rows(self, begin: int, end: int) -> dict[int, Hashable]:
        """Returns the keys by offset that a reader of committed records gets."""
        kept = [batch.records for batch in self.batches if not batch.header().is_without_rows]
        return {offset: key for records in kept for offset, key in records.items() if begin <= offset < end}

    def first_reading(self) -> Reading:
        return Reading(from_offset=0, complete_from=self.end, complete_from_ms=self.now_ms, began_ms=self.now_ms)

    def read(
        self, readings: Sequence[Reading], begin: int, end: int, known_until_ms: int
    ) -> tuple[list[Reading], dict[int, Hashable]]:
        """Reads some offsets, and returns the readings after the verdict with the rows. `known_until_ms` is the last
        instant at which everything was known. The cleaner may work during the read."""
        rows = self.rows(begin, end)
        if self.random.random() < 0.3:
            self.clean()
        missing = gaps(np.array(sorted(rows), np.int64), begin, end)
        explained = explained_from(missing, begin, self.headers)
        doubt = in_doubt({0: readings}, {0: explained}, {0: begin})
        read = Read(
            begin=begin,
            end=end,
            begin_ms=self.times_ms[min(rows)] if rows else 0,
            explained_from=explained,
            proof="batch_headers" if missing else "no_gap",
            repeated=self._first_repeated(rows, doubt[0]) if doubt else None,
            at_end=(self.end, self.now_ms),
            may_lack_tombstones=self.now_ms - max(known_until_ms, readings[-1].began_ms) >= self.retention_ms,
        )
        return judged(readings, read), rows

    def _first_repeated(self, rows: dict[int, Hashable], at_least: int) -> tuple[int, int] | None:
        seen: set[Hashable] = set()
        for offset, key in sorted(rows.items(), key=lambda row: row[0]):
            if key in seen and offset >= at_least:
                return offset, self.times_ms[offset]
            seen.add(key)
        return None
