"""`coordinator_records`: one row for each record of `__consumer_offsets` that the ledger has read.

A record is either decoded, or kept with its bytes and the reason (`decode_error`), never both and never neither
(without the bytes if the settings keep no hosts, or a name in them was forgotten). A later release that can decode it
replaces the row (`jobs.ingest.decode_again`). The fields follow `schemas.wire`: the key's fields first (without the
group, which has a column of its own), then value fields, which are null in a tombstone.

Offset commits, nearly all the volume, are a struct; both types of key (0 and 1) share it, as Kafka itself treats them.
All other types are one JSON text, whose shape is `RECORD_STRUCTS` and whose BINARY fields are base64:
`transforms.records.record_structs` gives the struct back. A struct column for each of the twenty types would be some
170 columns of nulls beside every offset commit, and Parquet pays for each null: writing took half as much CPU again.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from groupledger.schemas.tables.table import CLUSTER, Table, column
from groupledger.schemas.tables.wire_types import spark_struct
from groupledger.schemas.wire import (
    connect_protocol,
    consumer_protocol,
    group_metadata,
    sticky_assignor,
    streams_assignor,
)
from groupledger.schemas.wire.model import Message, RecordType
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPE_BY_NAME, RECORD_TYPES


def _versioned(message: Message) -> StructType:
    return StructType([StructField("version", IntegerType()), *spark_struct(message.fields)])


# The parsed bytes of a classic group's member. The group's protocol decides which of the structs is filled; a struct
# whose bytes are broken is null, and the error says why.
MEMBER_DETAILS = StructType(
    [
        StructField("subscription_error", StringType()),
        StructField("assignment_error", StringType()),
        StructField("user_data_error", StringType()),
        StructField("consumer_subscription", _versioned(consumer_protocol.SUBSCRIPTION)),
        StructField("consumer_assignment", _versioned(consumer_protocol.ASSIGNMENT)),
        StructField("sticky_user_data", _versioned(sticky_assignor.STICKY_USER_DATA)),
        StructField("streams_subscription_info", _versioned(streams_assignor.SUBSCRIPTION_INFO)),
        StructField("connect_metadata", _versioned(connect_protocol.METADATA)),
        StructField("connect_assignment", _versioned(connect_protocol.ASSIGNMENT)),
    ]
)


def _record_struct(kind: RecordType) -> StructType:
    key = [field for field in kind.key if field.column != "group_id"]
    value = spark_struct(kind.value.fields)
    if kind is group_metadata.GROUP_METADATA:
        members = spark_struct(group_metadata.MEMBER_METADATA.fields)
        value["members"].dataType = ArrayType(StructType([*members, *MEMBER_DETAILS]))
    return StructType([*spark_struct(key), *value])


OFFSET_COMMIT = _record_struct(RECORD_TYPE_BY_NAME["offset_commit"])
RECORD_STRUCTS = {
    kind.record_type: _record_struct(kind) for kind in RECORD_TYPES if kind.record_type not in OFFSET_COMMIT_TYPES
}

COORDINATOR_RECORDS = Table(
    name="coordinator_records",
    comment="One row for each record of __consumer_offsets, decoded or kept with its bytes and the reason.",
    written_by="ingest",
    key=("cluster", "kafka_partition", "kafka_offset"),
    partition_columns=("ingest_date",),
    statistics_columns=("cluster", "kafka_partition", "kafka_offset", "kafka_timestamp", "group_id"),
    schema=StructType(
        [
            CLUSTER,
            column(
                "kafka_partition", IntegerType(), "Partition of __consumer_offsets; a group's records are all in one."
            ),
            column("kafka_offset", LongType(), "Offset of the record in its partition: the order of everything."),
            column("kafka_timestamp", TimestampType(), "The record's timestamp: when the coordinator appended it."),
            column("record_type", StringType(), "Kafka's name in snake case; null if the key could not be read."),
            column("value_version", IntegerType(), "Version of the value's format; null for a tombstone."),
            column("is_tombstone", BooleanType(), "The value is null: what the key names was removed."),
            column("group_id", StringType(), "The group; null if the key could not be read."),
            column("decode_error", StringType(), "Why the record is kept undecoded; null if it is decoded."),
            column("decode_error_detail", StringType(), "Where in the bytes, and what was expected there."),
            column("raw_key", BinaryType(), "The key's bytes; null if the record is decoded."),
            column("raw_value", BinaryType(), "The value's bytes; null if the record is decoded or a tombstone."),
            column("ingest_date", DateType(), "UTC date of the micro-batch that wrote the row."),
            column("offset_commit", OFFSET_COMMIT, "OffsetCommit and LegacyOffsetCommit: key and value."),
            column(
                "record_json",
                StringType(),
                "Key and value as JSON; null for an offset commit that its struct holds whole.",
            ),
        ]
    ),
)
