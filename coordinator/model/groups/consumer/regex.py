r"""Validates and resolves a regular expression by which members subscribe.

A broker parses regular expressions with RE2/J, and the whole name of a topic has to match. RE2, which is used here, has
the same syntax: no look-around and no back-references, so that no expression can take for ever. In a test with random
expressions the two differed in three kinds, none of which a subscription needs: RE2 accepts `\C` and a repeated `{`,
and does not accept a backslash before a letter beyond ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2

from groupledger.coordinator.model.errors import RefusedError
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


MEMORY_BYTES_MAX: Final = 64 << 20  # RE2/J has no such limit; the default of RE2 refuses some large repetitions


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """A resolved regular expression, the content of record type 16. `topics` are those that it matches. `version` is
    that of the cluster's topics, as counted by the broker that wrote the record."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> ResolvedRegex:
        return cls(frozenset(value["topics"]), value["version"], value["timestamp_ms"])


def check_regex(regex: str) -> None:
    """Raises RefusedError if a regular expression is invalid."""
    try:
        _compiled(regex)
    except re2.error:
        raise RefusedError(Error.INVALID_REGULAR_EXPRESSION) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Returns the names that a regular expression matches as a whole. An invalid expression, which only a loaded log
    can contain, matches none."""
    try:
        pattern = _compiled(regex)
    except re2.error:
        return frozenset()
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=256)  # every member that joins with one asks again
def _compiled(regex: str) -> Any:
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False  # they are the member's, and returned in the answer
    return re2.compile(regex, options)
