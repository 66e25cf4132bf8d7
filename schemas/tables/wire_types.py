"""Derives Spark types from the wire formats, so that a table's struct can't differ from what the codec decodes.

Integers of 32 bits and fewer become INT, UUIDs their 22-character text, as Kafka prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from groupledger.schemas.wire.model import Array, Field, Primitive, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.schemas.wire.model import WireType

_SCALARS: dict[Primitive, DataType] = {
    Primitive.INT8: IntegerType(),
    Primitive.INT16: IntegerType(),
    Primitive.UINT16: IntegerType(),
    Primitive.INT32: IntegerType(),
    Primitive.INT64: LongType(),
    Primitive.UUID: StringType(),
    Primitive.STRING: StringType(),
    Primitive.BYTES: BinaryType(),
}


def spark_type(wire_type: WireType) -> DataType:
    if isinstance(wire_type, Array):
        return ArrayType(spark_type(wire_type.element))
    if isinstance(wire_type, Struct):
        return spark_struct(wire_type.fields)
    return _SCALARS[wire_type]


def spark_struct(fields: Iterable[Field]) -> StructType:
    return StructType([StructField(field.column, spark_type(field.type)) for field in fields])
