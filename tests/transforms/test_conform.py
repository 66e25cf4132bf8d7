"""Goal: rows that are not those of their table are refused when Spark plans, with every difference named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.transforms.conform import SchemaMismatchError, conform, differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def struct(*fields: tuple[str, T.DataType, bool]) -> T.StructType:
    return T.StructType([T.StructField(*field) for field in fields])


PLACE = struct(("topic", T.StringType(), True), ("partition", T.IntegerType(), False))
OTHER_PLACE = struct(("topic", T.StringType(), True), ("partition", T.LongType(), True))
DECLARED = struct(("group_id", T.StringType(), False), ("places", T.ArrayType(PLACE), True))


@pytest.mark.parametrize(
    ("actual", "found"),
    [
        (DECLARED, []),
        (T.StructType([*reversed(DECLARED.fields)]), []),
        (struct(("places", T.ArrayType(PLACE), True)), ["group_id is missing"]),
        (
            struct(*[(f.name, f.dataType, f.nullable) for f in DECLARED], ("x", T.LongType(), True)),
            ["x is not declared"],
        ),
        (
            struct(("group_id", T.StringType(), True), ("places", T.ArrayType(PLACE), True)),
            ["group_id may be null"],
        ),
        (
            struct(
                ("group_id", T.LongType(), False),
                (
                    "places",
                    T.ArrayType(OTHER_PLACE),
                    True,
                ),
            ),
            [
                "group_id is bigint, not string",
                "places[].partition may be null",
                "places[].partition is bigint, not int",
            ],
        ),
    ],
)
def test_differences(actual: T.StructType, found: list[str]) -> None:
    """Goal: names, types and nulls are compared at every depth, and the order of columns is not."""
    assert list(differences(actual, DECLARED)) == found


def test_maps() -> None:
    """Goal: keys and values of maps are compared too."""
    texts, numbers = (T.MapType(T.StringType(), of) for of in (T.StringType(), T.LongType()))
    declared, actual = (struct(("details", of, True)) for of in (texts, numbers))
    assert list(differences(actual, declared)) == ["details.value is bigint, not string"]


@pytest.mark.spark
def test_conform(spark: SparkSession) -> None:
    """Goal: rows of a table pass, in its order; one column less, or of another type, is refused without a job."""
    rows = spark.createDataFrame([], T.StructType([*reversed(ASSIGNMENTS.schema.fields)]))
    assert conform(rows, ASSIGNMENTS).schema.names == ASSIGNMENTS.schema.names
    with pytest.raises(SchemaMismatchError, match="member_id is missing"):
        conform(rows.drop("member_id"), ASSIGNMENTS)
    with pytest.raises(SchemaMismatchError, match="partition is bigint, not int"):
        conform(rows.withColumn("partition", F.col("partition").cast("long")), ASSIGNMENTS)
