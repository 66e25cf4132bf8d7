"""Converts Spark types to Arrow types: instants in UTC, and no comments of columns, in every Spark version.

Spark 4.0 uses UTC by itself. From 4.1 on the zone has to be named, by an option that 4.0 does not know, and comments
are added as metadata of the fields, which would get into files and frames.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type  # noqa: TID251
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(_plain_struct(schema), **UTC)


def arrow_type(data_type: DataType) -> pa.DataType:
    return to_arrow_type(_plain(data_type), **UTC)


def _plain_struct(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _plain(field.dataType), field.nullable) for field in schema])


def _plain(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return _plain_struct(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_plain(data_type.elementType), data_type.containsNull)
    return data_type
