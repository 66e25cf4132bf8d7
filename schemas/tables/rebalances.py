"""`rebalances`: one row for each increment of a classic group's generation that has a record.

`changes` are what differs between the two records; the trigger from the server log is joined when read, and here is the
inferred one only. Where `is_hole` (increments without a record, or something that may lie unseen in between) the row
has its numbers and claims nothing else: its changes, movement, pauses and trigger are null.
"""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, INCARNATION, IS_CARRIED_OVER, Table, column
from groupledger.schemas.words import HoleCause, PauseScope, ProtocolKind, one_of, words_of

CHANGE = StructType(
    [
        column("kind", StringType(), f"What changed: {one_of([kind.name for kind in CHANGE_KINDS])}."),
        column("member_id", StringType(), "The member; for leader_changed the new leader."),
        column("previous_member_id", StringType(), "The member in whose place it is."),
        column("group_instance_id", StringType(), "The member's instance id."),
        column("client_id", StringType(), "The member's client id."),
        column("topic", StringType(), "The topic of partitions_added and topic_deleted."),
        column("partitions", ArrayType(IntegerType()), "The new partitions."),
        column("topics_added", ArrayType(StringType()), "Topics that a subscription gained."),
        column("topics_removed", ArrayType(StringType()), "Topics that a subscription lost."),
        column("protocol", StringType(), "The protocol afterwards."),
        column("previous_protocol", StringType(), "The protocol before."),
    ]
)

PARTITION_PAUSE = StructType(
    [
        column("topic", StringType(), "Topic."),
        column("partition", IntegerType(), "Partition of the topic."),
        column("last_commit_at", TimestampType(), "The last commit before the rebalance's record."),
        column("first_commit_at", TimestampType(), "The first one after it; null if there was none in the generation."),
        column("pause_upper_ms", LongType(), "From the one to the other; null if there is no other."),
        column("committed_offset_before", LongType(), "What the last commit before committed."),
        column(
            "committed_offset_after", LongType(), "What the first one after committed; less: it was processed again."
        ),
    ]
)

INFERRED_TRIGGERS = [each.name for each in TRIGGERS if not each.is_only_logged]

REBALANCES = Table(
    name="rebalances",
    comment="One row for each rebalance of a classic group: what changed, what it cost, and what probably started it.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "to_generation"),
    statistics_columns=("cluster", "group_id", "incarnation", "to_generation", "happened_at"),
    fixed_time_column="happened_at",
    schema=StructType(
        [
            CLUSTER,
            GROUP_ID,
            INCARNATION,
            column("to_generation", IntegerType(), "The generation that the rebalance led to."),
            column("from_generation", IntegerType(), "The generation of the record before; 0 is a group's birth."),
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the group."),
            column("kafka_offset", LongType(), "Offset of the record."),
            column("happened_at", TimestampType(), "Time of the record: the rebalance was complete."),
            column("is_hole", BooleanType(), "The transition is not all known."),
            column(
                "hole_cause",
                StringType(),
                f"{HoleCause.NOT_SYNCED}: increments whose leader never synced; {HoleCause.NOT_COVERED}: something may"
                " lie unseen; else null.",
            ),
            column("generation_gap", IntegerType(), "Increments in between that have no record."),
            column(
                "protocol_kind",
                StringType(),
                f"{one_of(words_of(ProtocolKind))}: whether members that stayed brought along what they owned.",
            ),
            column("changes", ArrayType(CHANGE), "What differs between the two records; null for a hole."),
            column(
                "caused_by_generation",
                IntegerType(),
                "For a cooperative follow-up: to_generation of the rebalance that made it necessary.",
            ),
            column(
                "inferred_trigger",
                StringType(),
                f"What probably started it: {one_of(INFERRED_TRIGGERS)}; null for a hole.",
            ),
            column("inferred_trigger_confidence", DoubleType(), "Between 0 and 1; it orders the guesses."),
            column("inferred_trigger_explanation", StringType(), "What the guess rests on."),
            column("member_count", IntegerType(), "Members afterwards."),
            column(
                "members_idle",
                IntegerType(),
                "Members that own nothing afterwards; null if an assignment can't be read.",
            ),
            column(
                "sync_wait_ms",
                LongType(),
                "From the end of the join phase to the leader's assignment (records from version 2).",
            ),
            column(
                "partitions_kept", IntegerType(), "Partitions (or connectors and tasks) that stayed where they were."
            ),
            column(
                "partitions_moved",
                IntegerType(),
                "Owned by one before, or up to the round before, and by another one now.",
            ),
            column("partitions_gained", IntegerType(), "Owned now, and by nobody before."),
            column("partitions_lost", IntegerType(), "Owned before, and by nobody now."),
            column("stickiness", DoubleType(), "partitions_kept by those owned before; null if there were none."),
            column(
                "pause_scope",
                StringType(),
                f"Who stood still: {PauseScope.GROUP} (eager) or {PauseScope.PARTITIONS} (cooperative: those moved);"
                " null if unknown.",
            ),
            column("pause_lower_ms", LongType(), "They stood still at least so long."),
            column(
                "pause_upper_ms",
                LongType(),
                "The whole group stood still at most so long; null unless it did, and has commits around it.",
            ),
            column(
                "partition_pauses",
                ArrayType(PARTITION_PAUSE),
                "One for each partition that stood still and had been committed.",
            ),
            IS_CARRIED_OVER,
        ]
    ),
)
