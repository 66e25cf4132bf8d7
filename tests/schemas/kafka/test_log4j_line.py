"""Goal: the end of a log line is found as the pattern says it, from the right."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.kafka.log4j_line import find_tail

# What it must find, and can't be used for: searched from the left, it is quadratic in what a client wrote.
TAIL = re.compile(r" \((?P<logger>[\w.$]+)\)(?: \[[^\]]*\])?\Z")


@given(st.text(alphabet=" ()[]a.$é\n", max_size=60))
def test_as_the_pattern(text: str) -> None:
    """Goal: for any text the same end of the message and the same logger as the pattern, or none."""
    found = TAIL.search(text)
    assert find_tail(text) == (None if found is None else (found.start(), found["logger"]))


@pytest.mark.parametrize("part", [" (a", " (a) [", ") [", " (", " (a) [x", "] ", " (a) [ (a)", "a"])
@pytest.mark.parametrize("end", [")", "]", " (kafka.Logger)", " (kafka.Logger) [thread]", ""])
def test_a_line_made_to_hold_us_up(part: str, end: str) -> None:
    """Goal: a megabyte of text that makes the pattern go back is answered at once, and in the same way as a shorter
    text."""
    shorter, longer = (find_tail(part * count + end) for count in (50, 1_000_000 // len(part)))
    assert (shorter is None) == (longer is None)
    assert shorter is None or longer is None or shorter[1] == longer[1]
