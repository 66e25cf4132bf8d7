"""Returns this release's definition of each table without importing Spark, whose types `schemas/tables` uses.

The definitions come from `schemas/tables.json`, in the form of Delta's log, and the comments of columns from
`schemas/comments.json`. `python -m tools.table_docs` writes both files from `schemas/tables`, and a test compares them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

import pyarrow as pa
from deltalake import Schema


def table_names() -> frozenset[str]:
    return frozenset(_definitions())


def written_by(table: str) -> str:
    """Returns the command that creates a table."""
    command: str = _definitions()[table]["written_by"]
    return command


def key_of(table: str) -> tuple[str, ...]:
    return tuple(_definitions()[table]["key"])


def end_column_of(table: str) -> str | None:
    """Returns the column that is null while a row is open; None if the table has no such column."""
    column: str | None = _definitions()[table]["end_column"]
    return column


def date_column_of(table: str) -> str | None:
    """Returns the date column that the table is partitioned by; None if it is not partitioned by date."""
    column: str | None = _definitions()[table]["date_column"]
    return column


@cache
def schema_of(table: str) -> pa.Schema:
    columns = json.dumps({"type": "struct", "fields": _definitions()[table]["columns"]})
    return pa.schema(Schema.from_json(columns).to_arrow())


def comments_of(table: str) -> dict[str, str]:
    """Returns the comment of each column, and of each field of a struct as `column.field`."""
    found: dict[str, str] = _read("comments.json")[table]
    return found


def _definitions() -> dict[str, dict[str, Any]]:
    return _read("tables.json")


@cache
def _read(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(resources.files("groupledger.schemas").joinpath(name).read_text())
    return found
