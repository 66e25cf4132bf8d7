"""Finds where a key of `__consumer_offsets` occurs a second time, which proves that no record was removed from that
second record on (`rules.evidence`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


def first_repeated(rows: DataFrame, from_offsets: Mapping[int, int]) -> dict[int, int]:
    """Returns, by partition, the offset of the first record whose key an earlier record in `rows` has, at or above the
    offset that `from_offsets` gives for the partition. A partition without such a record is left out.

    `rows` have the columns of Spark's Kafka source.
    """
    if not from_offsets:
        return {}
    floor = F.create_map(*[F.lit(number) for pair in from_offsets.items() for number in pair])
    keys = rows.where(F.col("partition").isin(*from_offsets) & F.col("key").isNotNull()).select(
        "partition", "offset", "key"
    )
    by_key = Window.partitionBy("partition", "key").orderBy("offset")
    is_again = F.row_number().over(by_key) > 1
    again = keys.withColumn("is_again", is_again).where(
        F.col("is_again") & (F.col("offset") >= floor[F.col("partition")])
    )
    first = again.groupBy("partition").agg(F.min("offset").alias("first"))
    return {row["partition"]: row["first"] for row in first.collect()}
