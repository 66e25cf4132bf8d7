"""The queries that groupledger ships: `conf/queries/NAME.sql`, with a head of comments.

    -- What the query returns, in a sentence or two.
    -- :since = 1970-01-01T00:00:00Z   What the parameter means.
    -- :group =                        A parameter without a value has to be given.

Parameters are strings, and the query casts them. Each query is one text that DuckDB and Spark both run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from itertools import takewhile
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

PARAMETER = re.compile(r":(?P<name>\w+) =(?: (?P<value>\S+))? {2,}(?P<meaning>.+)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query. `value` is its default, None if it has to be given."""

    name: str
    value: str | None
    meaning: str


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A shipped query: its description, its parameters, and its text."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    text: str

    def arguments(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns a value for every parameter: the given one, or its default. Raises InputError if a parameter has
        neither, or if the query has no parameter of a given name."""
        known = {parameter.name: parameter.value for parameter in self.parameters}
        strange = [name for name in given if name not in known]
        found = {name: given.get(name, value) for name, value in known.items()}
        missing = [name for name, value in found.items() if value is None]
        if strange or missing:
            problem = f"has no parameter {strange[0]}" if strange else f"needs a value: --param {missing[0]}=..."
            raise InputError(f"The query {self.name} {problem} (see `groupledger sql --list`).")
        return {name: value for name, value in found.items() if value is not None}


def named_queries() -> list[NamedQuery]:
    texts = {
        file.name.removesuffix(".sql"): file.read_text()
        for file in resources.files("groupledger.conf").joinpath("queries").iterdir()
        if file.name.endswith(".sql")
    }
    return [parse(name, texts[name]) for name in sorted(texts)]


def query_named(name: str) -> NamedQuery:
    found = {query.name: query for query in named_queries()}
    if name not in found:
        raise InputError(f"There is no query {name!r}: see `groupledger sql --list`.")
    return found[name]


def parse(name: str, text: str) -> NamedQuery:
    lines = takewhile(lambda line: line.startswith("--"), text.splitlines())
    head = [line.removeprefix("--").strip() for line in lines]
    matches = [PARAMETER.fullmatch(line) for line in head]
    parameters = tuple(Parameter(match["name"], match["value"], match["meaning"]) for match in matches if match)
    summary = " ".join(line for line, match in zip(head, matches, strict=True) if match is None)
    return NamedQuery(name, summary, parameters, text)
