"""Classic groups: `GroupMetadataKey/Value.json`. Kafka 4.2 to 4.4 write version 3.

A member's `subscription` and `assignment` are bytes of its client, which no broker checks; what they
hold depends on the group's protocol type and is in `consumer_protocol` and `connect_protocol`.
"""

from groupledger.schemas.wire.model import (
    EVERY,
    Array,
    Field,
    Message,
    Primitive,
    RecordType,
    Struct,
    since,
)

MEMBER_METADATA = Struct(
    "MemberMetadata",
    (
        Field("memberId", Primitive.STRING),
        Field("groupInstanceId", Primitive.STRING, since(3), nullable=since(3), default=None),
        Field("clientId", Primitive.STRING),
        Field("clientHost", Primitive.STRING),
        Field(
            "rebalanceTimeout",
            Primitive.INT32,
            since(1),
            default=-1,
            column="rebalance_timeout_ms",
        ),
        Field("sessionTimeout", Primitive.INT32, column="session_timeout_ms"),
        Field("subscription", Primitive.BYTES),
        Field("assignment", Primitive.BYTES),
    ),
)

GROUP_METADATA = RecordType(
    2,
    "GroupMetadata",
    (Field("group", Primitive.STRING, column="group_id"),),
    Message(
        "GroupMetadataValue",
        (
            Field("protocolType", Primitive.STRING),
            Field("generation", Primitive.INT32),
            Field("protocol", Primitive.STRING, nullable=EVERY),
            Field("leader", Primitive.STRING, nullable=EVERY),
            Field(
                "currentStateTimestamp",
                Primitive.INT64,
                since(2),
                default=-1,
                column="current_state_timestamp_ms",
            ),
            Field("members", Array(MEMBER_METADATA)),
        ),
        latest_version=4,
        flexible_since=4,
    ),
)
