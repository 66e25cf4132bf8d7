"""Goal: the source of a ledger is remembered in full, and its readings follow one another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.shard import WHOLE, Shard
from groupledger.jobs.warehouse.source import (
    KAFKA,
    LedgerSource,
    TopicIdentity,
    check_same_source,
    own_groups,
    read_source,
    source_name,
    write_source,
)
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = TopicIdentity("cluster", "topic", 2)
FIRST = Reading(from_offset=0, complete_from=50, complete_from_ms=1)
AFTER_A_HOLE = Reading(from_offset=100, complete_from=120, complete_from_ms=2, resumed_from=70)


def test_it_is_remembered(tmp_path: Path) -> None:
    """Goal: the source that was written is read again, and without a written one none is read."""
    storage = LocalStorage(tmp_path)
    source = LedgerSource(KAFKA, IDENTITY, {0: [FIRST, AFTER_A_HOLE], 1: [FIRST]}, leader_epochs={1: 7})
    write_source(storage, "c", source)
    assert read_source(storage, "c") == source
    assert read_source(storage, "other") is None


def test_the_shard(tmp_path: Path) -> None:
    """Goal: a shard is remembered, and another one refused. A file without one is as older releases write and read
    it."""
    storage = LocalStorage(tmp_path)
    sharded = replace(IDENTITY, shard="1/2")
    for identity in (IDENTITY, sharded):
        source = LedgerSource(KAFKA, identity, {0: [FIRST]})
        write_source(storage, "c", source)
        assert read_source(storage, "c") == source
        assert ("shard" in (storage.read(source_name("c")) or "")) == (identity is sharded)
    with pytest.raises(InputError, match=r"The shard is another one: .* fed from 1/2, and this is the whole topic\."):
        check_same_source(source, KAFKA, IDENTITY, "c")


def test_whose_groups_are_own(tmp_path: Path) -> None:
    """Goal: what a shard has of groups is known once the topic was read, and a group that is not known may be its."""
    storage = LocalStorage(tmp_path)
    assert own_groups(storage, "c", WHOLE)("a")
    with pytest.raises(InputError, match=r"is the shard 1/2 of another one, .* run `groupledger ingest` first"):
        own_groups(storage, "c", Shard(1, 2))
    write_source(storage, "c", LedgerSource(KAFKA, replace(IDENTITY, shard="1/2"), {}))
    first, second = (own_groups(storage, "c", Shard(number, 2)) for number in (1, 2))
    names = [f"group-{number}" for number in range(40)]
    assert {each for each in names if first(each)} == {each for each in names if not second(each)} != {*names}
    assert first(None)
    assert second(None)


def test_a_reading_goes_behind_those_that_it_resumes() -> None:
    """Goal: a hole begins where the last reading stopped; other partitions stay as they are."""
    source = LedgerSource(KAFKA, IDENTITY, {0: [FIRST], 1: [FIRST]})
    assert source.with_readings({0: AFTER_A_HOLE}).readings == {0: [FIRST, AFTER_A_HOLE], 1: [FIRST]}


def test_a_reading_that_was_given_up_leaves_no_trace() -> None:
    """Goal: recovering twice from one hole, because the first time was broken off, leaves one hole."""
    again = Reading(from_offset=110, complete_from=130, complete_from_ms=3, resumed_from=70)
    source = LedgerSource(KAFKA, IDENTITY, {0: [FIRST, AFTER_A_HOLE]})
    assert source.with_readings({0: again}).readings == {0: [FIRST, again]}


def test_a_reading_that_resumes_nothing_starts_over() -> None:
    """Goal: after the table was lost, its former records are no longer claimed."""
    fresh = Reading(from_offset=5, complete_from=60, complete_from_ms=4)
    source = LedgerSource(KAFKA, IDENTITY, {0: [FIRST, AFTER_A_HOLE]})
    assert source.with_readings({0: fresh}).readings == {0: [fresh]}


def test_a_reading_behind_a_cut() -> None:
    """Goal: the readings of the log before a cut stay, a reading that was broken off at the cut leaves no trace, and
    the epoch of a record that is gone is no longer asked for."""
    source = LedgerSource(KAFKA, IDENTITY, {0: [FIRST], 1: [FIRST]}, leader_epochs={0: 3, 1: 4})
    behind = Reading(from_offset=90, complete_from=95, complete_from_ms=5, is_state_lost=True)
    found = source.with_readings_after_cuts({0: replace(behind, complete_from=92)}).with_readings_after_cuts(
        {0: behind}
    )
    assert (found.readings, found.leader_epochs) == ({0: [FIRST, behind], 1: [FIRST]}, {1: 4})
