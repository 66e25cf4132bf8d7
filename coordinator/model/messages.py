"""Requests and responses of the group coordinator, as plain data.

Fields have Kafka's names in snake case, with units last. `request_id` is the caller's correlation id and not negative.
A response carries the id of the request that it answers, which may be an earlier one than the one just handled. Kafka's
lists of topics with partitions are flat lists of partitions here, in the order of the request. A request has an
`api_version` if its version changes what the coordinator does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from groupledger.coordinator.model.partitions import Partitions
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.kafka.topic_partition import TopicPartition

NO_GENERATION = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_RETENTION_TIME = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member offers, in its order of preference, as (protocol name, metadata)."""


@dataclass(frozen=True, slots=True)
class Request:
    request_id: int


@dataclass(frozen=True, slots=True)
class GroupRequest(Request):
    """A request about one group. Only OffsetCommit may name the empty group id."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Response:
    request_id: int


# Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest(GroupRequest):
    """A JoinGroup request. `new_member_uuid` is the random UUID that the broker would make if this member needs a new
    id; in a consumer group it is that id."""

    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    new_member_uuid: str
    group_instance_id: str | None = None
    reason: str | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    api_version: int = 9


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse(Response):
    error: Error
    member_id: str = ""
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest(GroupRequest):
    """A SyncGroup request. `assignments` are (member id, assignment) pairs, which only the leader sends."""

    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    api_version: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse(Response):
    error: Error
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(GroupRequest):
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(Response):
    error: Error


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest(GroupRequest):
    members: tuple[LeavingMember, ...]
    api_version: int = 5


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None
    error: Error


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse(Response):
    error: Error
    members: tuple[LeftMember, ...] = ()


# Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """An offset in a commit request. `topic_id` is the id by which the client named the topic (since API version 10);
    the caller has resolved it to `topic`."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    topic_id: str = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(GroupRequest):
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = NO_RETENTION_TIME
    api_version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest(GroupRequest):
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    api_version: int = 5


class PartitionResult(NamedTuple):  # a tuple, because one is built with every committed offset
    topic: str
    partition: int
    error: Error


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse(Response):
    """The response to OffsetCommit and to TxnOffsetCommit."""

    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkerRequest(Request):
    """The transaction coordinator's request to one `__consumer_offsets` partition to write the marker that ends a
    transaction."""

    partition: int
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True)
class WriteTxnMarkerResponse(Response):
    error: Error


@dataclass(frozen=True, slots=True)
class OffsetFetchGroup:
    """A group in an OffsetFetch. If `partitions` is None, all partitions with an offset are requested. A member of a
    KIP-848 consumer group sends its id and epoch (since API version 9)."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest(Request):
    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    group_id: str
    error: Error
    partitions: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse(Response):
    groups: tuple[FetchedGroup, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest(GroupRequest):
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse(Response):
    error: Error
    partitions: tuple[PartitionResult, ...] = ()


# Administration


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(Request):
    group_ids: tuple[str, ...]
    api_version: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    error: Error
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse(Response):
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(Request):
    """A ListGroups request. An empty filter accepts every group; both filters ignore case."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListGroupsResponse(Response):
    error: Error
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest(Request):
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    group_id: str
    error: Error


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse(Response):
    results: tuple[DeletedGroup, ...]


# Consumer groups of KIP-848


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(GroupRequest):
    """A heartbeat of a KIP-848 group's member. Fields that the member did not send are None (-1 for
    `rebalance_timeout_ms`). `new_member_id` is the id that the broker would make for a member of API version 0 that has
    none."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    new_member_id: str = ""
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    api_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(Response):
    """The response to a heartbeat of a KIP-848 group's member. `assignment` is None if it did not change for the
    member."""

    error: Error
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest(Request):
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: Partitions
    target: Partitions
    is_classic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    group_id: str
    error: Error
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse(Response):
    groups: tuple[DescribedConsumerGroup, ...]


# Share groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatRequest(GroupRequest):
    """A heartbeat of a share group's member. Fields that the member did not send are None."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResponse(Response):
    """The response to a heartbeat of a share group's member. `assignment` is None if it did not change for the
    member."""

    error: Error
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest(Request):
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    group_id: str
    error: Error
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse(Response):
    groups: tuple[DescribedShareGroup, ...]


ERROR_RESPONSES: dict[type[Request], Callable[..., Response]] = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
    WriteTxnMarkerRequest: WriteTxnMarkerResponse,
    ListGroupsRequest: ListGroupsResponse,
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    ShareGroupHeartbeatRequest: ShareGroupHeartbeatResponse,
}


def refusal(request: Any, error: Error) -> Response:
    """Returns the response that refuses the whole request with this error."""
    if isinstance(request, (OffsetCommitRequest, TxnOffsetCommitRequest)):
        results = (PartitionResult(offset.topic, offset.partition, error) for offset in request.offsets)
        return OffsetCommitResponse(request.request_id, tuple(results))
    if isinstance(request, DeleteGroupsRequest):
        deleted = (DeletedGroup(group_id, error) for group_id in request.group_ids)
        return DeleteGroupsResponse(request.request_id, tuple(deleted))
    return ERROR_RESPONSES[type(request)](request.request_id, error=error)
