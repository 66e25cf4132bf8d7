"""Consumer groups of KIP-848: record types 3 to 8 and 16, `ConsumerGroup*Key/Value.json`.

All values are version 0 and flexible. Type 4 is written only as a tombstone since 4.1. A trap that is
Kafka's own: the default of `classicMemberMetadata` is a struct of defaults, not null, so a member
that speaks the new protocol is written with an explicit null in tag 0.

Kafka 4.3 added tagged fields. `assignmentEpochs` has, for each partition that a member holds, the member epoch in which
the partition came to it, since a commit with an epoch from that one on is accepted (KIP-1251). `assignmentTimestamp` is
the time of the last target assignment, 0 from older brokers (KIP-1263).
"""

from groupledger.schemas.wire.model import EVERY, Array, Field, Message, Primitive, RecordType, Struct

GROUP_KEY = (Field("groupId", Primitive.STRING),)
MEMBER_KEY = (*GROUP_KEY, Field("memberId", Primitive.STRING))

_STRINGS = Array(Primitive.STRING)
_TOPIC_PARTITIONS = (
    Field("topicId", Primitive.UUID),
    Field("partitions", Array(Primitive.INT32)),
)
TARGET_TOPIC_PARTITION = Struct("TopicPartition", _TOPIC_PARTITIONS)
CURRENT_TOPIC_PARTITIONS = Struct("TopicPartitions", _TOPIC_PARTITIONS)
ASSIGNMENT_EPOCHS = Field("assignmentEpochs", Array(Primitive.INT32), nullable=EVERY, tag=0)
_CURRENT_WITH_EPOCHS = Struct("TopicPartitions", (*_TOPIC_PARTITIONS, ASSIGNMENT_EPOCHS))
TARGET_ASSIGNMENT_METADATA = (
    Field("assignmentEpoch", Primitive.INT32),
    Field("assignmentTimestamp", Primitive.INT64, tag=0, column="assignment_timestamp_ms"),
)

CONSUMER_GROUP_METADATA = RecordType(
    3,
    "ConsumerGroupMetadata",
    GROUP_KEY,
    Message(
        "ConsumerGroupMetadataValue",
        (
            Field("epoch", Primitive.INT32),
            Field("metadataHash", Primitive.INT64, tag=0),
        ),
        flexible_since=0,
    ),
)

PARTITION_METADATA = Struct("PartitionMetadata", (Field("partition", Primitive.INT32), Field("racks", _STRINGS)))
TOPIC_METADATA = Struct(
    "TopicMetadata",
    (
        Field("topicId", Primitive.UUID),
        Field("topicName", Primitive.STRING),
        Field("numPartitions", Primitive.INT32),
        Field("partitionMetadata", Array(PARTITION_METADATA)),
    ),
)
CONSUMER_GROUP_PARTITION_METADATA = RecordType(
    4,
    "ConsumerGroupPartitionMetadata",
    GROUP_KEY,
    Message(
        "ConsumerGroupPartitionMetadataValue",
        (Field("topics", Array(TOPIC_METADATA)),),
        flexible_since=0,
    ),
)

CLASSIC_PROTOCOL = Struct("ClassicProtocol", (Field("name", Primitive.STRING), Field("metadata", Primitive.BYTES)))
CLASSIC_MEMBER_METADATA = Struct(
    "ClassicMemberMetadata",
    (
        Field("sessionTimeoutMs", Primitive.INT32),
        Field("supportedProtocols", Array(CLASSIC_PROTOCOL)),
    ),
)
CONSUMER_GROUP_MEMBER_METADATA = RecordType(
    5,
    "ConsumerGroupMemberMetadata",
    MEMBER_KEY,
    Message(
        "ConsumerGroupMemberMetadataValue",
        (
            Field("instanceId", Primitive.STRING, nullable=EVERY),
            Field("rackId", Primitive.STRING, nullable=EVERY),
            Field("clientId", Primitive.STRING),
            Field("clientHost", Primitive.STRING),
            Field("subscribedTopicNames", _STRINGS),
            Field("subscribedTopicRegex", Primitive.STRING, nullable=EVERY),
            Field("rebalanceTimeoutMs", Primitive.INT32, default=-1),
            Field("serverAssignor", Primitive.STRING, nullable=EVERY),
            Field("classicMemberMetadata", CLASSIC_MEMBER_METADATA, nullable=EVERY, tag=0),
        ),
        flexible_since=0,
    ),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = RecordType(
    6,
    "ConsumerGroupTargetAssignmentMetadata",
    GROUP_KEY,
    Message(
        "ConsumerGroupTargetAssignmentMetadataValue",
        TARGET_ASSIGNMENT_METADATA,
        flexible_since=0,
    ),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordType(
    7,
    "ConsumerGroupTargetAssignmentMember",
    MEMBER_KEY,
    Message(
        "ConsumerGroupTargetAssignmentMemberValue",
        (Field("topicPartitions", Array(TARGET_TOPIC_PARTITION)),),
        flexible_since=0,
    ),
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = RecordType(
    8,
    "ConsumerGroupCurrentMemberAssignment",
    MEMBER_KEY,
    Message(
        "ConsumerGroupCurrentMemberAssignmentValue",
        (
            Field("memberEpoch", Primitive.INT32),
            Field("previousMemberEpoch", Primitive.INT32),
            Field("state", Primitive.INT8),
            Field("assignedPartitions", Array(_CURRENT_WITH_EPOCHS)),
            Field("partitionsPendingRevocation", Array(_CURRENT_WITH_EPOCHS)),
        ),
        flexible_since=0,
    ),
)

CONSUMER_GROUP_REGULAR_EXPRESSION = RecordType(
    16,
    "ConsumerGroupRegularExpression",
    (*GROUP_KEY, Field("regularExpression", Primitive.STRING)),
    Message(
        "ConsumerGroupRegularExpressionValue",
        (
            Field("topics", _STRINGS),
            Field("version", Primitive.INT64),
            Field("timestamp", Primitive.INT64, column="timestamp_ms"),
        ),
        flexible_since=0,
    ),
)
