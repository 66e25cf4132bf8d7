"""Brings tables of an older version of groupledger to today's columns, comments and properties.

A table can get new columns and new fields of structs (also of structs in arrays and in the values of maps), which are
null in old rows, and other comments and properties. A change that alters or drops a column is an error: Delta would
have to write all rows again, and other readers do not understand the features of Delta that avoid this (type widening,
column mapping). If a table is changed while a writer of another cluster commits, Delta reports to that writer that the
metadata has changed, and it can be started again.

`plan` compares a table's metadata in Delta's log with its file in `schemas/tables`; `Commits.alter` does the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, MapType, StructType

from groupledger.jobs.warehouse.readable import MAPPING, NO_MAPPING

if TYPE_CHECKING:
    from deltalake import Metadata
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

    from groupledger.schemas.tables.table import Table

    Path = tuple[str, ...]


# If a property about how long a table keeps its past has one of these values, nobody has set it. A property with
# another value is left to `jobs.warehouse.maintain`.
NOT_CHOSEN = (None, "10", "interval 45 days")


@dataclass
class Changes:
    """The differences between an older schema and today's: the paths of new columns and of new comments, and a sentence
    about each difference that can't be migrated."""

    added: list[Path] = field(default_factory=list)
    comments: list[Path] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def of_fields(self, old: StructType, new: StructType, path: Path = ()) -> None:
        """Adds the changes from one struct to another; `path` leads to the struct."""
        for each in new:
            place = (*path, each.name)
            if each.name in old.names:
                self._of_comment(place, old[each.name], each)
                self._of_type(old[each.name].dataType, each.dataType, place)
            else:
                self.added.append(place)
        for name in old.names:
            if name not in new.names:
                self.refused.append(f"it has a column {shown((*path, name))}, which is not known here")

    def _of_comment(self, path: Path, old: StructField, new: StructField) -> None:
        comment = new.metadata.get("comment")
        if comment is not None and comment != old.metadata.get("comment"):
            self.comments.append(path)

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
    """The migration of a table to today's definition: whether its schema and its comment change, which properties
    change, and in `refused` a sentence for each reason why it can't be migrated. If `is_repartitioned`, the whole table
    is written again with today's schema."""

    is_new_schema: bool
    properties: dict[str, str]
    is_new_comment: bool
    refused: list[str]
    is_repartitioned: bool

    @property
    def is_needed(self) -> bool:
        return bool(
            self.is_new_schema or self.properties or self.is_new_comment or self.refused or self.is_repartitioned
        )


def plan(schema: str, metadata: Metadata, table: Table) -> Plan:
    """Returns the plan for a table. `schema` is the table's present schema in Delta's JSON, `metadata` its present
    metadata."""
    changes = Changes()
    changes.of_fields(StructType.fromJson(json.loads(schema)), table.schema)
    before = {MAPPING: NO_MAPPING, **metadata.configuration}
    if before[MAPPING] != NO_MAPPING:
        changes.refused.append(f"its columns have other names in its files ({MAPPING})")
    return Plan(
        is_new_schema=bool(changes.added or changes.comments),
        properties={
            key: value
            for key, value in table.properties.items()
            if before.get(key) != value
            and not (key in table.retention.properties and before.get(key) not in NOT_CHOSEN)
        },
        is_new_comment=metadata.description != table.comment,
        refused=changes.refused,
        is_repartitioned=tuple(metadata.partition_columns) != table.partition_columns,
    )


def with_all_columns(rows: DataFrame, table: Table) -> DataFrame:
    """Returns the rows with today's columns; columns and fields that an older table lacks are null."""
    changes = Changes()
    changes.of_fields(rows.schema, table.schema)
    return rows.to(table.schema) if changes.added else rows


def shown(path: Path) -> str:
    return ".".join(f"`{name}`" for name in path)
