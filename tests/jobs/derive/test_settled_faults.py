"""Goal: passes that read only new rows find the same faults of coordinators as a search through all rows."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.lag_cost import table_rows
from groupledger.jobs.derive import coordinator_faults as search
from groupledger.jobs.derive import settled_faults
from groupledger.jobs.derive.coordinator_faults import coordinator_faults
from groupledger.jobs.derive.groups_to_judge import places
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.progress import note_path
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.instants import instant_of_us
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.words import CoordinatorEventKind as Kind
from groupledger.schemas.words import LeaveCause
from groupledger.transforms.incidents import coordinator_faults as rules
from groupledger.transforms.incidents import settled_faults as keeping
from groupledger.transforms.incidents.settled_faults import Settled
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

T, MINUTE_MS, STEP_MS = 1_790_000_000_000, 60_000, 600_000
STEPS, PARTITIONS, SILENCE_S = 8, 3, 40
LATER = "later"  # a group that the history does not know at first
GROUPS_OF = [f"group-{number}" for number in range(12)]
LINES = (Kind.PARTITION_LOADED, Kind.PARTITION_LOADED, Kind.PARTITION_UNLOADED, Kind.MEMBER_LEFT, Kind.MEMBER_FAILED)
Row = dict[str, Any]
SEED = 1


@pytest.fixture(autouse=True)
def _minutes_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rules, search, settled_faults):
        monkeypatch.setattr(module, "STATED_WITHIN_MS", 4 * MINUTE_MS)
    monkeypatch.setattr(settled_faults, "SETTLED_AFTER_MS", 8 * MINUTE_MS)
    monkeypatch.setattr(keeping, "RECENT_MS", 2 * MINUTE_MS)


class World:
    """Makes rows of a cluster. In each step a partition falls silent, and many members leave after that."""

    def __init__(self, seed: int) -> None:
        self._random, self._number = Random(seed), 0
        self._silent_s = 0
        self.present: dict[str, Row] = {}

    def records(self, begin_ms: int) -> list[Row]:
        silent, self._silent_s = self._random.randrange(PARTITIONS), self._random.randrange(200, 400)
        return [
            {
                "kafka_partition": partition,
                "kafka_offset": begin_ms + second,
                "kafka_timestamp": (begin_ms + second * 1_000) * 1_000,
                "ingest_date": begin_ms // DAY_MS,
            }
            for partition in range(PARTITIONS)
            for second in range(0, STEP_MS // 1_000, 2)
            if partition != silent or not self._silent_s < second < self._silent_s + SILENCE_S
        ]

    def members(self, begin_ms: int) -> list[Row]:
        """Returns those who leave, and those who are there now."""
        rows = []
        for member_id in self._random.sample(sorted(self.present), len(self.present) // 2):
            at_ms = begin_ms + (self._silent_s + SILENCE_S) * 1_000 * (self._random.random() < 0.7)
            left = {"left_at": (at_ms + self._random.randrange(20_000)) * 1_000, "is_open": 0}
            cause = self._random.choice([LeaveCause.REPLACED, None, None, None])
            rows.append({**self.present.pop(member_id), **left, "leave_cause": cause})
        for group_id in self._random.sample(GROUPS_OF, 8):
            self._number += 1
            member_id = f"m-{self._number}"
            joined_us = (begin_ms + self._random.randrange(STEP_MS)) * 1_000
            self.present[member_id] = {"group_id": group_id, "member_id": member_id, "joined_at": joined_us}
            self.present[member_id] |= {"incarnation": 1, "from_offset": self._number, "is_open": 1}
        return [*rows, *self.present.values()]

    def lines(self, begin_ms: int, count: int) -> list[Row]:
        rows = []
        for _ in range(count):
            self._number += 1
            at_ms, kind = begin_ms + self._random.randrange(STEP_MS), self._random.choice(LINES)
            row = {"source_file": "server.log", "line_number": self._number, "kind": kind, "logged_at": at_ms * 1_000}
            row |= {"logged_date": at_ms // DAY_MS, "broker_id": self._random.randrange(3)}
            if kind in LINES[:3]:
                row["kafka_partition"] = self._random.randrange(PARTITIONS)
            else:
                row["member_id"] = f"m-{max(self._number - self._random.randrange(60), 0)}"
                row["group_id"] = self._random.choice([*GROUPS_OF, LATER])
            rows.append(row)
        return rows


def rows_of(ledger: Ledger, table: Table, rows: Sequence[Row]) -> pa.Table:
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    are_numbers = {name: all(isinstance(value, int) for value in values) for name, values in columns.items()}
    given = {name: np.array(values) if are_numbers[name] else values for name, values in columns.items()}
    return table_rows(table, ledger.cluster, {name: _instants(table, name, values) for name, values in given.items()})


def _instants(table: Table, name: str, values: Any) -> Any:
    """Returns the values as they are, but for instants if some are missing."""
    is_list = isinstance(values, list) and name.endswith("_at")
    return [None if each is None else instant_of_us(each) for each in values] if is_list else values


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_test_ledger(None, tmp_path) as opened:  # type: ignore[arg-type]
        opened.create(COORDINATOR_RECORDS, COORDINATOR_EVENTS, MEMBERS, GROUPS)
        known(opened, *GROUPS_OF)
        yield opened


def known(ledger: Ledger, *names: str) -> None:
    rows = [{"group_id": name, "kafka_partition": number % PARTITIONS} for number, name in enumerate(names)]
    upsert_arrow(ledger, GROUPS, rows_of(ledger, GROUPS, rows))


def step(ledger: Ledger, world: World, number: int) -> None:
    begin_ms = T + number * STEP_MS
    ledger.commits.append(COORDINATOR_RECORDS, rows_of(ledger, COORDINATOR_RECORDS, world.records(begin_ms)))
    upsert_arrow(ledger, MEMBERS, rows_of(ledger, MEMBERS, world.members(begin_ms)))
    ledger.commits.append(COORDINATOR_EVENTS, rows_of(ledger, COORDINATOR_EVENTS, world.lines(begin_ms, 3)))


def searched(ledger: Ledger, steps: int = STEPS) -> list[int]:
    """Asserts that a pass after some steps finds what a search through all rows finds. Returns for each search of the
    pass the instant until which it used what was kept; 0 if it read all rows."""
    used: list[int] = []
    search_from = search._searched

    def noting(ledger: Ledger, before: Settled) -> Any:
        used.append(before.until_ms)
        return search_from(ledger, before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_searched", noting)
        found = coordinator_faults(ledger, places(ledger), T + steps * STEP_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "read_settled", lambda *_: Settled())
        every = coordinator_faults(ledger, places(ledger), None)
    assert found is not None
    assert every is not None
    assert found.faults == every.faults
    assert found.coordinators == every.coordinators
    assert sorted(found.hit["group_id"].to_pylist()) == sorted(every.hit["group_id"].to_pylist())
    silences = [each for fault in found.faults for each in fault.outages if not each.is_logged]
    # One that goes on when a burst is over does not last until the next burst.
    assert all(each.until_ms - each.from_ms <= (SILENCE_S + 4) * 1_000 for each in silences)
    return used


def test_new_rows_alone(ledger: Ledger) -> None:
    """Goal: the faults are the same after each step, and few steps read more than what is new. The same holds when the
    past changes, and after a day: then all rows are read. A compaction changes nothing."""
    world = World(SEED)
    used = []
    for number in range(STEPS):
        step(ledger, world, number)
        used.append(searched(ledger, number + 1))
    assert used[0] == [0]
    assert sum(0 in each for each in used[1:]) <= 2
    for table in (MEMBERS, COORDINATOR_EVENTS, COORDINATOR_RECORDS):
        ledger.commits.compact(table, [], 1 << 30)
        assert 0 not in searched(ledger), table.name
    assert searched(ledger, STEPS + DAY_MS // STEP_MS) == [0]
    ledger.commits.append(COORDINATOR_EVENTS, rows_of(ledger, COORDINATOR_EVENTS, world.lines(T, 5)))
    assert searched(ledger) == [0]
    instant = f"arrow_cast({(T + 3 * STEP_MS) * 1_000:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    columns = {COORDINATOR_RECORDS: "kafka_timestamp", MEMBERS: "left_at", COORDINATOR_EVENTS: "logged_at"}
    for table, column in columns.items():
        ledger.commits.delete(table, f"{column} < {instant}")
        assert searched(ledger) == [0], table.name
    known(ledger, LATER)
    assert searched(ledger)[1:] == [0]
    for text in ("{", "[]", '{"of_a_later_release": 1}', '{"places": [1], "settled": {}}'):
        ledger.storage.write(note_path(ledger.cluster, settled_faults.NAME), text)
        assert searched(ledger) == [0]
