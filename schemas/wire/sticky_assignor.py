"""The formats of the user data that the sticky assignors put into a subscription.

The sources are `StickyAssignor.java`, whose version 0 lacks the generation, and `CooperativeStickyAssignor.java`. The
bytes begin with the first field, without a version.
"""

from groupledger.schemas.wire.consumer_protocol import TOPIC_PARTITION
from groupledger.schemas.wire.model import Array, Field, Message, Primitive, since

STICKY_USER_DATA = Message(
    "StickyAssignorUserData",
    (
        Field("previous_assignment", Array(TOPIC_PARTITION)),
        Field("generation", Primitive.INT32, since(1), default=-1),
    ),
    latest_version=1,
)

COOPERATIVE_STICKY_USER_DATA = Message("CooperativeStickyAssignorUserData", (Field("generation", Primitive.INT32),))
