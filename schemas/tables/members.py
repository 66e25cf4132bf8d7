"""`members`: one tenure of one member of a group. The ids that a broker makes up are never used again; those
that a client brings along (KIP-848) may come back, so that a tenure is identified by the offset of its first record,
too.

The columns about the member come from the newest record that names it. Brokers write no record of a join or a leave, so
the times are those of the first record with the member and of the first one without it.
"""

from pyspark.sql import types as T

from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.tables.table import GROUP_TYPE, IS_CARRIED_OVER, IS_OPEN, OF_INCARNATION, Table, column, struct
from groupledger.schemas.words import LeaveCause, one_of, words_of

LEAVE_CAUSES = (*words_of(LeaveCause), *(each.name for each in TRIGGERS if each.is_departure))

MEMBERS = Table(
    name="members",
    comment="One row for each tenure of a member of a classic or KIP-848 consumer group.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "member_id", "from_offset"),
    statistics_columns=("cluster", "group_id", "incarnation", "member_id", "joined_at", "left_at"),
    partition_columns=("cluster", "is_open"),
    end_column="left_at",
    schema=struct(
        *OF_INCARNATION,
        column("member_id", T.StringType(), "The member."),
        GROUP_TYPE,
        column("is_classic", T.BooleanType(), "It speaks the classic protocol, also inside a KIP-848 group."),
        column("group_instance_id", T.StringType(), "Instance id of a static member; null for a dynamic one."),
        column("client_id", T.StringType(), "The client's name for itself."),
        column("client_host", T.StringType(), "Its address as the broker saw it, with a slash before."),
        column("rack_id", T.StringType(), "The rack that a consumer names."),
        column(
            "session_timeout_ms",
            T.IntegerType(),
            "Without a heartbeat for so long, the member is removed; null where the broker's setting counts (KIP-848).",
        ),
        column(
            "rebalance_timeout_ms",
            T.IntegerType(),
            "How long a rebalance waits for it (max.poll.interval.ms); -1 in records before version 1, null in share"
            " groups.",
        ),
        column(
            "subscribed_topics",
            T.ArrayType(T.StringType()),
            "Topics of a consumer's subscription, sorted; null if it can't be read, and in streams groups.",
        ),
        column("subscribed_regex", T.StringType(), "The regular expression that it subscribes to (KIP-848)."),
        column("server_assignor", T.StringType(), "The assignor that it asks the broker for (KIP-848)."),
        column("process_id", T.StringType(), "The process that runs the member (streams groups)."),
        column("topology_epoch", T.IntegerType(), "The epoch of the topology that it runs (streams groups)."),
        column("subscription_error", T.StringType(), "Why the subscription can't be read."),
        column("assignment_error", T.StringType(), "Why the assignment can't be read."),
        column("from_generation", T.IntegerType(), "The first generation with the member."),
        column("to_generation", T.IntegerType(), "The last one; null while a member."),
        column("from_offset", T.LongType(), "Offset of the first record with the member."),
        column("to_offset", T.LongType(), "Offset of the first one without it; null while a member."),
        column("joined_at", T.TimestampType(), "Time of the first record with the member."),
        column("left_at", T.TimestampType(), "Time of the first one without it; null while a member."),
        column(
            "is_start_known",
            T.BooleanType(),
            "It was no member until that first record's generation; else it may have joined earlier.",
        ),
        column(
            "is_end_known",
            T.BooleanType(),
            "It was a member until exactly then; false: at the latest, or, without an end, it may have left, as the log"
            " hides what became of it. Null while a member.",
        ),
        column(
            "leave_cause",
            T.StringType(),
            f"Why: {one_of(LEAVE_CAUSES)}; a guess if confidence is below 1.",
        ),
        column(
            "leave_cause_confidence",
            T.DoubleType(),
            "1 where the records say it, below 1 where it is inferred; null if unknown.",
        ),
        IS_CARRIED_OVER,
        IS_OPEN,
    ),
)
