"""Defines the common columns of the tables in which each member has intervals of its own, independent of other
members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from groupledger.schemas.tables.table import IS_CARRIED_OVER, IS_OPEN, OF_INCARNATION, Table, column, struct

if TYPE_CHECKING:
    from pyspark.sql.types import StructField


def holdings_table(name: str, comment: str, held: tuple[StructField, ...]) -> Table:
    """Returns a table of a member's intervals. `held` are the columns that name the unit that the member had."""
    key = ("cluster", "group_id", "incarnation", "member_id", *(each.name for each in held), "from_offset")
    return Table(
        name=name,
        comment=comment,
        written_by="history",
        key=key,
        statistics_columns=(*key, "valid_from", "valid_to"),
        partition_columns=("cluster", "is_open"),
        end_column="valid_to",
        schema=struct(
            *OF_INCARNATION,
            column("member_id", T.StringType(), "The member."),
            *held,
            column("from_offset", T.LongType(), "Offset of the record that began the interval."),
            column("to_offset", T.LongType(), "Offset of the record (or hole) that ended it; null while open."),
            column("client_id", T.StringType(), "The member's client id."),
            column("from_generation", T.IntegerType(), "The group epoch in which it began."),
            column("to_generation", T.IntegerType(), "The group epoch in which it ended; null while open."),
            column("valid_from", T.TimestampType(), "Time of the record that began it."),
            column("valid_to", T.TimestampType(), "Time of the record that ended it; null while open."),
            column(
                "is_start_known",
                T.BooleanType(),
                "The member did not have it until exactly then; else it may have begun earlier.",
            ),
            column(
                "is_end_known",
                T.BooleanType(),
                "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
            ),
            IS_CARRIED_OVER,
            IS_OPEN,
        ),
    )
