"""`share_state_records`: one row for each record of `__share_group_state` that the ledger has read.

The topic has what brokers know of share partitions: snapshots, and updates to the last snapshot. Every few minutes
brokers delete all records before the last snapshots (DeleteRecords). So the ledger has only records that it read before
that; `share_state_coverage` says which offsets these are. `share_partitions` needs only the records that the topic
still has, so a retention of some days for this table does no harm. As in `coordinator_records`, a record is either
decoded, or stored with its bytes and the reason. The bytes of a decoded value are stored, too, if it has fields that
this release does not know.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct
from groupledger.schemas.tables.wire_types import spark_type
from groupledger.schemas.wire.share_state import SHARE_SNAPSHOT

STATE_BATCHES = next(field.type for field in SHARE_SNAPSHOT.value.fields if field.column == "state_batches")

SHARE_STATE_RECORDS = Table(
    name="share_state_records",
    comment="One row for each record of __share_group_state, decoded or kept with its bytes and the reason.",
    written_by="pipeline",
    key=("cluster", "kafka_partition", "kafka_offset"),
    partition_columns=("ingest_date",),
    statistics_columns=("cluster", "kafka_partition", "kafka_offset", "kafka_timestamp", "group_id"),
    schema=struct(
        CLUSTER,
        column("kafka_partition", T.IntegerType(), "Partition of __share_group_state."),
        column("kafka_offset", T.LongType(), "Offset of the record in its partition."),
        column("kafka_timestamp", T.TimestampType(), "The record's timestamp: when the coordinator appended it."),
        column("record_type", T.StringType(), "share_snapshot or share_update; null if the key could not be read."),
        column("value_version", T.IntegerType(), "Version of the value's format; null for a tombstone."),
        column("is_tombstone", T.BooleanType(), "The value is null: the share partition was removed."),
        column("group_id", T.StringType(), "The share group; null if the key could not be read."),
        column("topic_id", T.StringType(), "The topic's id in Kafka's base64."),
        column("partition", T.IntegerType(), "Partition of that topic."),
        column("snapshot_epoch", T.IntegerType(), "Counts the snapshots; an update has that of its snapshot."),
        column("state_epoch", T.IntegerType(), "Counts how often the state was set anew; snapshots only."),
        column("leader_epoch", T.IntegerType(), "Epoch of the partition's leader that has written it."),
        column("start_offset", T.LongType(), "Below it all is done; -1: none yet, or in an update the one before."),
        column(
            "delivery_complete_count",
            T.IntegerType(),
            "Offsets at or above the start that need no delivery any more; -1 before Kafka 4.2.",
        ),
        column("create_timestamp_ms", T.LongType(), "When the state was made, by the broker; snapshots only."),
        column("write_timestamp_ms", T.LongType(), "When the snapshot was made, by the broker; snapshots only."),
        column(
            "state_batches",
            spark_type(STATE_BATCHES),
            "Ranges of offsets (both ends included), with delivery_state 0 (available again), 2 (acknowledged) or 4"
            " (archived) and how often they were delivered; an update has the changed ones.",
        ),
        column("decode_error", T.StringType(), "Why the record is kept undecoded; null if it is decoded."),
        column("decode_error_detail", T.StringType(), "Where in the bytes, and what was expected there."),
        column("raw_key", T.BinaryType(), "The key's bytes; null if the record is decoded."),
        column("raw_value", T.BinaryType(), "The value's bytes; null if the record is decoded whole or a tombstone."),
        column("ingest_date", T.DateType(), "UTC date of the pass that wrote the row."),
    ),
)
