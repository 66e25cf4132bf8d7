"""The fields of requests and answers about groups, as the request log of a broker prints them.

A broker prints every field of a version in the order of Kafka's JSON message definitions. `BODIES` has the bodies that
the simulator writes, for the versions of a 4.2 client. The constants before `BODIES` are the names of the fields that
importers read, of all versions that a broker of 2.8 to 4.x writes. A body lacks the fields that its version does not
have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from groupledger.schemas.kafka.api_keys import ApiKey

# Who
GROUP_ID = "groupId"
MEMBER_ID = "memberId"
GROUP_INSTANCE_ID = "groupInstanceId"
INSTANCE_ID = "instanceId"  # of the heartbeats of KIP-848
MEMBER_EPOCH = "memberEpoch"
GENERATION_ID = "generationId"
GENERATION_ID_OR_MEMBER_EPOCH = "generationIdOrMemberEpoch"  # of OffsetCommit since 3.5
GENERATIONS = (GENERATION_ID_OR_MEMBER_EPOCH, GENERATION_ID, MEMBER_EPOCH)
MEMBERS = "members"
REASON = "reason"
# Several groups: the list in the request, and the list of answers, whose elements have a groupId.
GROUPS_NAMES = "groupsNames"
GROUPS = "groups"
RESULTS = "results"
GROUP_LISTS = ((GROUPS_NAMES, RESULTS), ("groupIds", GROUPS), (GROUPS, GROUPS))
# FindCoordinator: one key up to version 3, then several.
KEY, KEY_TYPE, KEYS, COORDINATORS = "key", "keyType", "coordinatorKeys", "coordinators"
KEY_TYPE_OF_GROUPS = 0

# Purpose, and result
TOPICS = "topics"
TOPIC_NAME = "name"
TOPIC_ID = "topicId"
PARTITIONS = "partitions"
PARTITION_INDEXES = "partitionIndexes"
PARTITION_INDEX = "partitionIndex"
COMMITTED_OFFSET = "committedOffset"
COMMITTED_LEADER_EPOCH = "committedLeaderEpoch"
COMMITTED_METADATA = "committedMetadata"
ERROR_CODE = "errorCode"
TRANSACTIONAL_ID = "transactionalId"
RESPONSES = "responses"  # the topics in the answer to ShareAcknowledge
THROTTLE_TIME_MS = "throttleTimeMs"
TOPIC_PARTITIONS, ASSIGNMENT = "topicPartitions", "assignment"
# Of streams groups
ACTIVE_TASKS, STANDBY_TASKS, WARMUP_TASKS = "activeTasks", "standbyTasks", "warmupTasks"
TASK_OFFSETS, TASK_END_OFFSETS = "taskOffsets", "taskEndOffsets"
ACCEPTABLE_RECOVERY_LAG, TASK_OFFSET_INTERVAL_MS = "acceptableRecoveryLag", "taskOffsetIntervalMs"
STATUS_CODE, STATUS_DETAIL = "statusCode", "statusDetail"
PARTITIONS_BY_USER_ENDPOINT = "partitionsByUserEndpoint"
ERROR_MESSAGE = "errorMessage"


class ListOf(NamedTuple):
    """A field that is a list of structs."""

    name: str
    fields: tuple[str | ListOf, ...]


Fields = tuple["str | ListOf", ...]


@dataclass(frozen=True, slots=True)
class Bodies:
    """The request of an API in the version of a 4.2 client, and its response."""

    version: int
    request: Fields
    response: Fields


def topics(*partition_fields: str) -> ListOf:
    """Returns the list of topics, each with its partitions."""
    return ListOf(TOPICS, (TOPIC_NAME, ListOf(PARTITIONS, partition_fields)))


_MEMBER = (MEMBER_ID, GROUP_INSTANCE_ID)
_COMMITTED = topics(PARTITION_INDEX, COMMITTED_OFFSET, COMMITTED_LEADER_EPOCH, COMMITTED_METADATA)
_COMMIT_ANSWERED: Fields = (THROTTLE_TIME_MS, topics(PARTITION_INDEX, ERROR_CODE))
_TASKS: Fields = tuple(
    ListOf(name, ("subtopologyId", PARTITIONS)) for name in (ACTIVE_TASKS, STANDBY_TASKS, WARMUP_TASKS)
)
_HEARD: Fields = (THROTTLE_TIME_MS, ERROR_CODE, ERROR_MESSAGE, MEMBER_ID, MEMBER_EPOCH, "heartbeatIntervalMs")
_FETCHED = topics(PARTITION_INDEX, COMMITTED_OFFSET, COMMITTED_LEADER_EPOCH, "metadata", ERROR_CODE)

BODIES = {
    ApiKey.OFFSET_COMMIT: Bodies(
        9, (GROUP_ID, GENERATION_ID_OR_MEMBER_EPOCH, *_MEMBER, _COMMITTED), response=_COMMIT_ANSWERED
    ),
    ApiKey.OFFSET_FETCH: Bodies(
        9,
        (
            ListOf(GROUPS, (GROUP_ID, MEMBER_ID, MEMBER_EPOCH, ListOf(TOPICS, (TOPIC_NAME, PARTITION_INDEXES)))),
            "requireStable",
        ),
        (THROTTLE_TIME_MS, ListOf(GROUPS, (GROUP_ID, _FETCHED, ERROR_CODE))),
    ),
    ApiKey.JOIN_GROUP: Bodies(
        9,
        (
            *(GROUP_ID, "sessionTimeoutMs", "rebalanceTimeoutMs", *_MEMBER, "protocolType"),
            *(ListOf("protocols", ("name", "metadata")), REASON),
        ),
        (
            *(THROTTLE_TIME_MS, ERROR_CODE, GENERATION_ID, "protocolType", "protocolName", "leader"),
            *("skipAssignment", MEMBER_ID, ListOf(MEMBERS, (*_MEMBER, "metadata"))),
        ),
    ),
    ApiKey.HEARTBEAT: Bodies(4, (GROUP_ID, GENERATION_ID, *_MEMBER), (THROTTLE_TIME_MS, ERROR_CODE)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Bodies(
        1,
        (
            *(GROUP_ID, MEMBER_ID, MEMBER_EPOCH, INSTANCE_ID, "rackId", "rebalanceTimeoutMs"),
            *("subscribedTopicNames", "subscribedTopicRegex", "serverAssignor", TOPIC_PARTITIONS),
        ),
        (*_HEARD, ASSIGNMENT),
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Bodies(
        1, (GROUP_ID, MEMBER_ID, MEMBER_EPOCH, "rackId", "subscribedTopicNames"), (*_HEARD, ASSIGNMENT)
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Bodies(
        0,
        (
            *(GROUP_ID, MEMBER_ID, MEMBER_EPOCH, "endpointInformationEpoch", INSTANCE_ID, "rackId"),
            *("rebalanceTimeoutMs", "topology", *_TASKS, "processId", "userEndpoint", "clientTags"),
            *(TASK_OFFSETS, TASK_END_OFFSETS, "shutdownApplication"),
        ),
        (
            *(*_HEARD, ACCEPTABLE_RECOVERY_LAG, TASK_OFFSET_INTERVAL_MS),
            *(ListOf("status", (STATUS_CODE, STATUS_DETAIL)), *_TASKS),
            *("endpointInformationEpoch", PARTITIONS_BY_USER_ENDPOINT),
        ),
    ),
    ApiKey.LEAVE_GROUP: Bodies(
        5,
        (GROUP_ID, ListOf(MEMBERS, (*_MEMBER, REASON))),
        (THROTTLE_TIME_MS, ERROR_CODE, ListOf(MEMBERS, (*_MEMBER, ERROR_CODE))),
    ),
    ApiKey.SYNC_GROUP: Bodies(
        5,
        (
            *(GROUP_ID, GENERATION_ID, *_MEMBER, "protocolType", "protocolName"),
            ListOf("assignments", (MEMBER_ID, ASSIGNMENT)),
        ),
        (THROTTLE_TIME_MS, ERROR_CODE, "protocolType", "protocolName", ASSIGNMENT),
    ),
    ApiKey.TXN_OFFSET_COMMIT: Bodies(
        5,
        (TRANSACTIONAL_ID, GROUP_ID, "producerId", "producerEpoch", GENERATION_ID, *_MEMBER, _COMMITTED),
        response=_COMMIT_ANSWERED,
    ),
    ApiKey.DELETE_GROUPS: Bodies(2, (GROUPS_NAMES,), (THROTTLE_TIME_MS, ListOf(RESULTS, (GROUP_ID, ERROR_CODE)))),
    ApiKey.OFFSET_DELETE: Bodies(
        0, (GROUP_ID, topics(PARTITION_INDEX)), (ERROR_CODE, THROTTLE_TIME_MS, topics(PARTITION_INDEX, ERROR_CODE))
    ),
}
