"""Goal: of a log that Kafka's cleaner thins between passes and during them, the ledger claims nothing that is not so,
and tells in full what lies where nothing was removed.

An hour of ten very different groups is simulated; their records go into one partition, with a cleaner that works at
random. Passes read it at random instants, in pieces, and fold what they read. Each claim is held against the fold of
all records.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.transforms.coverage.rules.stretches import stretches
from groupledger.transforms.history.rules import Coverage, GroupTombstone, mark_of
from lab.faults.growing_log import MIX
from lab.truth.claims import false_claims, untold
from lab.truth.cleaned_log import CleanedLog
from lab.truth.histories import Commit, Tables, folded, position
from lab.truth.simulated import decoded, in_one_partition

if TYPE_CHECKING:
    from collections.abc import Hashable

    from groupledger.transforms.coverage.rules.stretches import Reading, Stretch
    from lab.truth.histories import Entry

pytestmark = pytest.mark.slow

HOURS_SIMULATED = 2  # of which each has its own seed
CLEANINGS = 30  # of each hour
RETENTION_MS = 20 * 60_000  # of tombstones


@cache
def an_hour(seed: int) -> tuple[list[tuple[str, Entry]], dict[str, Tables]]:
    """Returns the records of all groups as a log of one partition, and what a ledger that saw them all says."""
    log = sorted(decoded(in_one_partition(MIX, seed)), key=lambda each: position(each[1]))
    return log, {each: folded([entry for group_id, entry in log if group_id == each]) for each in sorted(dict(log))}


def key_of(group_id: str, entry: Any) -> Hashable:
    return (group_id, entry.topic, entry.partition) if isinstance(entry, Commit) else group_id


def is_tombstone(entry: Any) -> bool:
    return isinstance(entry, GroupTombstone) or (isinstance(entry, Commit) and entry.committed_offset is None)


class Passes:
    """A ledger that reads the log as it is by then, and folds it."""

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

    def run(self) -> None:
        rest = self.log
        often = self.random.choice((3, 10, 30))
        while rest:
            size = self.random.randint(1, 2 * len(self.log) // often)
            self.write(rest[:size])
            rest = rest[size:]
            if self.random.random() < 0.6:
                self.cleaned.clean()
            if self.random.random() < 0.6 or not rest:
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
        marks = [mark_of(each) for each in self.stretches()]
        new: dict[str, list[Entry]] = {group_id: [*marks] for group_id in self.tables}
        for offset in rows:
            group_id, entry = self.log[offset]
            new[group_id].append(entry)
        for group_id, tables in self.tables.items():
            tables.take(sorted(new[group_id], key=position))

    def stretches(self, known_until_ms: int | None = None) -> list[Stretch]:
        return stretches(self.readings, self.position, known_until_ms)


@pytest.mark.parametrize("seed", range(HOURS_SIMULATED))
@pytest.mark.parametrize("cleaning", range(CLEANINGS))
def test_every_claim_is_so(seed: int, cleaning: int) -> None:
    """Goal: no rebalance, interval, tenure, finding or owner is claimed that a ledger of the whole log does not have;
    a rebalance whose two records survive in a complete stretch is told as it was."""
    passes = Passes(seed, cleaning)
    passes.run()
    found = passes.stretches(passes.known_until_ms)
    until_ms = (BEGAN_AT_MS, passes.cleaned.now_ms)
    for group_id, tables in passes.tables.items():
        truth = passes.truth[group_id]
        assert false_claims(tables, truth, found, until_ms, passes.random) == []
        assert untold(tables, truth, found) == []


def test_the_cleaner_had_work() -> None:
    """Goal: the logs above are thinned in earnest: at least three of ten lose a tenth before it is read."""
    left = []
    for cleaning in range(10):
        passes = Passes(0, cleaning)
        passes.run()
        left.append(len(passes.read) / len(passes.log))
    assert sum(share < 0.9 for share in left) >= 3, left
