"""Goal: the page about causes says what the table of causes says; `python -m tools.cause_docs` writes it."""

from __future__ import annotations

from tools.cause_docs import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page()
