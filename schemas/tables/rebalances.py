"""`rebalances`: one row for each increment of a group's generation or KIP-848 epoch that has a record.

`changes` are the differences between the two records. This table has only the inferred trigger; that of the server log
is joined when the table is read. If `is_hole` (there are increments without a record, or records in between may be
missing), the row has its numbers and claims nothing else: its changes, movement, pauses and trigger are null.
"""

from pyspark.sql import types as T

from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.tables.table import (
    IS_CARRIED_OVER,
    KAFKA_PARTITION,
    OF_INCARNATION,
    TOPIC_PARTITION,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import HoleCause, PauseScope, ProtocolKind, one_of, words_of

CHANGE = struct(
    column("kind", T.StringType(), f"What changed: {one_of([kind.name for kind in CHANGE_KINDS])}."),
    column("member_id", T.StringType(), "The member; for leader_changed the new leader."),
    column("previous_member_id", T.StringType(), "The member in whose place it is."),
    column("group_instance_id", T.StringType(), "The member's instance id."),
    column("client_id", T.StringType(), "The member's client id."),
    column("topic", T.StringType(), "The topic of partitions_added and topic_deleted."),
    column("partitions", T.ArrayType(T.IntegerType()), "The new partitions."),
    column("topics_added", T.ArrayType(T.StringType()), "Topics that a subscription gained."),
    column("topics_removed", T.ArrayType(T.StringType()), "Topics that a subscription lost."),
    column("protocol", T.StringType(), "The protocol afterwards."),
    column("previous_protocol", T.StringType(), "The protocol before."),
)

PARTITION_PAUSE = struct(
    *TOPIC_PARTITION,
    column("last_commit_at", T.TimestampType(), "The last commit before the rebalance's record."),
    column("first_commit_at", T.TimestampType(), "The first one after it; null if there was none in the generation."),
    column("pause_upper_ms", T.LongType(), "From the one to the other; null if there is no other."),
    column("committed_offset_before", T.LongType(), "What the last commit before committed."),
    column(
        "committed_offset_after",
        T.LongType(),
        "What the first one after committed; if less, records were processed again.",
    ),
)

INFERRED_TRIGGERS = [each.name for each in TRIGGERS if not each.is_only_logged]

REBALANCES = Table(
    name="rebalances",
    comment="One row for each rebalance of a group: what changed, what it cost, and what probably started it.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "to_generation"),
    statistics_columns=("cluster", "group_id", "incarnation", "to_generation", "happened_at"),
    fixed_time_column="happened_at",
    schema=struct(
        *OF_INCARNATION,
        column("to_generation", T.IntegerType(), "The generation that the rebalance led to."),
        column("from_generation", T.IntegerType(), "The generation of the record before; 0 is a group's birth."),
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the record."),
        column("happened_at", T.TimestampType(), "Time of the record: the rebalance was complete."),
        column("is_hole", T.BooleanType(), "The transition is not all known."),
        column(
            "hole_cause",
            T.StringType(),
            f"{HoleCause.NOT_SYNCED}: increments whose leader never synced; {HoleCause.CONVERTED}: increments before"
            f" the group became one of KIP-848; {HoleCause.NOT_COVERED}: something may lie unseen; else null.",
        ),
        column("generation_gap", T.IntegerType(), "Increments in between that have no record."),
        column(
            "protocol_kind",
            T.StringType(),
            f"{one_of(words_of(ProtocolKind))}: whether members that stayed brought along what they owned.",
        ),
        column("changes", T.ArrayType(CHANGE), "What differs between the two records; null for a hole."),
        column(
            "caused_by_generation",
            T.IntegerType(),
            "For a cooperative follow-up: to_generation of the rebalance that made it necessary.",
        ),
        column(
            "inferred_trigger",
            T.StringType(),
            f"What probably started it: {one_of(INFERRED_TRIGGERS)}; null for a hole.",
        ),
        column("inferred_trigger_confidence", T.DoubleType(), "Between 0 and 1; it orders the guesses."),
        column("inferred_trigger_explanation", T.StringType(), "What the guess rests on."),
        column("member_count", T.IntegerType(), "Members afterwards."),
        column(
            "members_idle", T.IntegerType(), "Members that own nothing afterwards; null if an assignment can't be read."
        ),
        column(
            "sync_wait_ms",
            T.LongType(),
            "From the end of the join phase to the leader's assignment (records from version 2).",
        ),
        column(
            "scheduled_delay_ms",
            T.IntegerType(),
            "Connect: for so long the leader keeps back what lost workers ran, in case that they return; else null.",
        ),
        column("partitions_kept", T.IntegerType(), "Partitions (or connectors and tasks) that stayed where they were."),
        column(
            "partitions_moved",
            T.IntegerType(),
            "Owned by one before, or up to the round before, and by another one now.",
        ),
        column("partitions_gained", T.IntegerType(), "Owned now, and by nobody before."),
        column("partitions_lost", T.IntegerType(), "Owned before, and by nobody now."),
        column("stickiness", T.DoubleType(), "partitions_kept by those owned before; null if there were none."),
        column(
            "pause_scope",
            T.StringType(),
            f"Who stood still: {PauseScope.GROUP} (eager) or {PauseScope.PARTITIONS} (cooperative: those moved);"
            " null if unknown.",
        ),
        column("pause_lower_ms", T.LongType(), "They stood still at least so long."),
        column(
            "pause_upper_ms",
            T.LongType(),
            "The whole group stood still at most so long; null unless it did, and has commits around it.",
        ),
        column(
            "partition_pauses",
            T.ArrayType(PARTITION_PAUSE),
            "One for each partition that stood still and had been committed.",
        ),
        IS_CARRIED_OVER,
    ),
)
