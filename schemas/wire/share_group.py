"""Share groups of KIP-932: record types 10 to 15, `ShareGroup*Key/Value.json`.

All values are version 0 and flexible. Keys and targets that equal those of consumer groups are imported from
`consumer_group`.
"""

from groupledger.schemas.wire.consumer_group import (
    CURRENT_TOPIC_PARTITIONS,
    GROUP_KEY,
    MEMBER_KEY,
    TARGET_ASSIGNMENT_METADATA,
    TARGET_TOPIC_PARTITION,
)
from groupledger.schemas.wire.model import EVERY, Array, Field, Message, Primitive, RecordType, Struct

SHARE_GROUP_MEMBER_METADATA = RecordType(
    10,
    "ShareGroupMemberMetadata",
    MEMBER_KEY,
    Message(
        "ShareGroupMemberMetadataValue",
        (
            Field("rackId", Primitive.STRING, nullable=EVERY),
            Field("clientId", Primitive.STRING),
            Field("clientHost", Primitive.STRING),
            Field("subscribedTopicNames", Array(Primitive.STRING)),
        ),
        flexible_since=0,
    ),
)

SHARE_GROUP_METADATA = RecordType(
    11,
    "ShareGroupMetadata",
    GROUP_KEY,
    Message(
        "ShareGroupMetadataValue",
        (Field("epoch", Primitive.INT32), Field("metadataHash", Primitive.INT64)),
        flexible_since=0,
    ),
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = RecordType(
    12,
    "ShareGroupTargetAssignmentMetadata",
    GROUP_KEY,
    Message(
        "ShareGroupTargetAssignmentMetadataValue",
        TARGET_ASSIGNMENT_METADATA,
        flexible_since=0,
    ),
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordType(
    13,
    "ShareGroupTargetAssignmentMember",
    MEMBER_KEY,
    Message(
        "ShareGroupTargetAssignmentMemberValue",
        (Field("topicPartitions", Array(TARGET_TOPIC_PARTITION)),),
        flexible_since=0,
    ),
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = RecordType(
    14,
    "ShareGroupCurrentMemberAssignment",
    MEMBER_KEY,
    Message(
        "ShareGroupCurrentMemberAssignmentValue",
        (
            Field("memberEpoch", Primitive.INT32),
            Field("previousMemberEpoch", Primitive.INT32),
            Field("state", Primitive.INT8),
            Field("assignedPartitions", Array(CURRENT_TOPIC_PARTITIONS)),
        ),
        flexible_since=0,
    ),
)

_TOPIC = (Field("topicId", Primitive.UUID), Field("topicName", Primitive.STRING))
TOPIC_INFO = Struct("TopicInfo", _TOPIC)
TOPIC_PARTITIONS_INFO = Struct("TopicPartitionsInfo", (*_TOPIC, Field("partitions", Array(Primitive.INT32))))
SHARE_GROUP_STATE_PARTITION_METADATA = RecordType(
    15,
    "ShareGroupStatePartitionMetadata",
    GROUP_KEY,
    Message(
        "ShareGroupStatePartitionMetadataValue",
        (
            Field("initializingTopics", Array(TOPIC_PARTITIONS_INFO)),
            Field("initializedTopics", Array(TOPIC_PARTITIONS_INFO)),
            Field("deletingTopics", Array(TOPIC_INFO)),
        ),
        flexible_since=0,
    ),
)
