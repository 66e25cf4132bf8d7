"""Compares the tables of the history with a fold of the records that they come from.

If two passes write a history without knowing of each other, it contradicts its own records; this comparison finds that.
All columns that the fold fills are compared, except the open states, because equal states may have different texts.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.table import IS_CARRIED_OVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.schemas.tables.table import Table

NOT_COMPARED = {OPEN_GROUPS: ("state", "coverage_offset")}


def differences(pairs: Mapping[Table, tuple[DataFrame, DataFrame]]) -> DataFrame:
    """Returns one row for each table and group whose rows differ: `table_name`, `group_id`, and how many rows are
    `missing` or `too_many` in the table. `pairs` has, by table, the expected rows and the rows found."""
    sides = [
        _compared_text(rows, table).withColumn("number", F.lit(number))
        for table, (expected, found) in pairs.items()
        for rows, number in ((expected, 1), (found, -1))
    ]
    of_group = ("table_name", "group_id")
    surplus = reduce(DataFrame.union, sides).groupBy(*of_group, "row").agg(F.sum("number").alias("number"))
    return (
        surplus.groupBy(*of_group)
        .agg(
            F.sum(F.greatest("number", F.lit(0))).alias("missing"),
            F.sum(F.greatest(-F.col("number"), F.lit(0))).alias("too_many"),
        )
        .where("missing + too_many > 0")
    )


def _compared_text(rows: DataFrame, table: Table) -> DataFrame:
    """Returns the columns of each row that are compared, as one text."""
    left_out = (IS_CARRIED_OVER.name, *NOT_COMPARED.get(table, ()))
    compared = [name for name in table.schema.names if name not in left_out]
    return rows.select(F.lit(table.name).alias("table_name"), "group_id", F.to_json(F.struct(*compared)).alias("row"))
