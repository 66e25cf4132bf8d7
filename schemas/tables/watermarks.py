"""`watermarks`: the start and the ends of every partition at the time of a sampling round. Lag is measured against
them.

All partitions of a round have the same `sampled_at`. The rows of `__consumer_offsets` were read first. A commit counts
in the round if its offset there is below the `last_stable_offset` of its partition, so that lag does not depend on when
the ledger read the commit. The ends of the other topics were read after that, so they are never older than such a
commit.

A partition whose leader did not answer is a row with an `error` and no offsets. An offset that is not known is null,
never zero.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, OF_SAMPLES, TOPIC_PARTITION, Table, column, struct

SAMPLED_AT = column("sampled_at", T.TimestampType(), "When the round began; all its rows have the same.")
SAMPLE_DATE = column("sample_date", T.DateType(), "The date of sampled_at in UTC; a partition of the files.")

WATERMARKS = Table(
    name="watermarks",
    comment="One row for each partition and sampling round: the offsets between which its log can be read.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "topic", "partition"),
    partition_columns=("sample_date",),
    statistics_columns=("cluster", "sampled_at", "topic", "partition"),
    retention=OF_SAMPLES,
    schema=struct(
        CLUSTER,
        SAMPLED_AT,
        *TOPIC_PARTITION,
        column("log_start_offset", T.LongType(), "The first offset that is kept."),
        column("high_watermark", T.LongType(), "The offset after the last one that all replicas in sync have."),
        column(
            "last_stable_offset",
            T.LongType(),
            "Where a read_committed reader stops: the first offset of an open transaction, or the high watermark.",
        ),
        column(
            "markers_at_end",
            T.IntegerType(),
            "How many offsets right before last_stable_offset hold markers of transactions, or records of aborted ones,"
            " and no committed record; null where nobody looked, as no group rests there.",
        ),
        column("leader_epoch", T.IntegerType(), "The epoch of the leader that answered; null if it reported none."),
        column("topic_id", T.StringType(), "The topic's id in Kafka's base64; another one is another topic."),
        column("error", T.StringType(), "Kafka's name of the error that left the offsets null; null without an error."),
        SAMPLE_DATE,
    ),
)
