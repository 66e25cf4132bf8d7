"""Goal: a line that is too long to be read is kept in part, with its length, and nothing waits for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.transforms.by_group import ROWS_MAX
from groupledger.transforms.logs.coordinator_events import parse_events
from groupledger.transforms.logs.imported_lines import (
    LINE_CHARACTERS_MAX,
    OF_THE_JOB,
    PIECE_CHARACTERS_MAX,
    QUARANTINED,
    ROW,
    TOO_LONG,
    Line,
    parsed,
    pieces,
)
from groupledger.transforms.logs.requests import parse_requests
from groupledger.transforms.privacy import DROP, Privacy

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUEST = '[2026-02-10 09:45:00,123] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":'
COMMIT, FETCH = f'{REQUEST}8,"x', f'{REQUEST}1,"x'
EVENT = "[2026-02-10 09:45:00,123] INFO [GroupCoordinator id=1] Group g with generation 4 is now empty."
END = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
ENTRY_CHARACTERS_MAX = 500
KEEP = Privacy()


def numbered(texts: Sequence[str], cut: int | None = None) -> list[Line]:
    """Lines of a file; the one with the index `cut` goes on for a gigabyte."""
    return [
        Line("f", number, text, len(text) + (number == cut) * 2**30, number != cut) for number, text in enumerate(texts)
    ]


def of_requests(lines: list[Line], privacy: Privacy = KEEP) -> list[dict[str, Any]]:
    return [row[QUARANTINED] for row in parse_requests(lines, "UTC", privacy)]


def of_events(lines: list[Line]) -> list[tuple[Any, ...]]:
    """The number of each row's line, and the reason and size of those that are quarantined."""
    found: list[tuple[Any, ...]] = []
    for row in parse_events(lines, "UTC", KEEP, ENTRY_CHARACTERS_MAX):
        kept = row[QUARANTINED]
        found.append((kept["line_number"], kept["reason"], kept["line_bytes"]) if kept else (row[ROW]["line_number"],))
    return found


def test_a_request() -> None:
    """Goal: its beginning, its true length and the reason are kept; a request of another API is still nothing."""
    (kept,) = of_requests(numbered([COMMIT + "y" * 100_000], cut=0))
    assert set(kept) == set(LOG_QUARANTINE.schema.names) - {*OF_THE_JOB}
    assert kept["line"] == (COMMIT + "y" * 100_000)[:LINE_CHARACTERS_MAX]
    assert (kept["reason"], kept["line_bytes"]) == (TOO_LONG, len(COMMIT) + 100_000 + 2**30)
    assert of_requests(numbered([FETCH], cut=0)) == []
    (kept,) = of_requests(numbered(["what nobody knows"], cut=0), Privacy(hosts=DROP))
    assert (kept["line"], kept["reason"]) == (None, TOO_LONG)


def test_a_line_of_the_server_log() -> None:
    """Goal: a long line ends its entry, the cut is reported, and the next entry is read."""
    texts = [EVENT + END, EVENT, "z" * 1_000, "lost (a.Logger)", EVENT + END]
    assert [row[:2] for row in of_events(numbered(texts, cut=2))] == [
        (0,),
        (1, "an entry of a group coordinator without a whole frame of time, level and logger"),
        (2, TOO_LONG),
        (4,),
    ]


def test_an_entry_over_lines() -> None:
    """Attack: a name with line breaks makes an entry that no line limits; it is cut where it becomes too long."""
    texts = [EVENT, *["a line of a name"] * 100, f"its end{END}", EVENT + END]
    kept, read = of_events(numbered(texts))
    assert (kept[:2], read) == ((0, TOO_LONG), (102,))
    assert ENTRY_CHARACTERS_MAX < kept[2] < 2 * ENTRY_CHARACTERS_MAX
    assert of_events(numbered([EVENT, *["a"] * 100, END])) == [(0,)]


@pytest.mark.parametrize(("size", "rows_in_piece"), [(10, ROWS_MAX), (PIECE_CHARACTERS_MAX // 10, 11)])
def test_pieces(size: int, rows_in_piece: int) -> None:
    """Attack: thousands of long lines wait for each other, until the task has no memory; they leave by their size."""
    rows = [parsed(ROW, {"request_json": "x" * size, "api_key": 8, "reason": None})] * (2 * rows_in_piece + 1)
    assert [len(piece) for piece in pieces(rows)] == [rows_in_piece, rows_in_piece, 1]
