"""Goal: each command of the page for people on call gives the answer that is printed below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupledger.jobs.demo.shipped import unpack
from tools.on_call import END, PAGE, QUESTIONS, answer, in_utc, page

if TYPE_CHECKING:
    from pathlib import Path


def test_the_answers_are_those_of_the_page() -> None:
    """The answers are those of the page. After a change of a command's answers, run `python -m tools.on_call`."""
    assert len(QUESTIONS) == 14
    assert PAGE.read_text() == page()


def test_the_undo_that_the_page_names(tmp_path: Path) -> None:
    """Goal: the command that prints a file of offsets prints one."""
    (command,) = re.findall(r"`(audit \S+ --undo \S+)`", PAGE.read_text())
    unpack(tmp_path, END)
    with in_utc():
        lines = answer(command, str(tmp_path))
    assert len(lines) == 4
    assert all(re.fullmatch(r"orders\.seo-crawler,\d,\d+", line) for line in lines)
