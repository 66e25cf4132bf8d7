"""Matches names that clients chose with the regular expressions of the settings, by RE2, which never backtracks.

With Python's own engine a group's name could stall each round of the monitor: `.*a.*b` takes quadratic time. Features
that RE2 lacks, lookahead, lookbehind and backreferences, are refused where the settings are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.arrow_values import column_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def why_no_pattern(pattern: str) -> str | None:
    """Returns why a pattern is invalid; None if it is valid."""
    try:
        pc.match_substring_regex(column_of([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def names_matching(pattern: str, names: Iterable[str]) -> set[str]:
    """Returns the names that the pattern matches as a whole."""
    distinct = column_of(sorted(set(names)), pa.string())
    return set(distinct.filter(pc.match_substring_regex(distinct, rf"\A(?s:{pattern})\z")).to_pylist())


def first_matching(patterns: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Returns, by name, the key of the first pattern that matches it; names without a match are left out."""
    found: dict[str, str] = {}
    for key, pattern in reversed([*patterns.items()]):
        found |= dict.fromkeys(names_matching(pattern, names), key)
    return found
