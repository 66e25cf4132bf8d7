"""`lag_seeds`: the state after a sampling round that the next round needs, so that earlier rounds are not read again.

The transaction (`txn`) of the table's last Delta commit names the round. If the table is missing, or newer than `lag`,
all rounds are read again, which costs only time. `transforms.lag.lag_seeds` explains the kinds of rows.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    CLUSTER,
    GROUP_ID,
    KAFKA_PARTITION,
    OF_STATE,
    PARTITION,
    TOPIC,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import LagSeedKind, one_of, words_of

LAG_SEEDS = Table(
    name="lag_seeds",
    comment="One row for each sample, commit and position that the lag of the next sampling round depends on.",
    written_by="pipeline",
    key=("cluster", "seed_id"),
    statistics_columns=("cluster", "kind", "at_ms"),
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        column("seed_id", T.StringType(), "Hash of what the row is about."),
        column("kind", T.StringType(), f"The kind of the row: {one_of(words_of(LagSeedKind))}."),
        GROUP_ID,
        TOPIC,
        PARTITION,
        column("topic_id", T.StringType(), "The topic's id in Kafka's base64; null if it was not reported."),
        column("leader_epoch", T.IntegerType(), "As in watermarks, or as committed."),
        column("at_ms", T.LongType(), "When it was sampled or committed, in milliseconds since 1970."),
        column("log_start_offset", T.LongType(), "As in watermarks."),
        column("high_watermark", T.LongType(), "As in watermarks; with a commit, that of the last round before it."),
        column("last_stable_offset", T.LongType(), "As in watermarks."),
        column("markers_at_end", T.IntegerType(), "As in watermarks."),
        column("has_transactions", T.BooleanType(), "A sample of the topic has shown an open transaction."),
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the commit's record there."),
        column("committed_offset", T.LongType(), "The next offset to read; null for a removal."),
        column("commits_kept", T.IntegerType(), "With ingested: how many of the last commits on a partition are kept."),
    ),
)
