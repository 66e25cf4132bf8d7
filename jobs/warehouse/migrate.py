"""Brings tables of an older version of groupledger to today's columns, comments and properties.

A table can get new columns and new fields of structs (also of structs in arrays and in the values of maps), which are
null in old rows, and other comments and properties. A change that alters or drops a column is an error: Delta would
have to write all rows again, and other readers do not understand the features of Delta that avoid this (type widening,
column mapping). If a table is changed while a writer of another cluster commits, Delta tells that writer that the
metadata has changed, and it can be started again.

`plan` compares a table's metadata in Delta's log with its file in `schemas/tables`, and gives the SQL that brings the
table there. All names and comments in the SQL come from `schemas/tables`, and the path is quoted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import Metadata
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

    from groupledger.schemas.tables.table import Table

    Path = tuple[str, ...]


@dataclass
class Changes:
    """The differences between an older schema and today's: new columns by path, with the SQL of their position; new
    comments by path; and sentences about differences that can't be mended."""

    added: list[tuple[Path, StructField, str]] = field(default_factory=list)
    comments: list[tuple[Path, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def of_fields(self, old: StructType, new: StructType, path: Path = ()) -> None:
        """Adds the changes from one struct to another."""
        position = "FIRST"
        for each in new:
            place = (*path, each.name)
            if each.name in old.names:
                self._of_comment(place, old[each.name], each)
                self._of_type(old[each.name].dataType, each.dataType, place)
            else:
                self.added.append((place, each, position))
                self.comments.extend(comments(each.dataType, place))
            position = f"AFTER {quoted(each.name)}"
        for name in old.names:
            if name not in new.names:
                self.refused.append(f"it has a column {shown((*path, name))}, which is not known here")

    def _of_comment(self, path: Path, old: StructField, new: StructField) -> None:
        comment = new.metadata.get("comment")
        if comment is not None and comment != old.metadata.get("comment"):
            self.comments.append((path, comment))

    def _of_type(self, old: DataType, new: DataType, path: Path) -> None:
        if isinstance(old, StructType) and isinstance(new, StructType):
            self.of_fields(old, new, path)
        elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
            self._of_type(old.elementType, new.elementType, (*path, "element"))
        elif isinstance(old, MapType) and isinstance(new, MapType) and old.keyType == new.keyType:
            self._of_type(old.valueType, new.valueType, (*path, "value"))
        elif old != new:
            self.refused.append(f"its column {shown(path)} is {old.simpleString()}, not {new.simpleString()}")


@dataclass(frozen=True)
class Plan:
    """The SQL that brings a table to today's definition, and sentences about why it can't be brought there. A table
    that is repartitioned is written again, which also brings it most of the rest."""

    statements: list[str]
    refused: list[str]
    is_repartitioned: bool

    @property
    def is_needed(self) -> bool:
        return bool(self.statements or self.refused or self.is_repartitioned)


def plan(schema: str, metadata: Metadata, table: Table, path: str) -> Plan:
    """Returns the plan for a table, from its schema in Delta's JSON and the rest of its metadata."""
    changes = Changes()
    changes.of_fields(StructType.fromJson(json.loads(schema)), table.schema)
    name = f"delta.{quoted(path)}"
    statements = [
        f"ALTER TABLE {name} ADD COLUMNS ({shown(place)} {each.dataType.simpleString()}{comment_of(each)} {position})"
        for place, each, position in changes.added
    ]
    for place, comment in changes.comments:
        statements.append(f"ALTER TABLE {name} ALTER COLUMN {shown(place)} COMMENT {literal(comment)}")
    before = metadata.configuration
    properties = {key: value for key, value in table.properties.items() if before.get(key) != value}
    if properties:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        statements.append(f"ALTER TABLE {name} SET TBLPROPERTIES ({pairs})")
    if metadata.description != table.comment:
        statements.append(f"COMMENT ON TABLE {name} IS {literal(table.comment)}")
    is_repartitioned = tuple(metadata.partition_columns) != table.partition_columns
    return Plan(statements, changes.refused, is_repartitioned)


def with_all_columns(rows: DataFrame, table: Table) -> DataFrame:
    """Returns the rows with today's columns: those of an older table have nulls where it lacks columns or fields."""
    changes = Changes()
    changes.of_fields(rows.schema, table.schema)
    return rows.to(table.schema) if changes.added else rows


def comments(data_type: DataType, path: Path) -> Iterator[tuple[Path, str]]:
    """Yields the comments of the fields in a type, which its SQL leaves out."""
    if isinstance(data_type, ArrayType):
        yield from comments(data_type.elementType, (*path, "element"))
    elif isinstance(data_type, MapType):
        yield from comments(data_type.valueType, (*path, "value"))
    elif isinstance(data_type, StructType):
        for each in data_type:
            if "comment" in each.metadata:
                yield (*path, each.name), each.metadata["comment"]
            yield from comments(each.dataType, (*path, each.name))


def comment_of(column: StructField) -> str:
    return f" COMMENT {literal(column.metadata['comment'])}" if "comment" in column.metadata else ""


def shown(path: Path) -> str:
    return ".".join(quoted(name) for name in path)


def quoted(name: str) -> str:
    """Returns the name as an identifier of Spark's SQL."""
    return "`{}`".format(name.replace("`", "``"))


def literal(value: str) -> str:
    """Returns the text as a string literal of Spark's SQL."""
    return "'{}'".format(value.replace("\\", "\\\\").replace("'", "\\'"))
