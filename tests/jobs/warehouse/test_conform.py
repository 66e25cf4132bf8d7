"""Goal: rows that are not those of their table are refused when Spark plans, with every difference named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from groupledger.jobs.warehouse.conform import SchemaMismatchError, conform, differences
from groupledger.schemas.tables.assignments import ASSIGNMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def struct(*fields: tuple[str, T.DataType, bool]) -> T.StructType:
    return T.StructType([T.StructField(*field) for field in fields])


PLACE = struct(("topic", T.StringType(), True), ("partition", T.IntegerType(), True))
OTHER_PLACE = struct(("topic", T.StringType(), True), ("partition", T.LongType(), True))
GROUP_ID = T.StructField("group_id", T.StringType(), nullable=False)
PLACES = T.StructField("places", T.ArrayType(PLACE))
DECLARED = T.StructType([GROUP_ID, PLACES])


@pytest.mark.parametrize(
    ("actual", "found"),
    [
        ([GROUP_ID, PLACES], []),
        ([PLACES, GROUP_ID], []),
        ([PLACES], ["group_id is missing"]),
        ([GROUP_ID, PLACES, T.StructField("x", T.LongType())], ["x is not declared"]),
        ([T.StructField("group_id", T.StringType()), PLACES], ["group_id may be null"]),
        (
            [T.StructField("group_id", T.LongType()), T.StructField("places", T.ArrayType(OTHER_PLACE))],
            [
                "group_id may be null",
                "group_id is bigint, not string",
                "places is array<struct<topic:string,partition:bigint>>, not array<struct<topic:string,partition:int>>",
            ],
        ),
    ],
)
def test_differences(actual: list[T.StructField], found: list[str]) -> None:
    """Goal: names, types at every depth and nulls are compared, and the order of columns is not."""
    assert list(differences(T.StructType(actual), DECLARED)) == found


@pytest.mark.spark
def test_conform(spark: SparkSession) -> None:
    """Goal: rows of a table pass, in its order; one column less, or of another type, is refused without a job."""
    rows = spark.createDataFrame([], T.StructType([*reversed(ASSIGNMENTS.schema.fields)]))
    assert conform(rows, ASSIGNMENTS).schema.names == ASSIGNMENTS.schema.names
    with pytest.raises(SchemaMismatchError, match="member_id is missing"):
        conform(rows.drop("member_id"), ASSIGNMENTS)
    with pytest.raises(SchemaMismatchError, match="partition is bigint, not int"):
        conform(rows.withColumn("partition", F.col("partition").cast("long")), ASSIGNMENTS)
