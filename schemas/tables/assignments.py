"""`assignments`: one ownership interval: a member owns a partition from one record of the group to another.

It spans the generations in which the owner stays the same. A custom assignor may give a partition to several members:
the interval then names them all, the first by id as `member_id`.
"""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, INCARNATION, IS_CARRIED_OVER, IS_OPEN, Table, column


def ownership_intervals(name: StructField, number: StructField) -> StructType:
    """`name` and `number` say what is owned."""
    return StructType(
        [
            CLUSTER,
            GROUP_ID,
            INCARNATION,
            name,
            number,
            column("from_offset", LongType(), "Offset of the record that began the interval."),
            column("to_offset", LongType(), "Offset of the record (or hole) that ended it; null while open."),
            column("member_id", StringType(), "The owner."),
            column(
                "other_member_ids",
                ArrayType(StringType()),
                "Further owners, where the assignor gave it to several; else empty.",
            ),
            column("group_instance_id", StringType(), "The owner's instance id; null for a dynamic member."),
            column("client_id", StringType(), "The owner's client id."),
            column("from_generation", IntegerType(), "The generation that began it."),
            column("to_generation", IntegerType(), "The last generation of the interval; null while open."),
            column("valid_from", TimestampType(), "Time of the record that began it."),
            column("valid_to", TimestampType(), "Time of the record that ended it; null while open."),
            column(
                "is_start_known",
                BooleanType(),
                "Nobody owned it, or another one did, until exactly then; else it may have begun earlier.",
            ),
            column(
                "is_end_known",
                BooleanType(),
                "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
            ),
            IS_CARRIED_OVER,
            IS_OPEN,
        ]
    )


ASSIGNMENTS = Table(
    name="assignments",
    comment="One row for each interval in which a partition had the same owner.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "topic", "partition", "from_offset"),
    statistics_columns=(
        "cluster",
        "group_id",
        "incarnation",
        "topic",
        "partition",
        "from_offset",
        "valid_from",
        "valid_to",
    ),
    partition_columns=("is_open",),
    end_column="valid_to",
    schema=ownership_intervals(
        column("topic", StringType(), "Topic."), column("partition", IntegerType(), "Partition of the topic.")
    ),
)
