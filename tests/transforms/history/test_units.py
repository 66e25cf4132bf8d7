"""Goal: units of a log have every record once, in an order in which it can be folded, and most files are read once."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

import pytest

from groupledger.transforms.history.units import Piece, Unit, units_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Position = tuple[int, int]

PARTITIONS, RECORDS, RECORDS_MAX, GRID = 6, 3_000, 200, 25


def positions(source: Random) -> list[Position]:
    """A log in the order of writing: the busy partition 0 has a third of it, and offsets have gaps."""
    ends: defaultdict[int, int] = defaultdict(int)
    found = []
    for _ in range(RECORDS):
        partition = source.choice([0, 0, *range(PARTITIONS)])
        ends[partition] += source.choice([1, 1, 1, 40])
        found.append((partition, ends[partition]))
    return found


def in_order(log: list[Position], source: Random) -> list[list[Position]]:
    """Micro-batches of different sizes."""
    cuts = sorted(source.sample(range(1, len(log)), 30))
    return [log[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]


def in_sorted_dates(log: list[Position], source: Random) -> list[list[Position]]:
    """Dates that maintenance has sorted, in files of a few partitions, and one that is not sorted yet."""
    *dates, last = (log[begin : begin + RECORDS // 4] for begin in range(0, RECORDS, RECORDS // 4))
    files = [sorted(date)[begin : begin + 130] for date in dates for begin in range(0, len(date), 130)]
    return files + in_order(last, source)


def in_any_order(log: list[Position], source: Random) -> list[list[Position]]:
    files: list[list[Position]] = [[] for _ in range(5)]
    for position in log:
        source.choice(files).append(position)
    return files


def in_one_file(log: list[Position], _: Random) -> list[list[Position]]:
    return [log]


def pieces_of(files: list[list[Position]]) -> list[Piece]:
    found = []
    for number, file in enumerate(files):
        places: defaultdict[Position, list[int]] = defaultdict(list)
        for partition, offset in file:
            places[partition, offset // GRID].append(offset)
        found += [Piece(f"{number}", at[0], min(of), max(of), len(of)) for at, of in places.items()]
    return found


@pytest.mark.parametrize("layout", [in_order, in_sorted_dates, in_any_order, in_one_file])
def test_every_record_once(layout: Callable[[list[Position], Random], list[list[Position]]]) -> None:
    """Goal: in files of any layout each record is in one unit, after all earlier ones of its partition, in a file that
    the unit reads; and no unit has too many."""
    for seed in range(10):
        source = Random(seed)
        files = layout(positions(source), source)
        folded: dict[int, int] = {}
        count = 0
        for unit in units_of(pieces_of(files), RECORDS_MAX):
            inside = [
                (number, partition, offset)
                for number, file in enumerate(files)
                for partition, offset in file
                if folded.get(partition, 0) <= offset < unit.ends.get(partition, 0)
            ]
            assert len(inside) == unit.count <= RECORDS_MAX
            assert {f"{number}" for number, *_ in inside} == unit.files
            assert all(end > folded.get(partition, 0) for partition, end in unit.ends.items())
            folded |= unit.ends
            count += unit.count
        assert count == RECORDS


@pytest.mark.parametrize(("layout", "times_max"), [(in_order, 2), (in_sorted_dates, 2.5)])
def test_what_is_read(layout: Callable[[list[Position], Random], list[list[Position]]], times_max: float) -> None:
    """Goal: the units together read little more than the files have, however many units there are."""
    for seed in range(5):
        source = Random(seed)
        files = layout(positions(source), source)
        read = sum(len(files[int(name)]) for unit in units_of(pieces_of(files), RECORDS_MAX) for name in unit.files)
        assert read <= times_max * RECORDS


def test_nothing() -> None:
    """Goal: without a record there is no unit."""
    assert [*units_of([], RECORDS_MAX)] == []
    assert [*units_of([Piece("a", 3, 7, 7, 1)], RECORDS_MAX)] == [Unit({3: 8}, {"a"}, 1)]
