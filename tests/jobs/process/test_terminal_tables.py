"""Goal: a table on a terminal is for people: counts, durations and colours; a pipe gets the plain numbers."""

from __future__ import annotations

import sys
from os import terminal_size
from typing import TYPE_CHECKING

from rich.console import Console

from groupledger.jobs.process import terminal
from groupledger.jobs.process.output import print_answer
from groupledger.jobs.process.terminal import coloured, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

COLUMNS = ("group id", "lag seconds max", "status")
ROWS = (("pay", 127.4, "stopped"), ("search", None, "ok"))


def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_terminal: bool) -> str:
    made = Console(force_terminal=is_terminal, width=80, color_system="standard" if is_terminal else None)
    monkeypatch.setattr("rich.console.Console", lambda: made)
    print_table("Groups", COLUMNS, ROWS)
    return capsys.readouterr().out


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(monkeypatch, capsys, is_terminal=True)
    assert "Groups (2)" in text
    assert "2 min 7 s" in text
    assert "\x1b[31mstopped" in text
    assert "\x1b[32mok" in text


def test_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(monkeypatch, capsys, is_terminal=False)
    assert [line.split() for line in text.splitlines()] == [
        ["GROUP-ID", "LAG-SECONDS-MAX", "STATUS"],
        ["pay", "127.4", "stopped"],
        ["search", "-", "ok"],
    ]


def test_a_name_is_no_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: a group that is named `error` has no colour."""
    made = Console(force_terminal=True, width=80, color_system="standard")
    monkeypatch.setattr("rich.console.Console", lambda: made)
    print_table("Groups", ("group id",), [("error",)])
    assert "\x1b[31m" not in capsys.readouterr().out


def test_severities() -> None:
    assert coloured("error") == "\x1b[31mERROR\x1b[0m"
    assert coloured("critical") == "\x1b[31m\x1b[1mCRITICAL\x1b[0m"


def test_sentences_are_as_wide_as_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: terminal_size((60, 50)))
    assert terminal.text_width() == 55


def on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int, columns: Sequence[str], row: Sequence[object], *optional: str
) -> None:
    made = Console(force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda: made)
    print_table("Groups", columns, [row], optional)


def test_headings_break_before_columns_go(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: a wide heading breaks into lines, and costs no column."""
    on_a_terminal(monkeypatch, 40, ("group id", "partitions without lag", "status"), ("payments", 3, "ok"), "status")
    found = capsys.readouterr()
    assert "status" in found.out
    assert "partitions \u2503" in found.out
    assert max(map(len, found.out.splitlines())) <= 40
    assert not found.err


def test_a_narrow_column_takes_the_place_of_a_wide_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: a column that went before a wide one comes back if there is room for it."""
    row = ("pay", "3", "m" * 30)
    on_a_terminal(monkeypatch, 40, ("group", "moved", "member"), row, "moved", "member")
    found = capsys.readouterr()
    assert "moved" in found.out
    assert found.err == "left out, since the terminal is narrow:\nmember\n"


def test_a_table_that_is_too_wide_is_paragraphs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: no instant and no name is folded: a row has lines of its own for the values that fit into no column."""
    at, member = "2026-11-25T11:03:00.000Z", "consumer-1-0a931a89-dd8c-471c-b0da"
    on_a_terminal(monkeypatch, 60, ("at", "group", "member", "lag", "host"), (at, "pay", member, 1_000, None), "host")
    found = capsys.readouterr()
    assert found.out.splitlines() == ["Groups (1)", f"{at}  pay", f"    member: {member}; lag: 1,000"]
    assert not found.err


def test_no_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: an empty answer draws no frame."""
    made = Console(force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda: made)
    print_table("Groups", COLUMNS, [])
    assert capsys.readouterr().out == "Groups (0)\n"


def test_one_answer_is_not_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: the fields of an answer are no number of answers."""
    made = Console(force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda: made)
    print_answer("Owner", {"topic": "orders", "partition": 3, "reason": None})
    assert capsys.readouterr().out.splitlines()[0].strip() == "Owner"


def test_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: on a terminal a long line goes on at its own indent, by whole words; in a pipe it stays a line."""
    line = f"    ownership: orders 3 from {'m' * 30} to nobody"
    assert terminal.fitted(line) == [line]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: terminal_size((40, 50)))
    assert terminal.fitted(line) == ["    ownership: orders 3 from", f"        {'m' * 30}", "        to nobody"]
    assert terminal.fitted("") == [""]
