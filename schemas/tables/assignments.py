"""`assignments`: one ownership interval: a member owns a partition from one record of the group to another.

It spans the generations in which the owner stays the same. A custom assignor may give a partition to several members:
the interval then names them all, the first by id as `member_id`.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    IS_CARRIED_OVER,
    IS_OPEN,
    OF_INCARNATION,
    TOPIC_PARTITION,
    Table,
    column,
    struct,
)


def ownership_table(
    name: str, comment: str, owned: tuple[T.StructField, T.StructField], *further: T.StructField
) -> Table:
    """Returns a table of ownership intervals. `owned` are the columns that name the owned unit, and `further` ones come
    after those that all such tables have."""
    key = ("cluster", "group_id", "incarnation", *(field.name for field in owned), "from_offset")
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
            *owned,
            column("from_offset", T.LongType(), "Offset of the record that began the interval."),
            column("to_offset", T.LongType(), "Offset of the record (or hole) that ended it; null while open."),
            column("member_id", T.StringType(), "The owner."),
            column(
                "other_member_ids",
                T.ArrayType(T.StringType()),
                "Further owners, where the assignor gave it to several; else empty.",
            ),
            column("group_instance_id", T.StringType(), "The owner's instance id; null for a dynamic member."),
            column("client_id", T.StringType(), "The owner's client id."),
            column("from_generation", T.IntegerType(), "The generation that began it."),
            column("to_generation", T.IntegerType(), "The last generation of the interval; null while open."),
            column("valid_from", T.TimestampType(), "Time of the record that began it."),
            column("valid_to", T.TimestampType(), "Time of the record that ended it; null while open."),
            column(
                "is_start_known",
                T.BooleanType(),
                "Nobody owned it, or another one did, until exactly then; else it may have begun earlier.",
            ),
            column(
                "is_end_known",
                T.BooleanType(),
                "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
            ),
            *further,
            IS_CARRIED_OVER,
            IS_OPEN,
        ),
    )


ASSIGNMENTS = ownership_table(
    "assignments", "One row for each interval in which a partition had the same owner.", TOPIC_PARTITION
)
