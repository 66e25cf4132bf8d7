"""Goal: the stretches of a partition follow one another without a gap, and claim no more than was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from groupledger.schemas.words import Proof
from groupledger.transforms.coverage.rules.stretches import (
    Reading,
    Stretch,
    above_floor,
    readings_of,
    regained,
    stretches,
)

FIRST = Reading(from_offset=10, complete_from=50, complete_from_ms=1000)


def test_the_first_read_was_not_finished() -> None:
    """Goal: until the end of the first read is reached, nothing is known up to any instant."""
    assert stretches([FIRST], 30, None) == [Stretch(10, 30, None, None, "compacted")]


def test_behind_a_log_that_was_cut() -> None:
    """Goal: the first stretch of the new reading says that nothing is known of groups that it does not name."""
    cut = Reading(from_offset=70, complete_from=70, complete_from_ms=2000, is_state_lost=True)
    for reading, first in ((cut, "complete"), (replace(cut, settled_from=75), "compacted")):
        found = stretches([FIRST, reading], 80, 5000)
        assert [each.is_state_lost for each in found][:3] == [False, False, True]
        assert not any(each.is_state_lost for each in found[3:])
        assert (found[2].from_offset, found[2].completeness) == (70, first)
    assert stretches([FIRST, cut], 70, 5000) == stretches([FIRST], 70, None)


def test_the_first_read_and_what_came_since() -> None:
    """Goal: records of before the first read may have been compacted; later ones were complete, until the last look."""
    assert stretches([FIRST], 70, 5000) == [
        Stretch(10, 50, None, 1000, "compacted"),
        Stretch(50, 70, 1000, 5000, "complete", "no_gap"),
    ]


def test_records_that_are_all_there_behind_what_was_thinned() -> None:
    """Goal: if only earlier records may be missing, the stretch is called compacted with its proof, up to the log's end
    of that read; its time is that of the end."""
    reading = Reading(from_offset=10, complete_from=50, complete_from_ms=1000, proof="batch_headers", settled_from=60)
    between = Stretch(50, 60, None, None, "compacted", "batch_headers")
    assert stretches([reading], 55, 5000) == [
        Stretch(10, 50, None, None, "compacted"),
        replace(between, to_offset=55),
    ]
    assert stretches([reading], 70, 5000) == [
        Stretch(10, 50, None, 1000, "compacted"),
        between,
        Stretch(60, 70, 1000, 5000, "complete", "batch_headers"),
    ]


def test_a_hole() -> None:
    """Goal: nothing is known of the hole between two readings."""
    second = Reading(from_offset=100, complete_from=120, complete_from_ms=9000, resumed_from=70)
    assert stretches([FIRST, second], 130, 9500) == [
        Stretch(10, 50, None, 1000, "compacted"),
        Stretch(50, 70, 1000, None, "complete", "no_gap"),
        Stretch(70, 100, None, None, "unknown"),
        Stretch(100, 120, None, 9000, "compacted"),
        Stretch(120, 130, 9000, 9500, "complete", "no_gap"),
    ]


def test_a_quiet_partition() -> None:
    """Goal: nothing was written since the first read, and that is known until the last look; not if the first read was
    the last look, nor before the end is reached."""
    first = Stretch(10, 50, None, 1000, "compacted")
    assert stretches([FIRST], 50, 5000) == [first, Stretch(50, 50, 1000, 5000, "complete", "no_gap")]
    assert stretches([FIRST], 50, 1000) == stretches([FIRST], 50, None) == [first]
    assert stretches([replace(FIRST, settled_from=60)], 50, 5000) == [Stretch(10, 50, None, None, "compacted")]


def test_an_empty_partition() -> None:
    """Goal: without a read nothing is claimed."""
    assert stretches([Reading(from_offset=0, complete_from=0, complete_from_ms=1000)], 0, 5000) == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4))
def test_stretches_are_contiguous(steps: list[tuple[int, int, int]]) -> None:
    """Goal: whatever the readings, their stretches cover all from the first offset to the position exactly once."""
    readings: list[Reading] = []
    position = 0
    for hole, seen, read in steps:
        begin = position + hole if readings else 0
        resumed_from = position if readings else None
        readings.append(
            Reading(from_offset=begin, complete_from=begin + seen, complete_from_ms=0, resumed_from=resumed_from)
        )
        position = begin + read
    found = stretches(readings, position, 1)
    offsets = [offset for stretch in found for offset in range(stretch.from_offset, stretch.to_offset)]
    assert offsets == list(range(position))


READING: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {name: st.integers(0, 6) for name in ("hole", "seen", "settled", "read")}
    | {name: st.booleans() for name in ("is_settled", "is_state_lost")}
    | {"complete_from_ms": st.integers(0, 3), "proof": st.sampled_from([None, "no_gap", "batch_headers"])}
)


def readings_from(steps: list[dict[str, Any]]) -> tuple[list[Reading], int]:
    """Returns readings that follow one another, and the next offset to read."""
    readings: list[Reading] = []
    position = 0
    for step in steps:
        begin = position + step["hole"]
        reading = Reading(
            from_offset=begin,
            complete_from=begin + step["seen"],
            complete_from_ms=step["complete_from_ms"],
            resumed_from=position if step["hole"] else None,
            proof=step["proof"] or (Proof.NO_GAP if step["is_settled"] else None),
            is_state_lost=step["is_state_lost"],
            settled_from=begin + step["seen"] + step["settled"] if step["is_settled"] else None,
        )
        readings.append(reading)
        position = begin + step["read"]
    return readings, position


@given(st.lists(READING, min_size=1, max_size=4), st.none() | st.integers(4, 6))
def test_readings_are_made_again(steps: list[dict[str, Any]], known_until_ms: int | None) -> None:
    """Goal: stretches that were kept give readings that give the same stretches, however the stretches came to be."""
    readings, position = readings_from(steps)
    assume(readings[-1].begin < position)  # a last reading without a record leaves no stretch to make it from
    found = stretches(readings, position, known_until_ms)
    assert stretches(readings_of(found), position, known_until_ms) == found


@given(st.lists(READING, min_size=1, max_size=4), st.integers(0, 6), st.integers(0, 12), st.integers(0, 9))
def test_what_is_regained_claims_no_more(steps: list[dict[str, Any]], unkept: int, end: int, more: int) -> None:
    """Goal: if rows were read after the last stretch that was kept, or the log's end of that read is not known, no
    offset is called complete that the lost readings would not call so. A last reading that had begun and read nothing
    is the exception: no stretch says that it was there."""
    readings, position = readings_from(steps)
    assume(readings[-1].begin < position)
    kept = stretches(readings, position, None)
    read_to = position + unkept
    end_offset = max(read_to + end, readings[-1].known_from)
    again = regained(kept, read_to, (end_offset, 9))
    assert complete(again, read_to + more) <= complete(readings, read_to + more)
    assert complete([*again], read_to) == complete(readings_of(kept), position)


@given(st.lists(READING, min_size=1, max_size=4), st.integers(0, 40))
def test_nothing_is_known_below_a_floor(steps: list[dict[str, Any]], floor: int) -> None:
    """Goal: below a floor there is a hole, and above it what there was; nothing is left out."""
    readings, position = readings_from(steps)
    before = stretches(readings, position, None)
    found = above_floor(before, floor)
    kinds = [
        {offset: each for each in of for offset in range(each.from_offset, each.to_offset)} for of in (before, found)
    ]
    if before and before[0].from_offset < floor < position:
        assert (found[0].from_offset, found[0].to_offset) == (before[0].from_offset, floor)
        assert kinds[0].keys() == kinds[1].keys()
    for offset, stretch in kinds[1].items():
        expected = kinds[0].get(offset)
        is_hole = offset < floor and found != before
        assert stretch.completeness == ("unknown" if is_hole or expected is None else expected.completeness)


def complete(readings: list[Reading], position: int) -> set[int]:
    """Returns the offsets that are called complete."""
    return {
        offset
        for each in stretches(readings, position, None)
        if each.completeness == "complete"
        for offset in range(each.from_offset, each.to_offset)
    }
