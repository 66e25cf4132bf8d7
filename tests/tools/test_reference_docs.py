"""Goal: the pages of reference say what the code does; after a change run `python -m tools.reference_docs`."""

from __future__ import annotations

from tools.reference_docs import SETTINGS, pages, settings


def test_the_pages_are_those_of_the_code() -> None:
    for path, text in pages().items():
        assert path.read_text() == text.rstrip("\n") + "\n", path.name


def test_no_setting_is_left_out() -> None:
    """Goal: the page has every line of the settings but the words at the head of the file."""
    shown = settings(SETTINGS.read_text())
    lines = SETTINGS.read_text().partition("\n\n")[2].splitlines()
    assert [line for line in lines if line not in shown.splitlines()] == []
