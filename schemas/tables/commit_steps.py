"""`commit_steps`: the steps of commits that incidents need. They are stored so that a pass reads only new records.

A step is a commit after which the next one of its group and partition went back, or came late (after
`incidents.commit_gap_s`). The first commit of a partition is a step, too, if the topic had just got the partition.
Besides the steps there is an open row for the last record of each group and partition in each complete stretch of the
log: it becomes a step when no commit follows, or when the next one is late or goes back. The rows are those of
`transforms.incidents.commit_steps`. When a row has ended, it is known whether it may be an incident, and a pass looks
only at rows that may.

The table can be made again from `coordinator_records` and `watermarks`, as far as these still reach back.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    CLUSTER,
    GROUP_ID,
    IS_OPEN,
    KAFKA_PARTITION,
    OF_STATE,
    PARTITION,
    TOPIC,
    Table,
    column,
    struct,
)

EARLIER = struct(
    column("kafka_offset", T.LongType(), "Offset of the record in __consumer_offsets."),
    column("at_ms", T.LongType(), "Its time, in milliseconds since 1970."),
)

COMMIT_STEPS = Table(
    name="commit_steps",
    comment="One row for each commit whose next one has a lower offset or came long after, and for the last commits.",
    written_by="pipeline",
    key=("cluster", "kafka_partition", "kafka_offset"),
    statistics_columns=("cluster", "group_id", "committed_at", "next_at", "is_suspect"),
    partition_columns=("cluster", IS_OPEN.name),
    written_at_column="next_at",
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        GROUP_ID,
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the commit's record there."),
        TOPIC,
        PARTITION,
        column("committed_at", T.TimestampType(), "When the coordinator took it."),
        column("committed_offset", T.LongType(), "The next offset to read; null for a removal, or for offset -1."),
        column("topic_id", T.StringType(), "The topic's id in the commit; null where it names none."),
        column("next_kafka_offset", T.LongType(), "Offset of the next record of the partition; null while open."),
        column("next_at", T.TimestampType(), "When the next one was taken; null while open."),
        column("next_offset", T.LongType(), "What the next one committed."),
        column("interval_ms", T.DoubleType(), "Mean time between the commits before; null without such commits."),
        column("is_recreated_topic", T.BooleanType(), "The next commit is of another topic with that name."),
        column("high_watermark", T.LongType(), "Highest end of the partition until the next; null without a sample."),
        column("idle_until", T.TimestampType(), "The last sample without a record after the commit."),
        column("waiting_from", T.TimestampType(), "The first sample with records after it."),
        column(
            "new_from",
            T.TimestampType(),
            "The first sample with the partition, if its topic got it in the hours before this, its first commit; else"
            " null.",
        ),
        column("new_end", T.LongType(), "The partition's end in that sample."),
        column("unread_until", T.TimestampType(), "The last sample of such a partition before the commit."),
        column("unread_end", T.LongType(), "The partition's end in that one."),
        column("sampled_until", T.TimestampType(), "Samples until then were looked at; null if none were needed."),
        column(
            "is_suspect",
            T.IntegerType(),
            "1 if it may be an incident by itself, under the rules by which it was kept; of use once it has ended.",
        ),
        column("earlier", T.ArrayType(EARLIER), "The records of the partition before it, while the row is open."),
        IS_OPEN,
    ),
)
