"""Requests and responses about streams groups (KIP-1071), as plain data (see `messages`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.streams.tasks import TasksByRole
from groupledger.coordinator.model.messages import ERROR_RESPONSES, GroupRequest, Request, Response

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.configured import Status
    from groupledger.coordinator.model.groups.streams.endpoints import EndpointPartitions
    from groupledger.coordinator.model.groups.streams.member import Endpoint
    from groupledger.coordinator.model.groups.streams.tasks import TaskIds
    from groupledger.coordinator.model.groups.streams.topology import KeyValue, Topology
    from groupledger.schemas.kafka.errors import Error


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatRequest(GroupRequest):
    """A heartbeat of a streams group's member. Fields that the member did not send are None (-1 for
    `rebalance_timeout_ms`)."""

    member_id: str
    member_epoch: int
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: TaskIds | None = None
    standby_tasks: TaskIds | None = None
    warmup_tasks: TaskIds | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    shutdown_application: bool = False
    client_id: str = ""
    client_host: str = "/127.0.0.1"

    def owned_tasks(self) -> TasksByRole | None:
        """Returns the tasks that the member reports. Returns None if it does not report all three roles."""
        if self.active_tasks is None or self.standby_tasks is None or self.warmup_tasks is None:
            return None
        return TasksByRole(self.active_tasks, self.standby_tasks, self.warmup_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatResponse(Response):
    """The response to a heartbeat of a streams group's member. `assignment` and `endpoints` are None if they did not
    change for the member."""

    error: Error
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    status: tuple[Status, ...] = ()
    assignment: TasksByRole | None = None
    endpoint_information_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest(Request):
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]
    assignment: TasksByRole
    target: TasksByRole


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsGroup:
    """The description of a streams group. Its topology has neither regular expressions nor copartition groups."""

    group_id: str
    error: Error
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: tuple[DescribedStreamsMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse(Response):
    groups: tuple[DescribedStreamsGroup, ...]


ERROR_RESPONSES[StreamsGroupHeartbeatRequest] = StreamsGroupHeartbeatResponse
