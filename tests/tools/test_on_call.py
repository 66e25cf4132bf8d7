"""Goal: each command of the page for people on call gives the answer that is printed below it."""

from __future__ import annotations

from tools.on_call import PAGE, QUESTIONS, page


def test_the_answers_are_those_of_the_page() -> None:
    """The answers are those of the page. After a change of a command's answers, run `python -m tools.on_call`."""
    assert len(QUESTIONS) == 14
    assert PAGE.read_text() == page()
