"""Goal: a rule sees each group once, whole and in order, however Arrow cuts the rows; its own rows fit the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from groupledger.schemas.arrow import arrow_schema
from groupledger.transforms.by_group import ROWS_MAX, RowShapeError, batch_of, batches_of, by_group, map_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SUMMED = T.StructType([T.StructField("group_id", T.StringType()), T.StructField("offsets", T.ArrayType(T.LongType()))])
NUMBERED = T.StructType([T.StructField("offset", T.LongType())])
BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


def in_one_row(group: tuple[str, str], rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"group_id": "/".join(group), "offsets": [row["offset"] for row in rows]}]


@pytest.mark.spark
def test_a_group_larger_than_an_arrow_batch(spark: SparkSession) -> None:
    """Goal: groups that several Arrow batches hold come to the rule as one, sorted, with all columns of their key."""
    before = spark.conf.get(BATCH_SETTING)
    assert before is not None
    spark.conf.set(BATCH_SETTING, "7")
    try:
        offset = F.col("id").alias("offset")
        key = (F.lit("c").alias("cluster"), (F.col("id") % 3).cast("string").alias("group_id"))
        rows = spark.range(99, -1, -1).select(*key, offset)
        found = by_group(rows, ["cluster", "group_id"], ["offset"], in_one_row, SUMMED).collect()
    finally:
        spark.conf.set(BATCH_SETTING, before)
    expected = {f"c/{group}": list(range(group, 100, 3)) for group in range(3)}
    assert {row.group_id: row.offsets for row in found} == expected
    assert len(found) == len(expected)


@pytest.mark.spark
def test_no_rows(spark: SparkSession) -> None:
    """Goal: nothing in, nothing out, with the columns of the schema."""
    found = map_rows(spark.range(0), lambda rows: ({"offset": row["id"]} for row in rows), NUMBERED)
    assert found.schema == NUMBERED
    assert found.collect() == []


def test_batches_out_are_bounded() -> None:
    """Goal: a rule that yields many rows leaves its task in batches of at most `ROWS_MAX`, none of them made early."""
    taken = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for taken in range(1, 2 * ROWS_MAX + 2):  # counted from outside
            yield {"offset": taken}

    batches = batches_of(rows(), arrow_schema(NUMBERED))
    assert next(batches).num_rows == taken == ROWS_MAX
    assert [batch.num_rows for batch in batches] == [ROWS_MAX, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "missing offset; unknown none"),
        ({"offset": 1, "offest": 2}, "missing none; unknown offest"),
        ({"offest": 2}, "missing offset; unknown offest"),
    ],
)
def test_a_row_with_other_names_is_refused(row: dict[str, Any], message: str) -> None:
    """Goal: a column that the rule does not fill, or fills under another name, is an error and not a null."""
    with pytest.raises(RowShapeError, match=message):
        batch_of([{"offset": 0}, row], arrow_schema(NUMBERED))
