"""`share_partitions`: the position of share groups in each partition, in every pass that read it.

The state comes from `__share_group_state` and is what the brokers hold themselves: the last snapshot of a share
partition with the updates since. `transforms.shares.rules.share_state` says how they are put together. Records that a
member is processing are not in the topic before they are acknowledged.

The end of the partition, and what the brokers themselves say (DescribeShareGroupOffsets, which has lag since Kafka
4.2), are asked for right after the state was read.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, OF_SAMPLES, TOPIC_PARTITION, Table, column, struct
from groupledger.schemas.tables.watermarks import SAMPLE_DATE, SAMPLED_AT

_RANGES = T.ArrayType(
    T.StructType(
        [
            T.StructField("first_offset", T.LongType()),
            T.StructField("last_offset", T.LongType()),
            T.StructField("delivery_count", T.IntegerType()),
        ]
    )
)

SHARE_PARTITIONS = Table(
    name="share_partitions",
    comment="One row for each share group, topic partition and pass: its progress, and its lag.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "group_id", "topic", "partition"),
    partition_columns=("sample_date",),
    retention=OF_SAMPLES,
    statistics_columns=("cluster", "sampled_at", "group_id", "topic", "partition"),
    schema=struct(
        CLUSTER,
        SAMPLED_AT,
        column("group_id", T.StringType(), "The share group."),
        *TOPIC_PARTITION,
        column("topic_id", T.StringType(), "The topic's id; it replaces the topic's name where that is not known."),
        column("start_offset", T.LongType(), "Below it all is done; null until a member has read the partition."),
        column(
            "delivery_complete_count",
            T.IntegerType(),
            "Offsets from there on that need no delivery any more; null before Kafka 4.2.",
        ),
        column("high_watermark", T.LongType(), "As in watermarks; null if it could not be asked for."),
        column(
            "lag",
            T.LongType(),
            "high_watermark - start_offset - delivery_complete_count, as Kafka counts it: the records that are left.",
        ),
        column("broker_start_offset", T.LongType(), "What DescribeShareGroupOffsets answers; null without an answer."),
        column("broker_lag", T.LongType(), "The lag that it answers."),
        column("acknowledged", _RANGES, "Ranges of offsets from the start on that were acknowledged."),
        column("archived", _RANGES, "Ranges that were rejected, were delivered too often, or have left the topic."),
        column("available", _RANGES, "Ranges that were delivered before, and wait for another delivery."),
        column("available_count", T.LongType(), "How many offsets those are."),
        column("delivery_count_max", T.IntegerType(), "How often the one of them that was delivered most; 0 if none."),
        column("state_epoch", T.IntegerType(), "Counts how often the state was set anew, as by a reset of offsets."),
        column("leader_epoch", T.IntegerType(), "Epoch of the partition's leader that has written it."),
        column("written_at", T.TimestampType(), "Time of the newest record of the share partition."),
        column("kafka_partition", T.IntegerType(), "Partition of __share_group_state that holds it."),
        column("kafka_offset", T.LongType(), "Offset of that record there."),
        SAMPLE_DATE,
    ),
)
