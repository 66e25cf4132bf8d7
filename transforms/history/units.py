"""Cuts a large log into units, which a first fold of the history takes one after the other.

A unit has, of some partitions of `__consumer_offsets`, the records from one offset to another. All records of a group
are in one partition, and the fold of a group may be cut at any offset, so the units together give the same rows as one
fold of everything. What the caller knows of the log are pieces: the records of one partition that lie near one another
in one file. Pieces that overlap are not cut apart.

Units follow the order of the files, so that most files are read once. In files in the order of the log a unit is a
stretch of time; in sorted files, which have few partitions each, it is a part of a date's partitions. A file with more
records than a unit may have is read once for each of its units.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of a partition in a file: the offsets of the first and the last, and how many there are."""

    file: str
    partition: int
    first: int
    last: int
    count: int


@dataclass(slots=True)
class Unit:
    """A unit ends, in each of its partitions, before the offset in `ends`; it begins where the units before it ended.
    `files` are those that have its records."""

    ends: dict[int, int] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    count: int = 0

    def take(self, cell: Unit) -> None:
        """Adds the records of `cell`, which follow those that the unit has of the partition."""
        self.ends |= cell.ends
        self.files |= cell.files
        self.count += cell.count


def units_of(pieces: Sequence[Piece], records_max: int) -> Iterator[Unit]:
    """Yields units with at most `records_max` records each, in the order in which they must be folded. The pieces of a
    file come one after the other, and the files in the order in which they should be read. No records that overlap may
    be more than `records_max`."""
    cells: dict[int, list[Unit]] = {}
    last_cells: dict[tuple[str, int], int] = {}
    for partition, of_partition in _by_partition(pieces).items():
        cells[partition] = list(_cells(of_partition))
        last_cells |= {(file, partition): number for number, cell in enumerate(cells[partition]) for file in cell.files}
    taken = dict.fromkeys(cells, 0)
    unit = Unit()
    for file, of_file in groupby(pieces, attrgetter("file")):
        # What has to be folded before the end of this file can be.
        needed: list[Unit] = []
        for partition in sorted({piece.partition for piece in of_file}):
            end = last_cells[file, partition] + 1
            needed += cells[partition][taken[partition] : end]
            taken[partition] = max(end, taken[partition])
        if unit.count + sum(cell.count for cell in needed) > records_max and unit.count:
            yield unit
            unit = Unit()
        for cell in needed:
            if unit.count + cell.count > records_max and unit.count:
                yield unit
                unit = Unit()
            unit.take(cell)
    if unit.count:
        yield unit


def _by_partition(pieces: Iterable[Piece]) -> dict[int, list[Piece]]:
    found: defaultdict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        found[piece.partition].append(piece)
    return found


def _cells(of_partition: list[Piece]) -> Iterator[Unit]:
    """Yields the records of a partition, in order, in parts between which no piece is cut."""
    cell = Unit()
    for piece in sorted(of_partition, key=attrgetter("first")):
        if cell.ends.get(piece.partition, piece.first) <= piece.first and cell.count:
            yield cell
            cell = Unit()
        end = max(piece.last + 1, cell.ends.get(piece.partition, 0))
        cell.take(Unit({piece.partition: end}, {piece.file}, piece.count))
    yield cell
