"""Tables on a terminal. Names come from clients, so nothing that a terminal could obey is ever printed as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CELL_CHARACTERS_MAX = 200


def printable(value: object) -> str:
    """Returns the text with escapes for control characters, bidirectional marks and the like; long text is cut."""
    shown = escaped("-" if value is None else str(value))
    return shown if len(shown) <= CELL_CHARACTERS_MAX else shown[:CELL_CHARACTERS_MAX] + "…"


def escaped(text: str) -> str:
    """Returns the text with the same escapes, whole."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints to standard output; numbers stand to the right."""
    cells = list(rows)
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        is_number = all(type(row[index]) is int for row in cells)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*[Text(f"{value:,}" if type(value) is int else printable(value)) for value in row])
    Console().print(table)
