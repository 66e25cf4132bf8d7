"""Models the member of a streams group (KIP-1071), a thread of Kafka Streams: the fields of its heartbeats, and its
target tasks.

It sends the topology when it joins, and afterwards its current tasks whenever these change. It reads the input topics
of its active tasks, and commits their offsets every `commit.interval.ms` (here the consumer's
`auto_commit_interval_ms`) and before it gives up tasks. The thread itself gives up and takes tasks, so this waits for a
poll. Whether the group is ready is part of the target: the thread acknowledges that, too. States, timing and refusals
are those of every such member (`heartbeat_membership`). It names no rack, as 4.2 does not. Endpoints, client tags and
the shutdown of a whole application are not modelled.

Source: StreamsMembershipManager, StreamsGroupHeartbeatRequestManager of Kafka 4.2's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from groupledger.coordinator.client.heartbeat_membership import HeartbeatMembership, ModernState
from groupledger.coordinator.model.groups.streams.configured import StatusCode
from groupledger.coordinator.model.groups.streams.tasks import TasksByRole
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatResponse
    from groupledger.coordinator.model.messages import Request

NO_ENDPOINTS_KNOWN: Final = -1
_NOT_READY = (
    StatusCode.MISSING_SOURCE_TOPICS,
    StatusCode.MISSING_INTERNAL_TOPICS,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    StatusCode.ASSIGNMENT_DELAYED,
)


class Work(NamedTuple):
    """The target of one member: its tasks, and whether the group's topics and members allow it to run them."""

    tasks: TasksByRole
    is_group_ready: bool


class StreamsMembership(HeartbeatMembership[Work, TasksByRole]):
    _api = StreamsGroupHeartbeatRequest
    _endpoint_epoch = NO_ENDPOINTS_KNOWN

    @property
    def _waits_for_poll(self) -> bool:
        return True

    def _request(self, request_id: int, epoch: int) -> Request:
        is_joining = self.state is ModernState.JOINING
        tasks = TasksByRole() if is_joining or self._current is None else self._current.tasks
        reported: TasksByRole | tuple[None, None, None] = (None, None, None)
        if is_joining or (self.state is not ModernState.LEAVING and tasks != self._said):
            reported = tasks
            self._said = None if is_joining else tasks  # what a member says as it joins, it says once more
        active, standby, warmup = reported
        return StreamsGroupHeartbeatRequest(
            request_id,
            self._config.group_id,
            member_id=self.generation.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self._endpoint_epoch,
            rebalance_timeout_ms=self._config.max_poll_interval_ms if is_joining else -1,
            topology=self._config.topology if is_joining else None,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            process_id=self._config.process_id if is_joining else None,
            client_tags=() if is_joining else None,
            client_id=self._config.client_id,
            client_host=self._config.client_host,
        )

    def _target_in(self, response: StreamsGroupHeartbeatResponse) -> Work | None:
        self._endpoint_epoch = response.endpoint_information_epoch
        is_ready = not any(status.code in _NOT_READY for status in response.status)
        if response.assignment is not None:
            return Work(response.assignment, is_ready)
        if self._target is None or is_ready == self._target.is_group_ready:
            return None
        return self._target._replace(is_group_ready=is_ready)

    def _attainable(self, target: Work) -> Work:
        return target

    def _partitions(self, target: Work) -> Sequence[TopicPartition]:
        """Returns the partitions that the active tasks read: the partition of their number in each input topic."""
        topology = self._config.topology
        subtopologies = () if topology is None else topology.subtopologies
        topics = {each.subtopology_id: each.input_topics() for each in subtopologies}
        found = {
            TopicPartition(topic, number)
            for name, numbers in target.tasks.active
            for topic in topics[name]
            for number in numbers
        }
        return sorted(found)
