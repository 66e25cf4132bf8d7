"""Builds the suite of a table from `conf/quality/TABLE.yaml` and from the table's definition.

From the definition it follows that the key is unique and without nulls, and that open rows lie in a partition of their
own. `rules` are conditions in DuckDB's SQL over the rows of a group, which become columns that must be true; a rule
with `reads` also names other tables, and is left out where they are not there. `expectations` are those of Great
Expectations. A `value_set` is a list, or names the words that a column may have: a class of `schemas.words`, or the
rows of `schemas.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from groupledger.schemas import words
from groupledger.schemas.definitions import end_column_of, key_of, schema_of
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.triggers import TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The names that a value set can have beside those of the classes in `schemas.words`.
KINDS = {
    "INCIDENT_KINDS": [kind.name for kind in INCIDENT_KINDS],
    "TRIGGERS": [trigger.name for trigger in TRIGGERS],
}
OPEN_RULE = {
    "holds": "(is_open = 1) = ({end} IS NULL)",
    "why": "is_open is 1 for the rows that nothing has ended, and 0 for all others.",
}


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations of a table. `rules` are conditions by the name of the column that each becomes, and `reads` the
    other tables that they name; `expectations` have the form of Great Expectations, with a name in `meta`."""

    table: str
    rules: dict[str, str]
    reads: frozenset[str]
    expectations: tuple[dict[str, Any], ...]

    @property
    def columns(self) -> list[str]:
        """The table's columns that an expectation is about."""
        named = {name for each in self.expectations for name in _columns_of(each["kwargs"])}
        return [name for name in schema_of(self.table).names if name in named]


def suite_of(table: str, is_there: Callable[[str], bool]) -> Suite:
    file = resources.files("groupledger.conf") / "quality" / f"{table}.yaml"
    written = yaml.safe_load(file.read_text()) if file.is_file() else {}
    rules = {name: rule for name, rule in written.get("rules", {}).items() if all(map(is_there, rule.get("reads", ())))}
    end = end_column_of(table)
    if end is not None:
        rules["is_open"] = {**OPEN_RULE, "holds": OPEN_RULE["holds"].format(end=end)}
    about_rules = [
        expectation(
            "expect_column_values_to_be_in_set",
            {"column": f"rule_{name}", "value_set": [True]},
            f"{rule['why']} ({rule['holds']})",
            name,
        )
        for name, rule in rules.items()
    ]
    others = written.get("expectations", [])
    by_file = [expectation(each["type"], with_words(each["kwargs"]), each["description"]) for each in others]
    return Suite(
        table,
        {f"rule_{name}": rule["holds"] for name, rule in rules.items()},
        frozenset(name for rule in rules.values() for name in rule.get("reads", ())),
        (*by_definition(table), *about_rules, *by_file),
    )


def with_words(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an expectation, with the name of a value set replaced by its words."""
    name = arguments.get("value_set")
    if not isinstance(name, str):
        return arguments
    found = KINDS[name] if name in KINDS else list(words.words_of(getattr(words, name)))
    return {**arguments, "value_set": found}


def by_definition(table: str) -> Iterator[dict[str, Any]]:
    key = list(key_of(table))
    yield expectation("expect_compound_columns_to_be_unique", {"column_list": key}, "No two rows have the same key.")
    for name in key:
        yield expectation("expect_column_values_to_not_be_null", {"column": name}, "No part of the key is null.")


def expectation(kind: str, arguments: dict[str, Any], description: str, name: str | None = None) -> dict[str, Any]:
    name = name or f"{kind.removeprefix('expect_')}({', '.join(_columns_of(arguments))})"
    return {"type": kind, "kwargs": arguments, "description": description, "meta": {"name": name}}


def _columns_of(arguments: dict[str, Any]) -> list[str]:
    return arguments.get("column_list") or [arguments["column"]]
