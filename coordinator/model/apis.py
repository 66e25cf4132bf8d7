"""Maps each request to the coordinator to its API."""

from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.api_keys import ApiKey

API_OF_REQUEST: dict[type[Request], ApiKey] = {
    JoinGroupRequest: ApiKey.JOIN_GROUP,
    SyncGroupRequest: ApiKey.SYNC_GROUP,
    HeartbeatRequest: ApiKey.HEARTBEAT,
    ConsumerGroupHeartbeatRequest: ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest: ApiKey.SHARE_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatRequest: ApiKey.STREAMS_GROUP_HEARTBEAT,
    LeaveGroupRequest: ApiKey.LEAVE_GROUP,
    OffsetCommitRequest: ApiKey.OFFSET_COMMIT,
    TxnOffsetCommitRequest: ApiKey.TXN_OFFSET_COMMIT,
    OffsetFetchRequest: ApiKey.OFFSET_FETCH,
    OffsetDeleteRequest: ApiKey.OFFSET_DELETE,
    DeleteGroupsRequest: ApiKey.DELETE_GROUPS,
}
