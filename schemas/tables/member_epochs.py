"""`member_epochs`: one step of one member of a KIP-848 group towards its target in the group's epoch.

A step is a current-assignment record, and is in force up to the member's next one. While a member waits, its steps say
for which partitions, and who still held them when the step was taken.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    IS_CARRIED_OVER,
    IS_OPEN,
    OF_INCARNATION,
    TOPIC,
    TOPIC_PARTITION,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import MemberState, one_of, words_of

PARTITIONS_OF_TOPIC = T.ArrayType(struct(TOPIC, column("partitions", T.ArrayType(T.IntegerType()), "Sorted.")))
WAIT = struct(
    *TOPIC_PARTITION,
    column("held_by", T.StringType(), "The member that held it then; null where nobody did."),
)

MEMBER_EPOCHS = Table(
    name="member_epochs",
    comment="One row for each step of a member of a KIP-848 consumer group: where it stood, and for whom it waited.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "member_id", "from_offset"),
    statistics_columns=("cluster", "group_id", "incarnation", "member_id", "from_offset", "valid_from", "valid_to"),
    partition_columns=("cluster", "is_open"),
    end_column="valid_to",
    schema=struct(
        *OF_INCARNATION,
        column("member_id", T.StringType(), "The member."),
        column("from_offset", T.LongType(), "Offset of the record."),
        column("to_offset", T.LongType(), "Offset of the next one, or of what ended it; null while open."),
        column("member_epoch", T.IntegerType(), "The group epoch that the member has reached; -2 while it is away."),
        column("previous_member_epoch", T.IntegerType(), "The epoch before, with which a retry is still accepted."),
        column("state", T.StringType(), f"How far it has come: {one_of(words_of(MemberState))}."),
        column("assigned", PARTITIONS_OF_TOPIC, "What it owns; while it is away, what is reserved for it."),
        column("pending_revocation", PARTITIONS_OF_TOPIC, "What it has to give up and may still process."),
        column(
            "names_assignment_epochs",
            T.BooleanType(),
            "The record says in which epoch each partition came to the member, as Kafka 4.3 and later do: a commit with"
            " that epoch or a later one is accepted. Null in rows of an earlier release.",
        ),
        column("target", PARTITIONS_OF_TOPIC, "What it is to own, by the newest target before the record."),
        column("waits_for", T.ArrayType(WAIT), "Partitions of its target that it does not have yet."),
        column("targeted_at", T.TimestampType(), "Time of that target: it has waited since then."),
        column("valid_from", T.TimestampType(), "Time of the record."),
        column("valid_to", T.TimestampType(), "Time of the next one, or of what ended it; null while open."),
        column(
            "is_end_known",
            T.BooleanType(),
            "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
        ),
        IS_CARRIED_OVER,
        IS_OPEN,
    ),
)
