"""The format of the head of a classic Kafka Streams member's user data.

The source is `SubscriptionInfoData.json` of Kafka Streams. An int32 version from 1 on leads, then come the fields; no
version is flexible. Only the fields up to the process id are described here. Kafka's latest version is 11. If the bytes
have a later version, a reader takes only the field `latestSupportedVersion` from them ("version probing"): the format
has this as version 12.
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
