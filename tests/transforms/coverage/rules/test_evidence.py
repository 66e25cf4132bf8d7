"""Goal: what is called complete is complete, however Kafka's cleaner works between reads and during them.

The log and its cleaner are modelled exactly: batches keep their first and last offset and lose records; an emptied
batch goes; a record goes if the map, of limited size and built over the dirty part alone, has a later one of its key,
and a tombstone some time after the cleaner first met its batch. The clock counts records and pauses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest

from groupledger.transforms.coverage.offset_gaps import gaps
from groupledger.transforms.coverage.rules.evidence import (
    Batch,
    Gap,
    Read,
    UnreadError,
    explained_from,
    in_doubt,
    judged,
)
from groupledger.transforms.coverage.rules.stretches import Reading, stretches

KEYS = 12
RETENTION = 40  # of tombstones, in ticks of the clock


@dataclass
class Stored:
    """A batch of the log: its records by offset, with the key of each."""

    base: int
    last: int
    records: dict[int, int]
    is_control: bool = False
    is_aborted: bool = False
    horizon: int | None = None  # from when on the cleaner drops its tombstones

    def header(self) -> Batch:
        return Batch(self.base, self.last, len(self.records), self.is_control or self.is_aborted)


@dataclass
class Log:
    random: Random
    batches: list[Stored] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    tombstones: set[int] = field(default_factory=set)
    clock: int = 0
    end: int = 0
    cleaned: int = 0

    def append(self) -> None:
        kind = self.random.random()
        size = 1 if kind < 0.15 else self.random.randint(1, 4)
        offsets = range(self.end, self.end + size)
        records = {offset: self.random.randrange(KEYS) for offset in offsets}
        stored = Stored(self.end, self.end + size - 1, records, kind < 0.15, 0.15 <= kind < 0.3)
        self.batches.append(stored)
        self.tombstones |= {offset for offset in offsets if self.random.random() < 0.3}
        self.end += size
        self.clock += size
        if not stored.header().is_without_rows:
            self.committed |= records

    def clean(self) -> None:
        """Cleans up to some point; the map takes only so many keys."""
        goal = self.random.randint(self.cleaned, self.end)
        goal = min((batch.base for batch in self.batches if batch.last >= goal), default=self.end)
        newest: dict[int, int] = {}
        for batch in self.batches:
            if batch.base < self.cleaned or batch.last >= goal or batch.is_control:
                continue
            if len(newest.keys() | set(batch.records.values())) > KEYS // 2 and self.random.random() < 0.5:
                goal = batch.base
                break
            if not batch.is_aborted:
                newest |= {key: offset for offset, key in batch.records.items()}
        for batch in self.batches:
            if batch.last < goal and not batch.is_control:
                batch.records = {
                    offset: key
                    for offset, key in batch.records.items()
                    if not batch.is_aborted
                    and newest.get(key, -1) <= offset
                    and not (offset in self.tombstones and batch.horizon is not None and self.clock >= batch.horizon)
                }
                if batch.horizon is None:
                    batch.horizon = self.clock + RETENTION
        self.batches = [batch for batch in self.batches if batch.records or batch.last >= goal]
        self.cleaned = goal

    def pause(self) -> None:
        """Lets time pass, in which the cleaner may work more than once."""
        while self.random.random() < 0.3:
            self.clock += self.random.randint(0, RETENTION)
            self.clean()

    def headers(self, begin: int, end: int) -> list[Batch]:
        return [batch.header() for batch in self.batches if batch.last >= begin and batch.base < end]

    def rows(self, begin: int, end: int) -> dict[int, int]:
        kept = [batch.records for batch in self.batches if not batch.header().is_without_rows]
        return {offset: key for records in kept for offset, key in records.items() if begin <= offset < end}


def first_repeated(rows: dict[int, int], at_least: int) -> tuple[int, int] | None:
    seen = set[int]()
    for offset, key in sorted(rows.items()):
        if key in seen and offset >= at_least:
            return offset, offset
        seen.add(key)
    return None


def read_piece(
    log: Log, readings: list[Reading], begin: int, end: int, since: int
) -> tuple[list[Reading], dict[int, int]]:
    """Reads some offsets; `since` is the last instant at which everything was known."""
    rows = log.rows(begin, end)
    if log.random.random() < 0.3:
        log.clean()  # during the read
    missing = gaps(np.array(sorted(rows), np.int64), begin, end)
    explained = {0: explained_from(missing, begin, log.headers)}
    doubt = in_doubt({0: readings}, explained, {0: begin})
    read = Read(
        begin=begin,
        end=end,
        begin_ms=begin,
        explained_from=explained[0],
        proof="batch_headers" if missing else "no_gap",
        repeated=first_repeated(rows, doubt[0]) if doubt else None,
        at_end=(log.end, log.clock),
        may_lack_tombstones=log.clock - max(since, readings[-1].began_ms) >= RETENTION,
    )
    return judged(readings, read), rows


@pytest.mark.parametrize("seed", range(1000))
def test_no_claim_is_false(seed: int) -> None:
    """Goal: in a complete stretch no committed record is missing, and at its begin the newest record of every key is
    among the rows, or there was none; pieces that were judged before a crash are judged again."""
    log = Log(Random(seed))
    readings: list[Reading] = []
    rows: dict[int, int] = {}
    position = since = 0
    for _ in range(log.random.randint(0, 12)):
        log.append()
    for _ in range(log.random.randint(1, 6)):
        for _ in range(log.random.randint(0, 25)):
            log.append()
        if log.random.random() < 0.5:
            log.clean()
        began_ms = log.clock
        readings = readings or [
            Reading(from_offset=0, complete_from=log.end, complete_from_ms=log.end, began_ms=began_ms)
        ]
        goal = log.end
        while position < goal:
            end = min(goal, position + log.random.randint(3, 30))
            if log.random.random() < 0.2:
                read_piece(log, readings, position, end, since)  # and crashes
                log.clean()
            log.pause()
            readings, piece = read_piece(log, readings, position, end, since)
            rows |= piece
            position = end
            check(log, readings, rows, position)
            check_state(log, readings, rows, position)
        since = began_ms


def check_state(log: Log, readings: list[Reading], rows: dict[int, int], position: int) -> None:
    """Checks that what is held of a key is its newest record, unless the readings say that they can't tell."""
    lost_from = max((each.from_offset for each in readings if each.is_state_lost), default=0)
    held = {key: at for at, key in sorted(rows.items())}
    for key, at in held.items():
        newest = max(offset for offset, of in log.committed.items() if of == key)
        is_to_come = newest >= position
        assert newest == at or is_to_come or at < lost_from or at in log.tombstones, (key, at, newest, readings)


def check(log: Log, readings: list[Reading], rows: dict[int, int], position: int) -> None:
    found = stretches(readings, position, None)
    assert [each.from_offset for each in found[1:]] == [each.to_offset for each in found[:-1]]
    for stretch in found:
        if stretch.completeness != "complete":
            continue
        inside = {at: key for at, key in log.committed.items() if stretch.from_offset <= at < stretch.to_offset}
        assert inside.items() <= rows.items(), (stretch, readings)
        before = {key: at for at, key in sorted(log.committed.items()) if at < stretch.from_offset}
        seen = {key: at for at, key in sorted(rows.items()) if at < stretch.from_offset}
        gone = {key for key, at in before.items() if at in log.tombstones and at not in rows}  # left to check_state
        assert before.items() - seen.items() <= {(key, before[key]) for key in gone}, (stretch, readings)
        assert seen.keys() - before.keys() == set(), (stretch, readings)


def test_a_log_that_nobody_cleaned_is_complete_from_its_birth() -> None:
    """Goal: markers and aborted transactions are explained, so that all of it is told, by the headers alone."""
    log = Log(Random(1))
    for _ in range(200):
        log.append()
    readings, _ = read_piece(
        replace(log, random=Random(5)),
        [Reading(from_offset=0, complete_from=log.end, complete_from_ms=0)],
        0,
        log.end,
        0,
    )
    (stretch,) = stretches(readings, log.end, None)
    assert (stretch.from_offset, stretch.completeness, stretch.proof) == (0, "complete", "batch_headers")


def test_headers_are_asked_for_from_the_end() -> None:
    """Goal: the price is the explained gaps: below the first gap that is not explained nothing is fetched."""
    asked: list[tuple[int, int]] = []

    def headers(begin: int, end: int) -> list[Batch]:
        asked.append((begin, end))
        return [Batch(90, 90, 1, is_without_rows=True)] if begin <= 90 < end else []

    assert explained_from([Gap(10, 20), Gap(60, 61), Gap(90, 91)], 0, headers) == 61
    assert asked == [(0, 91)]


def test_a_record_that_was_not_delivered() -> None:
    """Goal: a committed record that lies whole in the log and that we lack is no compaction, and is told."""
    with pytest.raises(UnreadError, match="offset 5"):
        explained_from([Gap(5, 6)], 0, lambda *_: [Batch(4, 6, 3, is_without_rows=False)])
