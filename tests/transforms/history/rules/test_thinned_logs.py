"""Goal: of a log that Kafka's cleaner thins between passes and during them, the ledger claims nothing that is not so,
and tells in full what lies where nothing was removed.

An hour of ten very different groups is simulated; their records go into one partition, with a cleaner that works at
random. Passes read it at random instants, in pieces, and fold what they read. Each claim is held against the fold of
all records.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.transforms.coverage.rules.stretches import stretches
from groupledger.transforms.history.rules import Coverage, GroupTombstone
from lab.faults.growing_log import HOUR_MS, MIX
from lab.truth.cleaned_log import CleanedLog
from lab.truth.histories import Commit, Tables, folded, position, stretch
from lab.truth.simulated import groups_in

if TYPE_CHECKING:
    from collections.abc import Hashable

    from groupledger.transforms.coverage.rules.stretches import Reading, Stretch
    from lab.truth.histories import Entry

pytestmark = pytest.mark.slow

HOURS_SIMULATED = 2  # of which each has its own seed
CLEANINGS = 30  # of each hour
RETENTION_MS = 20 * 60_000  # of tombstones
INSTANTS = 30
STATED = ("from_generation", "happened_at", "generation_gap", "protocol_kind", "changes", "partitions_moved")

Told = dict[str, Any]


@cache
def an_hour(seed: int) -> tuple[list[tuple[str, Entry]], dict[str, Tables]]:
    """Returns the records of all groups as a log of one partition, and what a ledger that saw them all says."""
    simulation = prepare(MIX, seed)
    simulation.run(BEGAN_AT_MS + HOUR_MS)
    groups = groups_in(simulation, simulation.take(is_last=True).batches)
    of_all = sorted(
        ((group.group_id, entry) for group in groups for entry in group.log),
        key=lambda each: (each[1].kafka_timestamp_ms, each[0], each[1].kafka_offset),  # type: ignore[union-attr]
    )
    log = [(group_id, replace(entry, kafka_offset=at)) for at, (group_id, entry) in enumerate(of_all)]  # type: ignore[arg-type]
    return log, {
        group.group_id: folded([entry for group_id, entry in log if group_id == group.group_id]) for group in groups
    }


def key_of(group_id: str, entry: Any) -> Hashable:
    return (group_id, entry.topic, entry.partition) if isinstance(entry, Commit) else group_id


def is_tombstone(entry: Any) -> bool:
    return isinstance(entry, GroupTombstone) or (isinstance(entry, Commit) and entry.committed_offset is None)


class Passes:
    """A ledger that reads the log as it is by then, and folds it."""

    def __init__(self, seed: int, cleaning: int) -> None:
        self.log, self.truth = an_hour(seed)
        self.random = Random(f"{seed} {cleaning}")
        self.cleaned = CleanedLog(random=self.random, key_count=40, retention_ms=RETENTION_MS, now_ms=BEGAN_AT_MS)
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
        marks = [Coverage(each.from_offset, each.completeness, each.is_state_lost) for each in self.stretches()]
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
    for group_id, tables in passes.tables.items():
        truth = passes.truth[group_id]
        assert false_rebalances(tables, truth) == []
        assert (
            false_rows(tables, truth, "assignments", ("topic", "partition", "member_id"), ("valid_from", "valid_to"))
            == []
        )
        assert false_rows(tables, truth, "members", ("member_id",), ("joined_at", "left_at")) == []
        assert findings(tables) <= findings(truth)
        assert untold(passes, group_id) == []
        assert false_owners(passes, group_id) == []


def false_rebalances(tables: Tables, truth: Tables) -> list[Told]:
    true = {row["kafka_offset"]: row for row in truth.table("rebalances")}
    known = [row for row in tables.table("rebalances") if not row["is_hole"]]
    return [row for row in known if any(row[name] != true[row["kafka_offset"]][name] for name in STATED)]


def false_rows(tables: Tables, truth: Tables, table: str, names: tuple[str, ...], times: tuple[str, str]) -> list[Told]:
    """Returns the rows with a begin or an end, claimed as known, that no true row with these names has."""
    begin, end = times
    found = []
    true = truth.table(table)
    begins = {tuple(row[name] for name in (*names, begin)) for row in true}
    ends = {tuple(row[name] for name in (*names, end)) for row in true}
    for row in tables.table(table):
        has_begun = not row["is_start_known"] or tuple(row[name] for name in (*names, begin)) in begins
        has_ended = not row["is_end_known"] or tuple(row[name] for name in (*names, end)) in ends
        if not (has_begun and has_ended):
            found.append(row)
    return found


def findings(tables: Tables) -> set[tuple[int, str]]:
    return {(row["kafka_offset"], row["finding"]) for row in tables.table("generations") if row["finding"]}


def untold(passes: Passes, group_id: str) -> list[Told]:
    """Returns the true rebalances that are told otherwise, though nothing was removed around them."""
    told = {row["kafka_offset"]: row for row in passes.tables[group_id].table("rebalances")}
    offsets = sorted(row["kafka_offset"] for row in passes.truth[group_id].table("generations"))
    complete = [each for each in passes.stretches() if each.completeness == "complete"]
    found = []
    for row in passes.truth[group_id].table("rebalances"):
        at = row["kafka_offset"]
        before = max((offset for offset in offsets if offset < at), default=at)
        is_inside = any(each.from_offset <= before and at < each.to_offset for each in complete)
        if is_inside and (at not in told or any(told[at][name] != row[name] for name in (*STATED, "is_hole"))):
            found.append(row)
    return found


def false_owners(passes: Passes, group_id: str) -> list[object]:
    coverage = [
        stretch(each.from_offset, each.to_offset, None if None in times else times, each.completeness)  # type: ignore[arg-type]
        for each in passes.stretches(passes.known_until_ms)
        for times in [(each.from_time_ms, each.to_time_ms)]
    ]
    whole = [stretch(0, len(passes.log), (BEGAN_AT_MS, passes.cleaned.now_ms), "complete")]
    tables, truth = passes.tables[group_id], passes.truth[group_id]
    if not tables.rows["groups"]:
        return []
    partitions = sorted({(row["topic"], row["partition"]) for row in truth.table("assignments")})
    found: list[object] = []
    for _ in range(INSTANTS if partitions else 0):
        topic, partition = passes.random.choice(partitions)
        at_ms = passes.random.randrange(BEGAN_AT_MS, passes.cleaned.now_ms)
        answer = tables.owner(coverage, topic, partition, at_ms)
        true = truth.owner(whole, topic, partition, at_ms)
        if answer.status != "unknown" and answer != true:
            found.append((topic, partition, at_ms, answer, true))
    return found
