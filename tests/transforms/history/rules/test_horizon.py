"""A history made again from a record in the middle of a group's incarnation says less than the whole one, and nothing
else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.horizon import OpenRows, readable_state, state_before
from groupledger.transforms.history.rules.rows import open_group_row
from groupledger.transforms.history.rules.state import load
from lab.truth.histories import KEYS, Log, Tables, folded, member, position

if TYPE_CHECKING:
    from typing import Any

    from lab.truth.histories import Entry

STRETCH = Coverage(0, "complete")


def two_incarnations() -> Log:
    """A simple consumer's commit, members that come and go, an end, and a second incarnation."""
    log = Log().commit(0, 9, at=3).record(1, member("a", 0, 1)).commits(0, 1, every_ms=5_000, times=3)
    log.record(2, member("a", 0), member("b", 1)).commits(0, 1, every_ms=5_000, times=3)
    log.record(3, member("b", 0, 1)).commits(0, 1, every_ms=5_000, times=2).record(4).commit(9, at=None).tombstone()
    log.record(1, member("c", 0)).commit(0).record(2, member("c", 0), member("d", 1)).commit(0, 1, 5)
    return log


def made_again(whole: Tables, entries: list[Entry], row: dict[str, Any]) -> Tables:
    """From the record of a row of `generations` on."""
    assert whole.open_group is not None
    tables = Tables(
        open_group=state_before(load(whole.open_group["state"]), row["incarnation"], row["kafka_offset"], STRETCH)
    )
    tables.take(sorted([STRETCH, *entries], key=position))
    return tables


@pytest.mark.parametrize("begin", range(6))
def test_what_is_made_again(begin: int) -> None:
    """Goal: from any record on: the same incarnations, generations and owners, the same open group but for commit
    times, and rows that follow the first record say the same; the first ones say that their begin is not known."""
    entries = two_incarnations().entries
    whole = folded(entries)
    row = whole.table("generations")[begin]
    again = made_again(whole, entries, row)
    at = row["kafka_offset"]

    for table, begins in (("generations", "kafka_offset"), ("assignments", "from_offset"), ("members", "from_offset")):
        later = [each for each in whole.table(table) if each[begins] > at]
        assert [each for each in again.table(table) if each[begins] > at and each["is_start_known"]] == later
        assert not any(each["is_start_known"] for each in again.table(table) if each[begins] == at)
    assert [each["kafka_offset"] for each in again.table("rebalances")] == [
        each["kafka_offset"] for each in whole.table("rebalances") if each["kafka_offset"] > at
    ]
    same = ("incarnation", "generation", "member_count", "committed_partition_count", "first_kafka_offset")
    assert [again.group[name] for name in same] == [whole.group[name] for name in same]
    assert set(KEYS) == set(again.rows)


def open_rows(tables: Tables) -> OpenRows:
    """What Spark reads from the tables."""
    return OpenRows(
        group=tables.group,
        generation=next((row for row in tables.table("generations") if row["is_current"]), None),
        members=[row for row in tables.table("members") if row["to_offset"] is None],
        assignments=[row for row in tables.table("assignments") if row["to_offset"] is None],
    )


@pytest.mark.parametrize("cut", range(1, len(two_incarnations().entries)))
def test_a_state_that_can_not_be_read(cut: int) -> None:
    """Goal: wherever the log is cut, the state that the open rows hold goes on to the same generations, members and
    owners with the same begins and ends; only the next transition is a hole, and its ends may be later than known."""
    entries = two_incarnations().entries
    whole, tables = folded(entries), folded(entries[:cut])
    unreadable = '{"format":99}'
    tables.open_group = open_group_row(readable_state(unreadable, open_rows(tables), STRETCH))
    tables.take(sorted([STRETCH, *entries[cut:]], key=position))
    vague = ("is_start_known", "is_end_known", "generation_gap", "leave_cause", "leave_cause_confidence")
    for name in ("generations", "members", "assignments"):
        found, expected = (
            [{column: value for column, value in row.items() if column not in vague} for row in each.table(name)]
            for each in (tables, whole)
        )
        assert found == expected
    claimed = [row for row in tables.table("rebalances") if not row["is_hole"]]
    keys = ("incarnation", "to_generation", "kafka_offset")
    for row in claimed:
        assert tuple(row[key] for key in keys) in {
            tuple(each[key] for key in keys) for each in whole.table("rebalances")
        }
