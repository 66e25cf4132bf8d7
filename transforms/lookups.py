"""Finds things by a number, a span or a key without a look at all of them.

A group may have rows of years, and as many incidents. A rule that looked at all rows for each of them would take time
by the square of the past; `tests/transforms/incidents/rules/test_a_long_past.py` counts that none does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

Thing = TypeVar("Thing")


def grouped(things: Iterable[Thing], key: Callable[[Thing], Hashable]) -> Mapping[Any, Sequence[Thing]]:
    """Returns the things by their keys, each list in their order."""
    found: defaultdict[Hashable, list[Thing]] = defaultdict(list)
    for thing in things:
        found[key(thing)].append(thing)
    return found


def as_given(numbered: Iterable[tuple[int, Thing]]) -> list[Thing]:
    """Returns things that were found among the pairs of `enumerate`, in the order in which they were given to it."""
    return [thing for _, thing in sorted(numbered, key=itemgetter(0))]


class InOrder(Generic[Thing]):
    """Things in the order of a number, such as their instant."""

    def __init__(self, things: Iterable[Thing], number: Callable[[Thing], float]) -> None:
        self._things = sorted(things, key=number)
        self._numbers = [number(thing) for thing in self._things]

    def between(self, first: float, last: float) -> Sequence[Thing]:
        """Returns the things whose number is one of the two numbers, or lies between them."""
        return self._things[bisect_left(self._numbers, first) : bisect_right(self._numbers, last)]

    def has_between(self, first: float, last: float) -> bool:
        return bisect_left(self._numbers, first) < bisect_right(self._numbers, last)

    def last_until(self, number: float) -> Thing | None:
        """Returns the last thing whose number is not above this one."""
        after = bisect_right(self._numbers, number)
        return self._things[after - 1] if after else None

    def onward(self, number: float) -> Iterator[Thing]:
        """Yields the things whose number is not below this one."""
        for place in range(bisect_left(self._numbers, number), len(self._things)):
            yield self._things[place]

    def first_from(self, number: float) -> Thing | None:
        """Returns the first thing whose number is not below this one."""
        return next(self.onward(number), None)


class Spans(Generic[Thing]):
    """Things that each last from one number to another, or for ever (None), such as intervals between two offsets."""

    def __init__(
        self, things: Iterable[Thing], first: Callable[[Thing], float], last: Callable[[Thing], float | None]
    ) -> None:
        in_order = sorted(((first(thing), last(thing), thing) for thing in things), key=lambda each: each[0])
        ending = [(begin, end, number) for number, (begin, end, _) in enumerate(in_order) if end is not None]
        self._things = [thing for *_, thing in in_order]
        self._firsts = [begin for begin, *_ in ending]
        self._lasts = [end for _, end, _ in ending]
        self._numbers = [number for *_, number in ending]
        self._reached = list(accumulate(self._lasts, max))  # by each and those before it
        self._endless = [(begin, number) for number, (begin, end, _) in enumerate(in_order) if end is None]

    def meeting(self, first: float, last: float) -> list[Thing]:
        """Returns the things that begin at `last` or before, and end after `first`, in the order of their beginnings.
        Of those that end, it looks back only as far as one of them reaches."""
        found = [number for begin, number in self._endless if begin <= last]
        for place in range(bisect_right(self._firsts, last) - 1, -1, -1):
            if self._reached[place] <= first:
                break
            if self._lasts[place] > first:
                found.append(self._numbers[place])
        return [self._things[number] for number in sorted(found)]

    def holding(self, number: float) -> list[Thing]:
        """Returns the things that have begun at a number, and end after it."""
        return self.meeting(number, number)
