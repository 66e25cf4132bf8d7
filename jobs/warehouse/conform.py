"""Checks before a write that the rows of a transform have the names and types that their table declares.

Spark knows both when it plans, so the check reads no row. Without the check a wrong name would show as a column of
nulls, and a wrong type as an error of the writer that does not name the column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from groupledger.schemas.tables.table import Table


class SchemaMismatchError(TypeError):
    """The rows of a transform do not have the columns of their table."""


def conform(rows: DataFrame, table: Table) -> DataFrame:
    """Returns the rows with their columns in the order of the table.

    Raises SchemaMismatchError, which names every difference: a column that is missing or not declared, another type,
    and a null where the table allows none.
    """
    found = list(differences(rows.schema, table.schema))
    if found:
        raise SchemaMismatchError(f"the rows are not those of the table {table.name}: {'; '.join(found)}")
    return rows.select(*table.schema.names)


def differences(actual: StructType, declared: StructType) -> Iterator[str]:
    """Yields a text for each difference between the two schemas. Comments, the order of columns, and columns that may
    be null in `declared` alone are no differences."""
    yield from (f"{name} is not declared" for name in actual.names if name not in declared.names)
    for field in declared:
        if field.name not in actual.names:
            yield f"{field.name} is missing"
            continue
        given = actual[field.name]
        if given.nullable and not field.nullable:
            yield f"{field.name} may be null"
        types = [each.dataType.simpleString() for each in (given, field)]
        if types[0] != types[1]:
            yield f"{field.name} is {types[0]}, not {types[1]}"
