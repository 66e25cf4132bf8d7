"""Writes `docs/tables.md`, `schemas/tables.json` and `schemas/comments.json` from `schemas/tables` and `schemas/kinds`:
`python -m tools.table_docs`.

The page has the comments of the Delta tables, so it always says the same as the tables. The other files have their
columns and the comments of these, for what reads tables without Spark, in whose types they are defined.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, StructType

from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.tables.all_tables import all_tables, date_column
from groupledger.transforms.offsets import offset_commits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import DataType, StructField

    from groupledger.schemas.tables.table import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tables.md"
DEFINITIONS = ROOT / "schemas" / "tables.json"
COMMENTS = ROOT / "schemas" / "comments.json"
HEAD = """\
# The tables

Made from `schemas/tables` and `schemas/kinds` by `python -m tools.table_docs`; a test compares them. The same comments
stand in Delta.
Every table lies at `WAREHOUSE/<name>` and begins with `cluster`. Timestamps are instants, in UTC.
"""
VIEW = """
## offset_commits

A view over `coordinator_records` and the history, since commits are not stored twice: `groupledger sql` has it, and
`schemas/views/offset_commits.sql` is its text for other engines.
"""


def page() -> str:
    """Returns the text of the page."""
    tables = [line for table in all_tables() for line in table_lines(table)]
    view = ["| column |", "|---|", *(f"| `{name}` |" for name in offset_commits.COLUMNS)]
    overview = [
        "| table | |",
        "|---|---|",
        *(f"| [{table.name}](#{table.name}) | {table.comment} |" for table in all_tables()),
    ]
    return "\n".join([HEAD, *overview, "", *tables, VIEW.strip("\n"), "", *view, "", *kind_lines()])


def definitions() -> str:
    """Returns the definitions of all tables, with their columns as in Delta's log, without comments: a line for each,
    so that a change shows as one line."""
    tables = [
        f'"{table.name}": {json.dumps(facts(table))[:-1]}, "columns": [\n'
        + ",\n".join(json.dumps(without_comments(field.jsonValue()), separators=(",", ":")) for field in table.schema)
        + "\n]}"
        for table in all_tables()
    ]
    return "{\n" + ",\n".join(tables) + "\n}\n"


def comments() -> str:
    """Returns the comment of each column of each table, and of each field of a struct as `column.field`."""
    found = {
        table.name: {path: comment for field in table.schema for path, comment in comments_of(field, "") if comment}
        for table in all_tables()
    }
    return json.dumps(found, indent=0) + "\n"


def comments_of(field: StructField, parent: str) -> Iterator[tuple[str, str]]:
    yield f"{parent}{field.name}", field.metadata.get("comment", "")
    for below in struct_of(field.dataType) or ():
        yield from comments_of(below, f"{parent}{field.name}.")


def facts(table: Table) -> dict[str, Any]:
    return {
        "written_by": table.written_by,
        "key": table.key,
        "end_column": table.end_column,
        "date_column": date_column(table),
    }


def without_comments(part: Any) -> Any:
    if isinstance(part, list):
        return [without_comments(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: {} if key == "metadata" else without_comments(value) for key, value in part.items()}


def kind_lines() -> Iterator[str]:
    """Yields a table with the meaning of each kind of incident, change and trigger."""
    for title, rows in (
        ("Kinds of incidents", INCIDENT_KINDS),
        ("Kinds of changes", CHANGE_KINDS),
        ("Triggers of rebalances", TRIGGERS),
    ):
        yield from (f"## {title}", "", "| kind | |", "|---|---|")
        yield from (f"| `{row.name}` | {row.meaning} |" for row in rows)
        yield ""


def table_lines(table: Table) -> Iterator[str]:
    yield f"## {table.name}"
    yield ""
    yield f"{table.comment} Written by `groupledger {table.written_by}`."
    yield ""
    yield f"Key: {names(table.key)}." + (
        f" Partitioned by {names(table.partition_columns)}." if table.partition_columns else ""
    )
    yield ""
    yield "| column | type | |"
    yield "|---|---|---|"
    for field in table.schema:
        yield from field_lines(field, "")
    yield ""


def field_lines(field: StructField, parent: str) -> Iterator[str]:
    """Yields the line of a column, and those of a struct's fields that have comments of their own."""
    inner = struct_of(field.dataType)
    kind = type_name(field.dataType)
    yield f"| `{parent}{field.name}` | {kind} | {field.metadata.get('comment', '').replace('|', chr(92) + '|')} |"
    if inner is not None:
        for below in inner:
            yield from field_lines(below, f"{parent}{field.name}.")


def struct_of(data_type: DataType) -> StructType | None:
    if isinstance(data_type, ArrayType):
        return struct_of(data_type.elementType)
    return data_type if isinstance(data_type, StructType) else None


def type_name(data_type: DataType) -> str:
    if isinstance(data_type, ArrayType):
        return f"array of {type_name(data_type.elementType)}"
    return data_type.typeName() if isinstance(data_type, StructType) else data_type.simpleString()


def names(columns: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    for file, text in {PAGE: page(), DEFINITIONS: definitions(), COMMENTS: comments()}.items():
        file.write_text(text)
        print(f"{file} is written")
