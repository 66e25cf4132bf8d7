"""The formats of a consumer's subscription and of its assignment.

The sources are `ConsumerProtocolSubscription/Assignment.json`. An int16 version leads, then come the
fields; no version is flexible.
Fields are only ever appended, so a reader takes a version that it does not know as its latest one.
"""

from groupledger.schemas.wire.model import EVERY, Array, Field, Message, Primitive, Struct, since

TOPIC_PARTITION = Struct(
    "TopicPartition",
    (Field("topic", Primitive.STRING), Field("partitions", Array(Primitive.INT32))),
)

SUBSCRIPTION = Message(
    "ConsumerProtocolSubscription",
    (
        Field("topics", Array(Primitive.STRING)),
        Field("userData", Primitive.BYTES, nullable=EVERY, default=None),
        Field("ownedPartitions", Array(TOPIC_PARTITION), since(1)),
        Field("generationId", Primitive.INT32, since(2), default=-1),
        Field("rackId", Primitive.STRING, since(3), nullable=since(3), default=None),
    ),
    latest_version=3,
)

ASSIGNMENT = Message(
    "ConsumerProtocolAssignment",
    (
        Field("assignedPartitions", Array(TOPIC_PARTITION)),
        Field("userData", Primitive.BYTES, nullable=EVERY, default=None),
    ),
    latest_version=3,
)
