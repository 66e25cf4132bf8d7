"""`connect_assignments`: one ownership interval of a Connect group: a worker runs a task, or a connector itself.

Under incremental protocols (versions 1 and 2) a record holds changes only: what a worker runs is what it brought along
as its allocation, less what the record revokes, with what it assigns.
"""

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType, TimestampType

from schemas.tables.table import IS_OPEN, Table, column

CONNECT_ASSIGNMENTS = Table(
    name="connect_assignments",
    comment="One row for each interval in which a connector or a task ran on the same worker.",
    key=("cluster", "group_id", "incarnation", "connector", "task", "from_offset"),
    statistics_columns=(
        "cluster",
        "group_id",
        "incarnation",
        "connector",
        "task",
        "from_offset",
        "valid_from",
        "valid_to",
    ),
    partition_columns=("is_open",),
    end_column="valid_to",
    schema=StructType(
        [
            column("cluster", StringType(), "The Kafka cluster, as the settings name it."),
            column("group_id", StringType(), "The consumer group."),
            column(
                "incarnation",
                IntegerType(),
                "Which of the group's lives, counted from 1; a life ends with the group's tombstone.",
            ),
            column("connector", StringType(), "Connector."),
            column("task", IntegerType(), "Task of the connector; -1 is the connector itself."),
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
            IS_OPEN,
        ]
    ),
)
