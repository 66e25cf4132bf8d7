"""The format of the head of a classic Kafka Streams member's user data.

The source is `SubscriptionInfoData.json` of Kafka Streams. An int32 version from 1 on leads, then come
the fields; no version is flexible. Only the fields that say which process this is are described. Of a
version above its latest, 11, a reader takes no more than the version that the writer would rather speak
("version probing"): that is version 12 here.
"""

from groupledger.schemas.wire.model import Field, Message, Primitive, Versions, since

SUBSCRIPTION_INFO = Message(
    "SubscriptionInfoData",
    (
        Field("latestSupportedVersion", Primitive.INT32, since(3), default=-1),
        Field("processId", Primitive.UUID, Versions(0, 11), default=None),
    ),
    latest_version=12,
)
