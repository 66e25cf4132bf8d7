"""`generations`: one row for each state of a classic group that a `group_metadata` record states.

Revision 0 is the record of the leader's sync, or of a group that became empty; a static member's replacement adds a
revision. A row is in force from its record to the next one of the group, by offset: times are for people.
"""

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType, TimestampType

from groupledger.schemas.tables.rebalances import CHANGE
from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, INCARNATION, IS_CARRIED_OVER, IS_OPEN, Table, column
from groupledger.schemas.words import EndedBy, FindingKind, one_of, words_of

GENERATIONS = Table(
    name="generations",
    comment="One row for each generation of a classic group, and each revision of it.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "generation", "revision"),
    statistics_columns=(
        "cluster",
        "group_id",
        "incarnation",
        "generation",
        "kafka_offset",
        "started_at",
        "ended_at",
    ),
    partition_columns=("is_open",),
    end_column="ended_at",
    schema=StructType(
        [
            CLUSTER,
            GROUP_ID,
            INCARNATION,
            column("generation", IntegerType(), "The generation."),
            column("revision", IntegerType(), "0, then one more for each rewrite with another content."),
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the group."),
            column("kafka_offset", LongType(), "Offset of the record."),
            column("to_offset", LongType(), "Offset of what ended it; null while open."),
            column(
                "protocol_type",
                StringType(),
                "consumer, connect, or what the clients call theirs; empty before the first join.",
            ),
            column("protocol", StringType(), "The assignor that the members chose; null in an empty generation."),
            column("leader", StringType(), "Member id of the leader; null in an empty generation."),
            column("member_count", IntegerType(), "Members in the record."),
            column("owned_count", IntegerType(), "Partitions, or connectors and tasks, that have an owner."),
            column("started_at", TimestampType(), "Time of the record."),
            column("ended_at", TimestampType(), "Time of what ended it; null while open."),
            column("is_current", BooleanType(), "Nothing has ended it."),
            column(
                "is_start_known",
                BooleanType(),
                "Nothing about the group lies unseen between the record before and this one.",
            ),
            column(
                "is_end_known",
                BooleanType(),
                "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
            ),
            column(
                "ended_by",
                StringType(),
                f"What ended it: {one_of(words_of(EndedBy))}; null while open. An upgrade is one to KIP-848.",
            ),
            column(
                "generation_gap",
                IntegerType(),
                "Increments before it that have no record; null where nobody can count them.",
            ),
            column(
                "is_ownership_known",
                BooleanType(),
                "Every member's assignment could be read: what has no owner here is unowned.",
            ),
            column(
                "current_state_at",
                TimestampType(),
                "Kafka's currentStateTimestamp: for revision 0, when the join phase was complete.",
            ),
            column(
                "changes", ArrayType(CHANGE), "What a revision above 0 changed; null for revision 0 and over a hole."
            ),
            column(
                "finding",
                StringType(),
                f"{FindingKind.GENERATION_DECREASED}: without a tombstone, where none can have been missed; else null.",
            ),
            IS_CARRIED_OVER,
            IS_OPEN,
        ]
    ),
)
