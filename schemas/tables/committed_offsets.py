"""`committed_offsets`: the newest commit of each group in each partition, with which the pass of `offset_events`
compares the next record.

A row is written after the events that come of its record. If a job is killed in between, the older row remains, and the
next pass finds the same events again. Records at or below `kafka_offset` were already compared.
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

COMMITTED_OFFSETS = Table(
    name="committed_offsets",
    comment="One row for each partition that a group has committed: its last commit, and whether it was removed since.",
    written_by="pipeline",
    key=("cluster", "group_id", "topic", "partition"),
    statistics_columns=("cluster", "group_id", "kafka_offset"),
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        GROUP_ID,
        TOPIC,
        PARTITION,
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the newest record: the last commit, or its removal."),
        column("is_removed", T.BooleanType(), "The offset was deleted or has expired."),
        column("commit_kafka_offset", T.LongType(), "Offset of the last commit; null if only a removal was seen."),
        column("committed_offset", T.LongType(), "The last commit; null for offset -1, which Kafka takes for none."),
        column("leader_epoch", T.IntegerType(), "The leader epoch that the commit names; null where it names none."),
        column("topic_id", T.StringType(), "The topic's id in that commit; null where it names none."),
        column("committed_at_ms", T.LongType(), "When the coordinator took it, in milliseconds since 1970."),
        column("expire_at_ms", T.LongType(), "When it expires, if the commit itself says so; else null."),
    ),
)
