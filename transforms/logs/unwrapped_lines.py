"""Removes container prefixes from numbered lines, and adds the evidence for each line's instant.

`passes` are the passes of repeated hours (`rules.repeated_hours`) in a split of the file. The driver has found them by
the order of all lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.log_time import NO_EVIDENCE, ZoneEvidence
from groupledger.transforms.logs.rules.wrapped_lines import WrappedLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.transforms.logs.imported_lines import Line
    from groupledger.transforms.logs.rules.wrapped_lines import Taken

    Passes = Sequence[Sequence[int | None]]


def unwrapped(lines: Iterable[Line], passes: Passes, characters_max: int) -> Iterator[Line]:
    """Yields the lines of one file without their prefixes. A line that a container cut gets the number of its first
    part, and the size of all parts. A line that is longer than `characters_max` is passed on in several parts."""
    wrapped = WrappedLines(characters_max)
    last: Line | None = None
    byte_counts: dict[int, int] = {}
    for line in lines:
        last = line
        if not line.is_whole or (wrapped.take_plain(line.text) and not passes):
            yield line
            continue
        taken = wrapped.take(line.line_number, line.text)
        if taken.goes_on:
            byte_counts[taken.first_line] = byte_counts.get(taken.first_line, 0) + line.byte_count
        else:
            size = byte_counts.pop(taken.first_line, 0) + line.byte_count
            yield _line(line, taken, passes, size)
    for taken in wrapped.rest():
        if last is not None:
            yield _line(last, taken, passes, byte_counts[taken.first_line])


def _line(line: Line, taken: Taken, passes: Passes, byte_count: int) -> Line:
    fold = next((found for first, end, found in passes if _is_between(taken.first_line, first, end)), None)
    evidence = NO_EVIDENCE if fold is None and taken.outer_us is None else ZoneEvidence(fold, taken.outer_us)
    return line._replace(
        line_number=taken.first_line,
        text=taken.text,
        byte_count=byte_count,
        line_count=taken.line_count,
        evidence=evidence,
        is_of_another=taken.is_of_another,
    )


def _is_between(number: int, first: int | None, last: int | None) -> bool:
    return (first is None or first <= number) and (last is None or number <= last)
