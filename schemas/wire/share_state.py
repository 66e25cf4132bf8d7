"""The records of `__share_group_state`, KIP-932: `ShareSnapshotKey/Value.json` and `ShareUpdateKey/Value.json`.

A snapshot holds all that the broker knows of a share partition (a group, a topic and a partition of it), an update what
has changed since. Types are numbered per topic: 0 and 1 are something else in `__consumer_offsets`.
`deliveryCompleteCount` came with Kafka 4.2 (KIP-1226); -1 means that the broker does not count.
"""

from groupledger.schemas.wire.model import Array, Field, Message, Primitive, RecordType, Struct

_KEY = (Field("groupId", Primitive.STRING), Field("topicId", Primitive.UUID), Field("partition", Primitive.INT32))
_STATE_BATCHES = Field(
    "stateBatches",
    Array(
        Struct(
            "StateBatch",
            (
                Field("firstOffset", Primitive.INT64),
                Field("lastOffset", Primitive.INT64),
                Field("deliveryState", Primitive.INT8),
                Field("deliveryCount", Primitive.INT16),
            ),
        )
    ),
)
_DELIVERY_COMPLETE_COUNT = Field("deliveryCompleteCount", Primitive.INT32, tag=0, default=-1)

SHARE_SNAPSHOT = RecordType(
    0,
    "ShareSnapshot",
    _KEY,
    Message(
        "ShareSnapshotValue",
        (
            Field("snapshotEpoch", Primitive.INT32),
            Field("stateEpoch", Primitive.INT32),
            Field("leaderEpoch", Primitive.INT32),
            Field("startOffset", Primitive.INT64),
            _DELIVERY_COMPLETE_COUNT,
            Field("createTimestamp", Primitive.INT64, column="create_timestamp_ms"),
            Field("writeTimestamp", Primitive.INT64, column="write_timestamp_ms"),
            _STATE_BATCHES,
        ),
        flexible_since=0,
    ),
)

SHARE_UPDATE = RecordType(
    1,
    "ShareUpdate",
    _KEY,
    Message(
        "ShareUpdateValue",
        (
            Field("snapshotEpoch", Primitive.INT32),
            Field("leaderEpoch", Primitive.INT32),
            Field("startOffset", Primitive.INT64),
            _DELIVERY_COMPLETE_COUNT,
            _STATE_BATCHES,
        ),
        flexible_since=0,
    ),
)

SHARE_STATE_TYPES = (SHARE_SNAPSHOT, SHARE_UPDATE)
