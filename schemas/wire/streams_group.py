"""Streams groups of KIP-1071: record types 17 and 19 to 23, `StreamsGroup*Key/Value.json`.

All values are version 0 and flexible. The defaults of the nullable tagged arrays are empty, not null,
as Kafka's are. Kafka 4.4 added the epochs of the last topology whose description it has stored, or could not store
(KIP-1331).
"""

from groupledger.schemas.wire.consumer_group import (
    ASSIGNMENT_EPOCHS,
    GROUP_KEY,
    MEMBER_KEY,
    TARGET_ASSIGNMENT_METADATA,
)
from groupledger.schemas.wire.model import EVERY, Array, Field, Message, Primitive, RecordType, Struct

_STRINGS = Array(Primitive.STRING)
_INT16S = Array(Primitive.INT16)
_INT32S = Array(Primitive.INT32)
_KEY_VALUE = (Field("key", Primitive.STRING), Field("value", Primitive.STRING))

LAST_ASSIGNMENT_CONFIG = Struct("LastAssignmentConfig", _KEY_VALUE)
STREAMS_GROUP_METADATA = RecordType(
    17,
    "StreamsGroupMetadata",
    GROUP_KEY,
    Message(
        "StreamsGroupMetadataValue",
        (
            Field("epoch", Primitive.INT32),
            Field("metadataHash", Primitive.INT64),
            Field("validatedTopologyEpoch", Primitive.INT32, tag=0, default=-1),
            Field("lastAssignmentConfigs", Array(LAST_ASSIGNMENT_CONFIG), nullable=EVERY, tag=1),
            Field("storedDescriptionTopologyEpoch", Primitive.INT32, tag=2, default=-1),
            Field("failedDescriptionTopologyEpoch", Primitive.INT32, tag=3, default=-1),
        ),
        flexible_since=0,
    ),
)

ENDPOINT = Struct("Endpoint", (Field("host", Primitive.STRING), Field("port", Primitive.UINT16)))
KEY_VALUE = Struct("KeyValue", _KEY_VALUE)
STREAMS_GROUP_MEMBER_METADATA = RecordType(
    19,
    "StreamsGroupMemberMetadata",
    MEMBER_KEY,
    Message(
        "StreamsGroupMemberMetadataValue",
        (
            Field("instanceId", Primitive.STRING, nullable=EVERY),
            Field("rackId", Primitive.STRING, nullable=EVERY),
            Field("clientId", Primitive.STRING),
            Field("clientHost", Primitive.STRING),
            Field("rebalanceTimeoutMs", Primitive.INT32, default=-1),
            Field("topologyEpoch", Primitive.INT32),
            Field("processId", Primitive.STRING),
            Field("userEndpoint", ENDPOINT, nullable=EVERY, default=None),
            Field("clientTags", Array(KEY_VALUE)),
        ),
        flexible_since=0,
    ),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = RecordType(
    20,
    "StreamsGroupTargetAssignmentMetadata",
    GROUP_KEY,
    Message(
        "StreamsGroupTargetAssignmentMetadataValue",
        TARGET_ASSIGNMENT_METADATA,
        flexible_since=0,
    ),
)

_TASK_IDS = (Field("subtopologyId", Primitive.STRING), Field("partitions", _INT32S))
TARGET_TASK_IDS = Struct("TaskIds", _TASK_IDS)
CURRENT_TASK_IDS = Struct("TaskIds", (*_TASK_IDS, ASSIGNMENT_EPOCHS))
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordType(
    21,
    "StreamsGroupTargetAssignmentMember",
    MEMBER_KEY,
    Message(
        "StreamsGroupTargetAssignmentMemberValue",
        (
            Field("activeTasks", Array(TARGET_TASK_IDS)),
            Field("standbyTasks", Array(TARGET_TASK_IDS)),
            Field("warmupTasks", Array(TARGET_TASK_IDS)),
        ),
        flexible_since=0,
    ),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = RecordType(
    22,
    "StreamsGroupCurrentMemberAssignment",
    MEMBER_KEY,
    Message(
        "StreamsGroupCurrentMemberAssignmentValue",
        (
            Field("memberEpoch", Primitive.INT32),
            Field("previousMemberEpoch", Primitive.INT32),
            Field("state", Primitive.INT8),
            Field("activeTasks", Array(CURRENT_TASK_IDS)),
            Field("standbyTasks", Array(CURRENT_TASK_IDS)),
            Field("warmupTasks", Array(CURRENT_TASK_IDS)),
            Field("activeTasksPendingRevocation", Array(CURRENT_TASK_IDS)),
            Field("standbyTasksPendingRevocation", Array(CURRENT_TASK_IDS)),
            Field("warmupTasksPendingRevocation", Array(CURRENT_TASK_IDS)),
        ),
        flexible_since=0,
    ),
)

TOPIC_CONFIG = Struct("TopicConfig", _KEY_VALUE)
TOPIC_INFO = Struct(
    "TopicInfo",
    (
        Field("name", Primitive.STRING),
        Field("partitions", Primitive.INT32),
        Field("replicationFactor", Primitive.INT16),
        Field("topicConfigs", Array(TOPIC_CONFIG)),
    ),
)
COPARTITION_GROUP = Struct(
    "CopartitionGroup",
    (
        Field("sourceTopics", _INT16S),
        Field("sourceTopicRegex", _INT16S),
        Field("repartitionSourceTopics", _INT16S),
    ),
)
SUBTOPOLOGY = Struct(
    "Subtopology",
    (
        Field("subtopologyId", Primitive.STRING),
        Field("sourceTopics", _STRINGS),
        Field("sourceTopicRegex", _STRINGS),
        Field("stateChangelogTopics", Array(TOPIC_INFO)),
        Field("repartitionSinkTopics", _STRINGS),
        Field("repartitionSourceTopics", Array(TOPIC_INFO)),
        Field("copartitionGroups", Array(COPARTITION_GROUP)),
    ),
)
STREAMS_GROUP_TOPOLOGY = RecordType(
    23,
    "StreamsGroupTopology",
    GROUP_KEY,
    Message(
        "StreamsGroupTopologyValue",
        (Field("epoch", Primitive.INT32), Field("subtopologies", Array(SUBTOPOLOGY))),
        flexible_since=0,
    ),
)
