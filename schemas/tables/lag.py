"""`lag`: how far behind a group was on a topic partition, in every sampling round; `transforms.lag.rules` says how.

A row for each partition that the group had committed or owned. Numbers are null, never 0, where there is nothing to
compare, and `flags` say why a number is odd or absent.
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

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, Table, column
from groupledger.schemas.tables.watermarks import SAMPLE_DATE, SAMPLED_AT
from groupledger.schemas.words import BurrowStatus, LagFlag, LagSecondsMethod, LagStatus, one_of, words_of

LAG = Table(
    name="lag",
    comment="One row for each group, topic partition and sampling round: how far behind, and is that a problem.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "group_id", "topic", "partition"),
    partition_columns=("sample_date",),
    statistics_columns=("cluster", "sampled_at", "group_id", "topic", "partition"),
    schema=StructType(
        [
            CLUSTER,
            SAMPLED_AT,
            GROUP_ID,
            column("topic", StringType(), "The topic."),
            column("partition", IntegerType(), "Its partition."),
            column("committed_offset", LongType(), "The next offset to read; null without a commit."),
            column("high_watermark", LongType(), "As in watermarks; null if it is not known or too old."),
            column("log_start_offset", LongType(), "As in watermarks."),
            column("last_stable_offset", LongType(), "As in watermarks."),
            column("raw_lag", LongType(), "high_watermark - committed_offset, with its sign."),
            column(
                "lag", LongType(), "What there is to read: from the commit or, if later, the log's start; not below 0."
            ),
            column("lag_read_committed", LongType(), "The same up to last_stable_offset."),
            column("messages_lost", LongType(), "Offsets that retention removed before the group read them."),
            column("lag_seconds", DoubleType(), "How long ago the next record to read was appended; 0 if lag is 0."),
            column("lag_seconds_lower_bound", DoubleType(), "At least so long, where lag_seconds is not known."),
            column(
                "lag_seconds_method",
                StringType(),
                f"How lag_seconds was found: {one_of(words_of(LagSecondsMethod))}.",
            ),
            column("lag_per_second", DoubleType(), "Slope of lag over the status window; null with too few rounds."),
            column(
                "status",
                StringType(),
                f"Is it a problem, the mildest first: {one_of(words_of(LagStatus))}.",
            ),
            column(
                "burrow_status",
                StringType(),
                f"By Burrow's rules: {one_of([each for each in words_of(BurrowStatus) if each != BurrowStatus.ERR])}.",
            ),
            column("no_progress_since", TimestampType(), "The first round with lag at this offset; null if lag is 0."),
            column(
                "flags",
                ArrayType(StringType()),
                f"Why a number is odd or absent, each of {one_of(words_of(LagFlag))}; else empty.",
            ),
            column("owned", BooleanType(), "Whether a member owns the partition; null if the ledger can't know."),
            column("owner", StringType(), "The member that owns it."),
            column("client_id", StringType(), "The owner's client id."),
            column("client_host", StringType(), "The owner's address, with a slash before."),
            column("group_state", StringType(), "As in group_states, of the same round."),
            column(
                "leader_epoch", IntegerType(), "Leader epoch of the last record read, as committed; null if not told."
            ),
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the commit."),
            column("kafka_offset", LongType(), "Offset of the commit's record there."),
            column("committed_at", TimestampType(), "The commit's own timestamp."),
            column("commit_interval_ms", LongType(), "Mean time between the last commits of the partition."),
            SAMPLE_DATE,
        ]
    ),
)
