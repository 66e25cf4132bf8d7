"""`watermarks`: how far every partition reached when it was asked, which lag is measured against.

One round asks all of them and is one `sampled_at`. Its rows of `__consumer_offsets` were read first: a commit counts in
the round if it lies below the `last_stable_offset` of its partition there, so that lag does not depend on when the
ledger read it. The ends of the other topics were read after, and so are never older than such a commit's own position.

A partition whose leader did not answer is a row with an `error` and no offsets. Offsets are null, never zero, where
they are not known.
"""

from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructType, TimestampType

from groupledger.schemas.tables.table import CLUSTER, Table, column

SAMPLED_AT = column("sampled_at", TimestampType(), "When the round began; all its rows have the same.")
SAMPLE_DATE = column("sample_date", DateType(), "The date of sampled_at in UTC; a partition of the files.")

WATERMARKS = Table(
    name="watermarks",
    comment="One row for each partition and sampling round: the offsets between which its log can be read.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "topic", "partition"),
    partition_columns=("sample_date",),
    statistics_columns=("cluster", "sampled_at", "topic", "partition"),
    schema=StructType(
        [
            CLUSTER,
            SAMPLED_AT,
            column("topic", StringType(), "The topic."),
            column("partition", IntegerType(), "Its partition."),
            column("log_start_offset", LongType(), "The first offset that is kept."),
            column("high_watermark", LongType(), "The offset behind the last one that all replicas in sync have."),
            column(
                "last_stable_offset",
                LongType(),
                "Where a read_committed reader stops: the first offset of an open transaction, or the high watermark.",
            ),
            column("leader_epoch", IntegerType(), "The epoch of the leader that answered; null if it told none."),
            column("topic_id", StringType(), "The topic's id in Kafka's base64; another one is another topic."),
            column(
                "error", StringType(), "Kafka's name of the error that left the offsets null; null if there is none."
            ),
            SAMPLE_DATE,
        ]
    ),
)
