"""Prints tables on a terminal. Names come from clients, so characters that control a terminal are always escaped.

Rich is imported only where a table is printed: JSON and errors do not need it.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from groupledger.jobs.process.instants import lasted_seconds
from groupledger.schemas.words import LagStatus, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CELL_CHARACTERS_MAX = 200
TEXT_WIDTH = 110  # of sentences, where nobody knows the terminal's width
TEXT_WIDTH_MIN = 40
# The colours of severities, statuses of lag and states of groups; words without one have none.
STYLES = {
    "critical": "bold red",
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.INFO: "blue",
    LagStatus.OK: "green",
    LagStatus.STOPPED: "red",
    LagStatus.STALLED: "red",
    LagStatus.AHEAD_OF_LOG: "red",
    LagStatus.REWOUND: "yellow",
    LagStatus.GROWING: "yellow",
    LagStatus.REBALANCING: "yellow",
    LagStatus.NO_COMMIT: "yellow",
    "Stable": "green",
    "Empty": "yellow",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
}
STYLED_COLUMNS = ("status", "severity", "state")
INDENT = 4  # of the sentences of an answer
FRAME_CHARACTERS = 3  # of a column: a space on each side, and a line


def printable(value: object) -> str:
    """Returns the text with escapes for control characters, bidirectional marks and the like; long text is cut."""
    shown = escaped("-" if value is None else str(value))
    return shown if len(shown) <= CELL_CHARACTERS_MAX else shown[:CELL_CHARACTERS_MAX] + "…"


def escaped(text: str) -> str:
    """Returns the text with the same escapes as `printable`, but not cut."""
    if text.isprintable():
        return text
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

    texts = [[_for_people(column, value) for column, value in zip(columns, row, strict=True)] for row in cells]
    shown = fitting(columns, texts, optional, console.width)
    table = Table(title=f"{title} ({len(cells):,})" if title else None, title_justify="left")
    for index in shown:
        table.add_column(columns[index], justify="right" if is_number(cells, index) else "left", overflow="fold")
    for row in texts:
        table.add_row(*[Text(row[index], style=_style(columns[index], row[index])) for index in shown])
    console.print(table)
    left_out = [name for index, name in enumerate(columns) if index not in shown]
    if left_out:
        click.echo(f"left out, since the terminal is narrow: {', '.join(left_out)}", err=True)


def _for_people(column: str, value: object) -> str:
    """Returns a cell of a table on a terminal: thousands with commas, seconds as a duration."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "seconds" in column.lower():
            return lasted_seconds(value)
        return f"{value:,}"
    return printable(value)


def _style(column: str, text: str) -> str:
    return STYLES.get(text, "") if column.lower().split(" ")[-1] in STYLED_COLUMNS else ""


def text_width() -> int:
    """Returns the width of sentences: that of the terminal, or a readable one if the output is not a terminal."""
    if not sys.stdout.isatty():
        return TEXT_WIDTH
    return max(TEXT_WIDTH_MIN, min(TEXT_WIDTH, shutil.get_terminal_size().columns - INDENT - 1))


def coloured(severity: str) -> str:
    """Returns a severity in capitals, coloured on a terminal."""
    style = STYLES.get(severity, "").split(" ")
    is_bold = "bold" in style
    return click.style(severity.upper(), fg=style[-1] or None, bold=is_bold or None)


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
    found = [row[index] for row in rows if row[index] is not None]
    return bool(found) and all(type(value) in (int, float) for value in found)


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
