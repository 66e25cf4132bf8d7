"""Goal: things are found by number and by span as a look at all of them finds them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupledger.transforms.incidents.rules.group_facts import Lookups
from groupledger.transforms.lookups import InOrder, Spans
from lab.truth.made import T, facts, generation

NUMBERS = st.integers(-3, 12)
SPANS = st.lists(st.tuples(NUMBERS, st.none() | NUMBERS))


@given(st.lists(NUMBERS), NUMBERS, NUMBERS)
def test_numbers(numbers: list[int], first: int, last: int) -> None:
    in_order = InOrder(enumerate(numbers), itemgetter(1))
    every = sorted(enumerate(numbers), key=itemgetter(1))
    between = [each for each in every if first <= each[1] <= last]
    assert in_order.between(first, last) == between
    assert in_order.has_between(first, last) == bool(between)
    assert [*in_order.onward(first)] == [each for each in every if each[1] >= first]
    assert in_order.first_from(first) == next((each for each in every if each[1] >= first), None)
    assert in_order.last_until(last) == next((each for each in reversed(every) if each[1] <= last), None)


@given(SPANS, NUMBERS, NUMBERS)
def test_spans(spans: list[tuple[int, int | None]], first: int, last: int) -> None:
    """Goal: spans that begin in any order, overlap, end before they begin or never end are found."""
    numbered = [*enumerate(spans)]
    found = Spans(numbered, lambda each: each[1][0], lambda each: each[1][1])
    in_order = sorted(numbered, key=lambda each: each[1][0])

    def meets(begin: int, end: int | None, first: int, last: int) -> bool:
        return begin <= last and (end is None or end > first)

    assert found.meeting(first, last) == [each for each in in_order if meets(*each[1], first, last)]
    assert found.holding(first) == [each for each in in_order if meets(*each[1], first, first)]


GENERATIONS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(1, 9), st.integers(0, 9)), max_size=6)


@given(GENERATIONS, st.integers(-1, 10))
def test_generations(spans: list[tuple[int, int | None, int]], at: int) -> None:
    """Goal: of generations in the order of the log, whose clocks may go back, the one that holds, begun last by offset,
    and begun last by time is found."""
    rows: list[dict[str, Any]] = [
        generation(number, begin, None if length is None else begin + length, started_at=(T + second) * 1_000)
        for number, (begin, length, second) in enumerate(sorted(spans, key=itemgetter(0)))
    ]
    lookups = Lookups(facts(generations=rows))
    holding = [row for row in rows if row["kafka_offset"] <= at and (row["to_offset"] is None or at < row["to_offset"])]
    assert lookups.generation_at(at) == (holding[-1] if holding else None)
    begun = [row for row in rows if row["kafka_offset"] <= at]
    assert lookups.last_generation(at) == max(begun, key=itemgetter("kafka_offset"), default=None)
    begun = [row for row in rows if row["started_at"] <= (T + at) * 1_000]
    assert lookups.newest_generation(T + at) == max(begun, key=itemgetter("kafka_offset"), default=None)
