"""Compares the tables of the history with a fold of the records that they come from.

A history whose tables were written by two passes that did not know of each other contradicts its own records. What is
compared is everything that the fold gives, but for the states, whose text may differ where they mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.table import IS_CARRIED_OVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.schemas.tables.table import Table

NOT_COMPARED = {OPEN_GROUPS: ("state", "coverage_offset")}


def differences(expected: DataFrame, found: DataFrame, table: Table) -> DataFrame:
    """Returns a row for each group whose rows differ: `table_name`, `group_id`, and how many rows are `missing` in what
    was found or `too_many`."""
    left_out = (IS_CARRIED_OVER.name, *NOT_COMPARED.get(table, ()))
    compared = [name for name in table.schema.names if name not in left_out]
    row = F.to_json(F.struct(*compared)).alias("row")
    sides = expected.select("group_id", row, F.lit(1).alias("number")).union(
        found.select("group_id", row, F.lit(-1).alias("number"))
    )
    surplus = sides.groupBy("group_id", "row").agg(F.sum("number").alias("number")).where("number != 0")
    counts = surplus.groupBy("group_id").agg(
        F.sum(F.greatest("number", F.lit(0))).alias("missing"),
        F.sum(F.greatest(-F.col("number"), F.lit(0))).alias("too_many"),
    )
    return counts.select(F.lit(table.name).alias("table_name"), "group_id", "missing", "too_many")
