"""The check at the end of a transform: its rows have the names and types that the table declares.

Spark knows both when it plans, so the check reads no row. Without it a name that is wrong comes to light as a column of
nulls, and a type that is wrong as an error of the writer, which does not name the transform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from groupledger.schemas.tables.table import Table


class SchemaMismatchError(TypeError):
    """The rows that a transform gives are not rows of its table."""


def conform(rows: DataFrame, table: Table) -> DataFrame:
    """Returns the rows with their columns in the order of the table.

    Raises SchemaMismatchError, which names every difference: a column that is missing or not declared, another type,
    and a null where the table allows none.
    """
    found = list(differences(rows.schema, table.schema))
    if found:
        raise SchemaMismatchError(f"the rows are not those of the table {table.name}: {'; '.join(found)}")
    return rows.select(*table.schema.names)


def differences(actual: T.DataType, declared: T.DataType, place: str = "") -> Iterator[str]:
    """Yields what differs, by place. Comments and the order of columns are no difference."""
    if isinstance(actual, T.StructType) and isinstance(declared, T.StructType):
        here = {field.name: field for field in actual}
        there = {field.name: field for field in declared}
        for name in [*there, *(name for name in here if name not in there)]:
            field_place = f"{place}.{name}" if place else name
            if name not in here:
                yield f"{field_place} is missing"
            elif name not in there:
                yield f"{field_place} is not declared"
            else:
                if here[name].nullable and not there[name].nullable:
                    yield f"{field_place} may be null"
                yield from differences(here[name].dataType, there[name].dataType, field_place)
    elif isinstance(actual, T.ArrayType) and isinstance(declared, T.ArrayType):
        yield from differences(actual.elementType, declared.elementType, f"{place}[]")
    elif isinstance(actual, T.MapType) and isinstance(declared, T.MapType):
        yield from differences(actual.keyType, declared.keyType, f"{place}.key")
        yield from differences(actual.valueType, declared.valueType, f"{place}.value")
    elif actual != declared:
        yield f"{place} is {actual.simpleString()}, not {declared.simpleString()}"
