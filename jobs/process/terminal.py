"""Prints tables on a terminal. Names come from clients, so characters that control a terminal are always escaped.

Rich is imported only where a table is printed: JSON and errors do not need it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from groupledger.jobs.process.instants import lasted_seconds
from groupledger.schemas.words import LagStatus, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from rich.console import Console

CELL_CHARACTERS_MAX = 200
NOTHING = "-"  # in place of a value that is not there
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
COLUMNS_OF_ONE = 2  # of a table of one answer: what, and its value
FRAME_CHARACTERS = 3  # of a column: a space on each side, and a line


def printable(value: object) -> str:
    """Returns the text with escapes for control characters, bidirectional marks and the like; long text is cut."""
    shown = escaped(NOTHING if value is None else str(value))
    return shown if len(shown) <= CELL_CHARACTERS_MAX else shown[:CELL_CHARACTERS_MAX] + "…"


def escaped(text: str) -> str:
    """Returns the text with the same escapes as `printable`, but not cut."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    optional: Sequence[str] = (),
    *,
    is_counted: bool = True,
) -> None:
    """Prints a table to standard output. On a terminal it has a frame, and the title has the number of rows if
    `is_counted`. Otherwise the columns are plain and never wrapped, for `grep` and `awk`, and the title goes to
    standard error.

    If a terminal is too narrow, headings are broken between words, and then the `optional` columns are left out, the
    first of them first. If the others are still too wide, each row is a paragraph with all columns: no value is folded.
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
    heading = f"{title} ({len(cells):,})" if title and is_counted else title
    texts = [[_for_people(column, value) for column, value in zip(columns, row, strict=True)] for row in cells]
    shown = fitting(columns, texts, optional, console.width)
    if not cells or shown is None:
        click.echo("\n".join((*([heading] if heading else ()), *_paragraphs(columns, texts, console.width))))
        return
    _print_framed(console, heading, columns, texts, shown, [is_number(cells, index) for index in range(len(columns))])
    left_out = [name for index, name in enumerate(columns) if index not in shown]
    if left_out:
        hint = f"left out, since the terminal is narrow: {', '.join(left_out)}"
        click.echo("\n".join(textwrap.wrap(hint, console.width)), err=True)


def _print_framed(
    console: Console,
    heading: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[int],
    to_the_right: Sequence[bool],
) -> None:
    from rich.table import Table
    from rich.text import Text

    whole, narrow = _widths(columns, rows), _widths([_longest_word(name) for name in columns], rows)
    is_wide = _framed([whole[index] for index in shown]) <= console.width
    table = Table(title=heading or None, title_justify="left")
    for index in shown:
        justify: Literal["left", "right"] = "right" if to_the_right[index] else "left"
        fixed = None if is_wide or len(columns) <= COLUMNS_OF_ONE else narrow[index]
        table.add_column(columns[index], justify=justify, overflow="fold", width=fixed)
    for row in rows:
        table.add_row(*[Text(row[index], style=_style(columns[index], row[index])) for index in shown])
    console.print(table)


def _paragraphs(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yields each row as a line with its first values, and below it the others with their names, as far as they are
    known; a value begins a line if it does not fit into the one before."""
    for row in rows:
        whole = f"{row[0]}  {row[1]}"
        begin = 2 if len(whole) <= width else 1
        yield whole if begin > 1 and row[1] != NOTHING else row[0]
        line = ""
        for column, value in zip(columns[begin:], row[begin:], strict=True):
            if value == NOTHING:
                continue
            named = f"{column}: {value}"
            if line and INDENT + len(line) + len(named) + 2 > width:
                yield from _wrapped(line, width, " " * INDENT, " " * 2 * INDENT)
                line = ""
            line = f"{line}; {named}" if line else named
        yield from _wrapped(line, width, " " * INDENT, " " * 2 * INDENT)


def fitted(line: str) -> list[str]:
    """Returns a line as it is if the output is not a terminal. On a terminal returns it broken between words into lines
    that are no wider than the terminal, the later ones indented."""
    if not sys.stdout.isatty():
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + INDENT)
    return _wrapped(line, max(TEXT_WIDTH_MIN, shutil.get_terminal_size().columns), "", indent) or [line]


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


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


def fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str], width: int
) -> list[int] | None:
    """Returns the indexes of the columns to show: all, or not all of the `optional` ones if all are wider than `width`.
    Returns None if the others alone are too wide. The two columns of a single answer are always shown."""
    widths = _widths([_longest_word(name) for name in columns], rows)
    shown, left_out = {*range(len(columns))}, []
    if len(columns) <= COLUMNS_OF_ONE:
        return [*shown]
    for name in optional:
        if _framed([widths[index] for index in shown]) <= width:
            break
        left_out.append(columns.index(name))
        shown.remove(left_out[-1])
    if _framed([widths[index] for index in shown]) > width:
        return None
    for place in reversed(left_out):  # a wide one that had to go may have left room for one before it
        if _framed([widths[index] for index in (*shown, place)]) <= width:
            shown.add(place)
    return sorted(shown)


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]


def _framed(widths: Sequence[int]) -> int:
    return sum(widths) + FRAME_CHARACTERS * len(widths) + 1


def _longest_word(heading: str) -> str:
    return max(heading.split(" "), key=len)
