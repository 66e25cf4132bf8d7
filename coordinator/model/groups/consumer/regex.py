r"""Validates and resolves a regular expression by which members subscribe.

A broker parses them with RE2/J, and the whole name of a topic has to match. RE2 itself has the same syntax: no
look-around and no back-references, so that no expression can take for ever. Of random expressions the two judged three
kinds differently, none of which a subscription needs: RE2 takes `\C` and a repeated `{`, and does not take a backslash
before a letter beyond ASCII.
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
    """A resolved regular expression, the content of record type 16. `version` is that of the cluster's topics, as the
    broker that wrote it counts."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> ResolvedRegex:
        return cls(frozenset(value["topics"]), value["version"], value["timestamp_ms"])


def check_regex(regex: str) -> None:
    """Raises RefusedError for an invalid regular expression."""
    try:
        _compiled(regex)
    except re2.error:
        raise RefusedError(Error.INVALID_REGULAR_EXPRESSION) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Returns the names that a regular expression matches as a whole; none for an invalid one, which only a loaded log
    may hold."""
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
