"""The head of what a classic Kafka Streams member puts into its subscription's user data.

`SubscriptionInfoData.json` of Kafka Streams: an int32 version from 1 on, then the fields; never
flexible. Only the fields that say which process this is are described. Of a version above its latest,
11, a reader takes no more than the version that the writer would rather speak ("version probing"):
that is version 12 here.
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
