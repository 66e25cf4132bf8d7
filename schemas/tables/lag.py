"""`lag`: the lag of a group on a topic partition, in every sampling round; `transforms.lag.rules` computes it.

There is a row for each partition that the group had committed or owned. A number is null, never 0, if there is nothing
to compare, and `flags` say why a number is odd or absent.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, OF_SAMPLES, TOPIC_PARTITION, Table, column, struct
from groupledger.schemas.tables.watermarks import SAMPLE_DATE, SAMPLED_AT
from groupledger.schemas.words import BurrowStatus, LagFlag, LagSecondsMethod, LagStatus, one_of, words_of

LAG = Table(
    name="lag",
    comment="One row for each group, topic partition and sampling round: how far behind, and is that a problem.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "group_id", "topic", "partition"),
    partition_columns=("sample_date",),
    statistics_columns=("cluster", "sampled_at", "group_id", "topic", "partition"),
    retention=OF_SAMPLES,
    schema=struct(
        CLUSTER,
        SAMPLED_AT,
        GROUP_ID,
        *TOPIC_PARTITION,
        column("committed_offset", T.LongType(), "The next offset to read; null without a commit."),
        column("high_watermark", T.LongType(), "As in watermarks; null if it is not known or too old."),
        column("log_start_offset", T.LongType(), "As in watermarks."),
        column("last_stable_offset", T.LongType(), "As in watermarks."),
        column("raw_lag", T.LongType(), "high_watermark - committed_offset, with its sign."),
        column(
            "lag",
            T.LongType(),
            "What there is to read: from the commit or, if later, the log's start, without markers of transactions;"
            " null if it is not known, as of a commit beyond the end.",
        ),
        column("lag_read_committed", T.LongType(), "The same up to last_stable_offset."),
        column("messages_lost", T.LongType(), "Offsets that retention removed before the group read them."),
        column("lag_seconds", T.DoubleType(), "How long ago the next record to read was appended; 0 if all are read."),
        column(
            "lag_seconds_lower_bound", T.DoubleType(), "The same as lag_seconds where that is a lower bound, else null."
        ),
        column(
            "lag_seconds_method",
            T.StringType(),
            f"How lag_seconds was found: {one_of(words_of(LagSecondsMethod))}.",
        ),
        column("lag_per_second", T.DoubleType(), "Slope of lag over the status window; null with too few rounds."),
        column(
            "status",
            T.StringType(),
            f"Is it a problem, the mildest first: {one_of(words_of(LagStatus))}.",
        ),
        column(
            "burrow_status",
            T.StringType(),
            f"By Burrow's rules: {one_of([each for each in words_of(BurrowStatus) if each != BurrowStatus.ERR])}.",
        ),
        column(
            "no_progress_since",
            T.TimestampType(),
            "The first round with lag at this offset; null if it could read none.",
        ),
        column(
            "flags",
            T.ArrayType(T.StringType()),
            f"Why a number is odd or absent, each of {one_of(words_of(LagFlag))}; else empty.",
        ),
        column("owned", T.BooleanType(), "Whether a member owns the partition; null if the ledger can't know."),
        column("owner", T.StringType(), "The member that owns it."),
        column("client_id", T.StringType(), "The owner's client id."),
        column("client_host", T.StringType(), "The owner's address, with a slash before."),
        column("group_state", T.StringType(), "As in group_states, of the same round."),
        column(
            "leader_epoch", T.IntegerType(), "Leader epoch of the last record read, as committed; null if not reported."
        ),
        column("kafka_partition", T.IntegerType(), "Partition of __consumer_offsets that holds the commit."),
        column("kafka_offset", T.LongType(), "Offset of the commit's record there."),
        column("committed_at", T.TimestampType(), "The commit's own timestamp."),
        column("commit_interval_ms", T.LongType(), "Mean time between the last commits of the partition."),
        column(
            "commits_until",
            T.TimestampType(),
            "Until when the group's commits are known, if that is before the round: there is no lag then. Else null.",
        ),
        SAMPLE_DATE,
    ),
)
