"""Goal: a pattern of the settings chooses whole names, and no name can stall it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.jobs.process.name_patterns import names_matching, why_no_pattern

PATTERNS = (".*", "a|b", "a.*b", "(?i)A+", r"[^-]+-\d{1,3}", "")


def test_a_name_made_to_hold_us_up() -> None:
    """Attack: a group is named so that the monitor's pattern goes back for hours; it is read once."""
    name = "a" * 32_000
    assert names_matching(".*a.*a.*b|(a+)+", [name, f"{name}b", f"{name}c"]) == {name, f"{name}b"}


@given(st.sampled_from(PATTERNS), st.lists(st.text(alphabet="ab1-é\n", max_size=8)))
def test_as_python_says(pattern: str, names: list[str]) -> None:
    """Goal: the same names as Python's fullmatch, in which a dot is any character."""
    assert names_matching(pattern, names) == {name for name in names if re.fullmatch(pattern, name, re.DOTALL)}


@pytest.mark.parametrize("pattern", ["a(", "a)|(b", "(?!test).*", r"(a)\1", "(?<=a)b"])
def test_refused(pattern: str) -> None:
    """Goal: a pattern that can't be matched without going back is refused, and so is a text that is no pattern at
    all."""
    assert why_no_pattern(pattern)
