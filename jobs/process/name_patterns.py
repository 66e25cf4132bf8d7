"""Regular expressions of the settings, which meet names that clients chose: RE2's, which never go back.

With Python's own a group could stall each round of the monitor by its name: `.*a.*b` is quadratic in it. What RE2 lacks
for that, looking ahead or behind and references to groups, is refused where the settings are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.arrow_values import column_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def why_no_pattern(pattern: str) -> str | None:
    """Returns what is wrong with a pattern."""
    try:
        pc.match_substring_regex(column_of([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def names_matching(pattern: str, names: Iterable[str]) -> set[str]:
    """Returns the names that the pattern matches as a whole."""
    told = column_of(sorted(set(names)), pa.string())
    return set(told.filter(pc.match_substring_regex(told, rf"\A(?s:{pattern})\z")).to_pylist())


def first_matching(patterns: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Returns for each name the key of the first pattern that matches it; none where none does."""
    found: dict[str, str] = {}
    for key, pattern in reversed([*patterns.items()]):
        found |= dict.fromkeys(names_matching(pattern, names), key)
    return found
