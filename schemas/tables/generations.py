"""`generations`: one row for each state of a group that a `group_metadata` record states, or an epoch of KIP-848.

Revision 0 is the record of the leader's sync, of a group that became empty, or of an epoch. A static member's
replacement adds a revision, and so does a conversion to the other protocol that keeps the number. A row is in force
from its record to the next one of the group, in the order of offsets; times are only shown to people.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.rebalances import CHANGE
from groupledger.schemas.tables.table import (
    GROUP_TYPE,
    IS_CARRIED_OVER,
    IS_OPEN,
    KAFKA_PARTITION,
    OF_INCARNATION,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import EndedBy, FindingKind, one_of, words_of

GENERATIONS = Table(
    name="generations",
    comment="One row for each generation of a classic group or epoch of a KIP-848 one, and for each of its revisions.",
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
    partition_columns=("cluster", "is_open"),
    end_column="ended_at",
    schema=struct(
        *OF_INCARNATION,
        column("generation", T.IntegerType(), "The generation; the group epoch of a KIP-848 group."),
        column("revision", T.IntegerType(), "0, then one more for each rewrite with another content."),
        GROUP_TYPE,
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the record."),
        column("to_offset", T.LongType(), "Offset of what ended it; null while open."),
        column(
            "protocol_type",
            T.StringType(),
            "consumer, connect, or a name of the clients' own; empty before the first join.",
        ),
        column(
            "protocol",
            T.StringType(),
            "The assignor that the members chose; null in an empty generation, and where the broker chose it.",
        ),
        column(
            "leader", T.StringType(), "Member id of the leader; null in an empty generation, and in KIP-848 groups."
        ),
        column("member_count", T.IntegerType(), "Members in the record; null where an epoch's are not all known."),
        column(
            "owned_count",
            T.IntegerType(),
            "Partitions, or connectors and tasks, that have an owner; in an epoch, those in its target. Null where no"
            " assignment can be read, or no target was written.",
        ),
        column("started_at", T.TimestampType(), "Time of the record."),
        column(
            "targeted_at", T.TimestampType(), "KIP-848: when the target of the epoch was written; null if it was not."
        ),
        column(
            "converged_at",
            T.TimestampType(),
            "KIP-848: when the last member was stable at the epoch; null if the next one overtook it, or if unknown.",
        ),
        column("ended_at", T.TimestampType(), "Time of what ended it; null while open."),
        column("is_current", T.BooleanType(), "Nothing has ended it."),
        column(
            "is_start_known",
            T.BooleanType(),
            "Nothing about the group lies unseen between the record before and this one.",
        ),
        column(
            "is_end_known",
            T.BooleanType(),
            "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
        ),
        column(
            "ended_by",
            T.StringType(),
            f"What ended it: {one_of(words_of(EndedBy))}; null while open. An upgrade is one to KIP-848, a"
            " downgrade one from it.",
        ),
        column(
            "generation_gap",
            T.IntegerType(),
            "Increments before it that have no record; null where nobody can count them.",
        ),
        column(
            "is_ownership_known",
            T.BooleanType(),
            "Every member's assignment could be read: what has no owner here is unowned. Only those of consumers and"
            " Connect are read.",
        ),
        column(
            "current_state_at",
            T.TimestampType(),
            "Kafka's currentStateTimestamp: for revision 0, when the join phase was complete.",
        ),
        column("changes", T.ArrayType(CHANGE), "What a revision above 0 changed; null for revision 0 and over a hole."),
        column(
            "finding",
            T.StringType(),
            f"{FindingKind.GENERATION_DECREASED}: without a tombstone, where none can have been missed; else null.",
        ),
        IS_CARRIED_OVER,
        IS_OPEN,
    ),
)
