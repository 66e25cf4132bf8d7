"""`groups`: one row with the present state of each group of any type.

These are the columns that the log of the group alone decides; lag totals and sampled states are joined when read.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    CLUSTER,
    GROUP_ID,
    INCARNATION,
    KAFKA_PARTITION,
    OF_STATE,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import GroupType, one_of, words_of

GROUPS = Table(
    name="groups",
    comment="One row for each group: what its log says about it now.",
    written_by="history",
    key=("cluster", "group_id"),
    statistics_columns=("cluster", "group_id", "last_seen_at"),
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        GROUP_ID,
        KAFKA_PARTITION,
        column("group_type", T.StringType(), f"{one_of(words_of(GroupType))}; consumer is that of KIP-848."),
        column(
            "is_alive",
            T.BooleanType(),
            "Since its last incarnation began, neither its tombstone nor, of a simple group, the removal of its last"
            " offset has been seen. Null if it may have ended without a trace since it was last seen: in a hole of"
            " coverage, or before a stretch that lost the state.",
        ),
        column(
            "is_simple",
            T.BooleanType(),
            "It has commits only: a simple consumer, or a group that an administrator made by a reset. Null where"
            " is_alive is.",
        ),
        INCARNATION,
        column(
            "generation",
            T.IntegerType(),
            "The generation in force; null for another type, after a hole and without members ever.",
        ),
        column("revision", T.IntegerType(), "Its revision."),
        column("group_epoch", T.IntegerType(), "The last epoch seen of another type than classic."),
        column("protocol_type", T.StringType(), "As in generations."),
        column("protocol", T.StringType(), "As in generations."),
        column("leader", T.StringType(), "As in generations."),
        column("member_count", T.IntegerType(), "Members of the current generation; null without one."),
        column(
            "owned_count",
            T.IntegerType(),
            "Partitions, or connectors and tasks, that have an owner now; null where no assignment can be read.",
        ),
        column(
            "committed_partition_count",
            T.IntegerType(),
            "Partitions with a committed offset, without those of before a hole; null where is_alive is.",
        ),
        column("first_seen_at", T.TimestampType(), "Earliest time of a record or commit that was read."),
        column("last_seen_at", T.TimestampType(), "Latest one."),
        column("last_commit_at", T.TimestampType(), "Latest time of an offset commit."),
        column(
            "last_memberless_commit_at",
            T.TimestampType(),
            "Latest time of a commit without members: a reset, or a simple consumer.",
        ),
        column("first_kafka_offset", T.LongType(), "Offset of its oldest record that was read."),
        column("last_kafka_offset", T.LongType(), "Offset of its newest record: the row is about the time after it."),
    ),
)
