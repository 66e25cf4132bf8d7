"""Describes a group as an administrator does, with the request of its type, and converts the response to a row of a
sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.coordinator.model.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.handlers.streams.messages import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedShareGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from groupledger.schemas.words import GroupType

if TYPE_CHECKING:
    from collections.abc import Mapping

DescribeRequest: TypeAlias = (
    DescribeGroupsRequest | ConsumerGroupDescribeRequest | ShareGroupDescribeRequest | StreamsGroupDescribeRequest
)
DescribedOfAnyType: TypeAlias = DescribedGroup | DescribedConsumerGroup | DescribedShareGroup | DescribedStreamsGroup
DESCRIBE_RESPONSES = (
    DescribeGroupsResponse,
    ConsumerGroupDescribeResponse,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeResponse,
)
_REQUESTS: Mapping[type[Any], type[DescribeRequest]] = {
    ConsumerGroup: ConsumerGroupDescribeRequest,
    ShareGroup: ShareGroupDescribeRequest,
    StreamsGroup: StreamsGroupDescribeRequest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroupState:
    """A group's description in one round of samples. `error` is the name of the error, or None if there was none."""

    sampled_at_ms: int
    group_id: str
    group_type: str = GroupType.CLASSIC
    state: str
    protocol_type: str
    protocol: str
    member_count: int
    group_epoch: int | None = None
    error: str | None


def describe_request_of(group: ConsumerGroup | ShareGroup | StreamsGroup | None) -> type[DescribeRequest]:
    """Returns the type of the request that describes a group. `group` is None for a classic group, or if there is no
    such group."""
    return _REQUESTS.get(type(group), DescribeGroupsRequest)


def group_state(now_ms: int, group: DescribedOfAnyType) -> SimulatedGroupState:
    of_type: dict[str, Any]
    if isinstance(group, DescribedGroup):
        of_type = {"protocol_type": group.protocol_type, "protocol": group.protocol_data}
    elif isinstance(group, DescribedConsumerGroup):
        of_type = {"group_type": GroupType.CONSUMER, "protocol": group.assignor, "group_epoch": group.group_epoch}
        of_type["protocol_type"] = CONSUMER_PROTOCOL_TYPE
    elif isinstance(group, DescribedShareGroup):
        of_type = {"group_type": GroupType.SHARE, "protocol": group.assignor, "group_epoch": group.group_epoch}
        of_type["protocol_type"] = GroupType.SHARE
    else:
        of_type = {"group_type": GroupType.STREAMS, "protocol": "", "group_epoch": group.group_epoch}
        of_type["protocol_type"] = GroupType.STREAMS
    return SimulatedGroupState(
        sampled_at_ms=now_ms,
        group_id=group.group_id,
        state=group.group_state,
        member_count=len(group.members),
        error=group.error.name if group.error else None,
        **of_type,
    )
