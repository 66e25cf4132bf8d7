"""Finds, for an interval of ownership, the tenure of its owner in which it began. A member id alone does not identify
it, since clients may reuse their ids."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEMBER = ("cluster", "group_id", "incarnation", "member_id")


def with_tenure(assignments: DataFrame, members: DataFrame, **columns: str) -> DataFrame:
    """Returns each interval of ownership with columns of its owner's tenure. `columns` gives columns of `members` by
    the names that they get here. They are null if `members` does not have the tenure any more."""
    began = F.col("interval.from_offset")
    is_within = F.col("tenure.from_offset") <= began
    is_within &= F.col("tenure.to_offset").isNull() | (began < F.col("tenure.to_offset"))
    is_owners = reduce(and_, (F.col(f"interval.{name}") == F.col(f"tenure.{name}") for name in MEMBER))
    joined = assignments.alias("interval").join(members.alias("tenure"), is_owners & is_within, "left")
    return joined.select("interval.*", *[F.col(f"tenure.{column}").alias(name) for name, column in columns.items()])
