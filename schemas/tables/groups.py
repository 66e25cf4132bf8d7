"""`groups`: one row about now for each group of any type.

These are the columns that the log of the group alone decides; lag totals and sampled states are joined when read.
"""

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructType, TimestampType

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, INCARNATION, Table, column
from groupledger.schemas.words import GroupType, one_of, words_of

GROUPS = Table(
    name="groups",
    comment="One row for each group: what its log says of it now.",
    written_by="history",
    key=("cluster", "group_id"),
    statistics_columns=("cluster", "group_id", "last_seen_at"),
    schema=StructType(
        [
            CLUSTER,
            GROUP_ID,
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the group."),
            column("group_type", StringType(), f"{one_of(words_of(GroupType))}; consumer is that of KIP-848."),
            column("is_alive", BooleanType(), "Its tombstone has not been seen since its last life began."),
            column(
                "is_simple",
                BooleanType(),
                "It has commits only: a simple consumer, or a group that an administrator made by a reset.",
            ),
            INCARNATION,
            column(
                "generation",
                IntegerType(),
                "The generation in force; null for another type, after a hole and without members ever.",
            ),
            column("revision", IntegerType(), "Its revision."),
            column("group_epoch", IntegerType(), "The last epoch seen of another type than classic."),
            column("protocol_type", StringType(), "As in generations."),
            column("protocol", StringType(), "As in generations."),
            column("leader", StringType(), "As in generations."),
            column("member_count", IntegerType(), "Members of the generation in force; null where there is none."),
            column("owned_count", IntegerType(), "Partitions, or connectors and tasks, that have an owner now."),
            column("committed_partition_count", IntegerType(), "Partitions with a committed offset."),
            column("first_seen_at", TimestampType(), "Earliest time of a record or commit that was read."),
            column("last_seen_at", TimestampType(), "Latest one."),
            column("last_commit_at", TimestampType(), "Latest time of an offset commit."),
            column(
                "last_memberless_commit_at",
                TimestampType(),
                "Latest time of a commit without members: a reset, or a simple consumer.",
            ),
            column("first_kafka_offset", LongType(), "Offset of its oldest record that was read."),
            column("last_kafka_offset", LongType(), "Offset of its newest record: the row is about the time after it."),
        ]
    ),
)
