"""Goal: each command of the page for whoever is on call gives the answer that stands below it."""

from __future__ import annotations

from tools.on_call import PAGE, QUESTIONS, page


def test_the_answers_are_those_of_the_page() -> None:
    """After a change of what a command says, run `python -m tools.on_call`."""
    assert len(QUESTIONS) == 13
    assert PAGE.read_text() == page()
