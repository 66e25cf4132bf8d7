"""Tables on a terminal. Names come from clients, so nothing that a terminal could obey is ever printed as it is.

Rich is imported where a table is printed: JSON and errors do without.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CELL_CHARACTERS_MAX = 200
FRAME_CHARACTERS = 3  # of a column: a space on each side, and a line


def printable(value: object) -> str:
    """Returns the text with escapes for control characters, bidirectional marks and the like; long text is cut."""
    shown = escaped("-" if value is None else str(value))
    return shown if len(shown) <= CELL_CHARACTERS_MAX else shown[:CELL_CHARACTERS_MAX] + "…"


def escaped(text: str) -> str:
    """Returns the text with the same escapes, whole."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], optional: Sequence[str] = ()
) -> None:
    """Prints to standard output: on a terminal a table with a frame, else plain columns that are never wrapped, for
    `grep` and `awk`, with the title on standard error.

    Where a terminal is too narrow, the `optional` columns are left out, the first of them first, before any name is
    folded.
    """
    from rich.console import Console

    console, cells = Console(), list(rows)
    if not console.is_terminal:
        sys.stdout.flush()
        if title:
            with suppress(OSError):  # as `output.say`
                click.echo(title, err=True)
        print_plain(columns, cells)
        return
    from rich.table import Table
    from rich.text import Text

    told = [[f"{value:,}" if type(value) is int else printable(value) for value in row] for row in cells]
    shown = fitting(columns, told, optional, console.width)
    table = Table(title=title or None, title_justify="left")
    for index in shown:
        table.add_column(columns[index], justify="right" if is_number(cells, index) else "left", overflow="fold")
    for row in told:
        table.add_row(*[Text(row[index]) for index in shown])
    console.print(table)
    left_out = [name for index, name in enumerate(columns) if index not in shown]
    if left_out:
        click.echo(f"left out, since the terminal is narrow: {', '.join(left_out)}", err=True)


def print_plain(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a heading and a line for each row; columns are two spaces apart, and a space within a value remains."""
    from rich.cells import cell_len

    lines = [
        [name.upper().replace(" ", "-") for name in columns],
        *([printable(value) for value in row] for row in rows),
    ]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    to_the_right = [is_number(rows, index) for index in range(len(columns))]
    for line in lines:
        padded = (
            " " * (width - cell_len(cell)) + cell if is_right else cell + " " * (width - cell_len(cell))
            for cell, width, is_right in zip(line, widths, to_the_right, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def is_number(rows: Sequence[Sequence[object]], index: int) -> bool:
    return all(type(row[index]) in (int, float) for row in rows)


def fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str], width: int) -> list[int]:
    """Returns the columns to show, by their place: all, or fewer of the optional ones if they are too wide."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    shown = list(range(len(columns)))
    for name in optional:
        if sum(widths[index] + FRAME_CHARACTERS for index in shown) + 1 <= width:
            break
        shown.remove(columns.index(name))
    return shown
