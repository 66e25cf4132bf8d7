"""Plays a ledger that reads a log in passes, while a cleaner works on the log, to compare it with the whole log.

An hour of ten very different groups is simulated. Their records go into one partition, whose cleaner works at random
times (`cleaned_log`). A ledger reads the partition at random instants, in pieces, and folds what it reads.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.transforms.coverage.rules.stretches import stretches
from groupledger.transforms.history.rules.events import Coverage, GroupTombstone, mark_of
from lab.faults.growing_log import MIX
from lab.truth.cleaned_log import CleanedLog
from lab.truth.histories import Commit, Tables, folded, position
from lab.truth.simulated import decoded, in_one_partition

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from groupledger.transforms.coverage.rules.stretches import Reading, Stretch
    from lab.truth.histories import Entry

RETENTION_MS = 20 * 60_000  # of tombstones


@cache
def an_hour(seed: int) -> tuple[list[tuple[str, Entry]], dict[str, Tables]]:
    """Returns the records of all groups as a log of one partition, and for each group the tables of a ledger that read
    them all."""
    log = sorted(decoded(in_one_partition(MIX, seed)), key=lambda each: position(each[1]))
    return log, {each: folded([entry for group_id, entry in log if group_id == each]) for each in sorted(dict(log))}


def key_of(group_id: str, entry: Any) -> Hashable:
    return (group_id, entry.topic, entry.partition) if isinstance(entry, Commit) else group_id


def is_tombstone(entry: Any) -> bool:
    return isinstance(entry, GroupTombstone) or (isinstance(entry, Commit) and entry.committed_offset is None)


class Passes:
    """Writes the log, lets the cleaner work on it, and reads and folds it in passes as a ledger does."""

    def __init__(self, seed: int, cleaning: int) -> None:
        self.log, self.truth = an_hour(seed)
        self.random = Random(f"{seed} {cleaning}")
        keys = self.random.choice((30, 1_000))  # that the map of the cleaner takes; there are some hundred
        self.cleaned = CleanedLog(
            random=self.random, key_count=keys, retention_ms=RETENTION_MS, now_ms=BEGAN_AT_MS, roll_share=0.005
        )
        self.readings: list[Reading] = []
        self.position = 0
        self.known_until_ms = 0
        self.read: set[int] = set()
        self.tables = {group_id: Tables() for group_id in self.truth}

    def run(self, *, read_share: float = 0.6) -> None:
        """Writes the log in parts. After each part but the last a pass follows with the probability `read_share`, and
        after the last part always."""
        rest = self.log
        often = self.random.choice((3, 10, 30))
        while rest:
            size = self.random.randint(1, 2 * len(self.log) // often)
            self.write(rest[:size])
            rest = rest[size:]
            if self.random.random() < 0.6:
                self.cleaned.clean()
            if self.random.random() < read_share or not rest:
                self.pass_over()

    def write(self, records: list[tuple[str, Entry]]) -> None:
        for group_id, entry in records:
            assert not isinstance(entry, Coverage)
            self.cleaned.now_ms = entry.kafka_timestamp_ms
            offsets = self.cleaned.append([key_of(group_id, entry)])
            if is_tombstone(entry):
                self.cleaned.tombstones |= set(offsets)
        self.cleaned.now_ms += 1

    def pass_over(self) -> None:
        began_ms, goal = self.cleaned.now_ms, self.cleaned.end
        self.readings = self.readings or [self.cleaned.first_reading()]
        while self.position < goal:
            end = min(goal, self.position + self.random.randint(50, 2_000))
            self.readings, rows = self.cleaned.read(self.readings, self.position, end, self.known_until_ms)
            self.position = end
            self.read |= rows.keys()
            self.fold(rows)
        self.known_until_ms = began_ms

    def fold(self, rows: dict[int, Hashable]) -> None:
        self.take(self.tables, rows, [mark_of(each) for each in self.stretches()])

    def take(self, tables: dict[str, Tables], offsets: Iterable[int], marks: Sequence[Coverage]) -> None:
        """Folds the records at `offsets` into the tables of their groups, with the coverage in `marks`."""
        new: dict[str, list[Entry]] = {group_id: [*marks] for group_id in tables}
        for offset in offsets:
            group_id, entry = self.log[offset]
            new[group_id].append(entry)
        for group_id, of_group in tables.items():
            of_group.take(sorted(new[group_id], key=position))

    def stretches(self, known_until_ms: int | None = None) -> list[Stretch]:
        return stretches(self.readings, self.position, known_until_ms)
