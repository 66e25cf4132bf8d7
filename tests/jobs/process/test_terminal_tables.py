"""Goal: a table on a terminal is for people: counts, durations and colours; a pipe gets the plain numbers."""

from __future__ import annotations

import sys
from os import terminal_size
from typing import TYPE_CHECKING

from rich.console import Console

from groupledger.jobs.process import terminal
from groupledger.jobs.process.terminal import coloured, print_table

if TYPE_CHECKING:
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
