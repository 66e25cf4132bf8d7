"""Maps a request about one group, and the type of that group, to the function that handles it.

A request about a missing group is handled by the function for a classic group, because it may create the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.handlers.classic.join_group import join_group
from groupledger.coordinator.model.handlers.classic.membership import heartbeat, leave_group, sync_group
from groupledger.coordinator.model.handlers.consumer.classic_members import (
    heartbeat_as_classic,
    join_as_classic,
    leave_as_classic,
    sync_as_classic,
)
from groupledger.coordinator.model.handlers.consumer.heartbeat import heartbeat_of_consumer, refusal_of_invalid
from groupledger.coordinator.model.handlers.consumer.requests import (
    commit_by_epoch,
    commit_transactional_by_epoch,
    delete_offsets_of_consumers,
)
from groupledger.coordinator.model.handlers.offsets import commit_offsets, commit_transactional_offsets, delete_offsets
from groupledger.coordinator.model.handlers.share.heartbeat import heartbeat_of_share, refusal_of_invalid_share
from groupledger.coordinator.model.handlers.share.requests import refuse_as_not_found, refuse_as_unknown, refuse_join
from groupledger.coordinator.model.handlers.streams.heartbeat import heartbeat_of_streams, refusal_of_invalid_streams
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.handlers.streams.requests import (
    commit_by_streams,
    commit_transactional_by_streams,
    delete_offsets_of_streams,
    join_streams_as_classic,
)
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.any_group import AnyGroup
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Operation
    from groupledger.schemas.kafka.errors import Error

Handlers = dict[type["Request"], "Callable[[Any, Operation], None]"]

# Refusals before any group is looked at.
CHECKS: dict[type[Request], Callable[[Any, Config], Error]] = {
    ConsumerGroupHeartbeatRequest: refusal_of_invalid,
    ShareGroupHeartbeatRequest: refusal_of_invalid_share,
    StreamsGroupHeartbeatRequest: refusal_of_invalid_streams,
}
CLASSIC_HANDLERS: Handlers = {
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    OffsetCommitRequest: commit_offsets,
    TxnOffsetCommitRequest: commit_transactional_offsets,
    OffsetDeleteRequest: delete_offsets,
    ConsumerGroupHeartbeatRequest: heartbeat_of_consumer,
    ShareGroupHeartbeatRequest: heartbeat_of_share,
    StreamsGroupHeartbeatRequest: heartbeat_of_streams,
}
# The same requests about a consumer group.
CONSUMER_HANDLERS: Handlers = {
    JoinGroupRequest: join_as_classic,
    SyncGroupRequest: sync_as_classic,
    HeartbeatRequest: heartbeat_as_classic,
    LeaveGroupRequest: leave_as_classic,
    OffsetCommitRequest: commit_by_epoch,
    TxnOffsetCommitRequest: commit_transactional_by_epoch,
    OffsetDeleteRequest: delete_offsets_of_consumers,
    ConsumerGroupHeartbeatRequest: heartbeat_of_consumer,
    ShareGroupHeartbeatRequest: heartbeat_of_share,
    StreamsGroupHeartbeatRequest: heartbeat_of_streams,
}
# And about a share group.
SHARE_HANDLERS: Handlers = {
    JoinGroupRequest: refuse_join,
    SyncGroupRequest: refuse_as_unknown,
    HeartbeatRequest: refuse_as_unknown,
    LeaveGroupRequest: leave_group,  # as of a group that is not there
    OffsetCommitRequest: refuse_as_not_found,
    TxnOffsetCommitRequest: refuse_as_not_found,
    OffsetDeleteRequest: refuse_as_not_found,
    ConsumerGroupHeartbeatRequest: refuse_as_not_found,
    ShareGroupHeartbeatRequest: heartbeat_of_share,
    StreamsGroupHeartbeatRequest: heartbeat_of_streams,
}
# And about a streams group.
STREAMS_HANDLERS: Handlers = {
    JoinGroupRequest: join_streams_as_classic,
    SyncGroupRequest: refuse_as_unknown,
    HeartbeatRequest: refuse_as_unknown,
    LeaveGroupRequest: leave_group,  # as of a group that is not there
    OffsetCommitRequest: commit_by_streams,
    TxnOffsetCommitRequest: commit_transactional_by_streams,
    OffsetDeleteRequest: delete_offsets_of_streams,
    ConsumerGroupHeartbeatRequest: refuse_as_not_found,
    ShareGroupHeartbeatRequest: heartbeat_of_share,
    StreamsGroupHeartbeatRequest: heartbeat_of_streams,
}

HANDLERS: dict[type[AnyGroup] | None, Handlers] = {
    None: CLASSIC_HANDLERS,  # there is no group
    Group: CLASSIC_HANDLERS,
    ConsumerGroup: CONSUMER_HANDLERS,
    ShareGroup: SHARE_HANDLERS,
    StreamsGroup: STREAMS_HANDLERS,
}
