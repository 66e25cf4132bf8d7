"""Lists, for each member that has an endpoint (at which its state can be queried), the partitions of its tasks.

If a topic has fewer partitions than its subtopology has tasks, a 4.2 broker lists as many of the member's tasks as the
topic has partitions, and a 4.4 broker those whose partitions there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.groups.streams.tasks import by_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.model.groups.modern.topics import Topic
    from groupledger.coordinator.model.groups.streams.configured import ConfiguredTopology
    from groupledger.coordinator.model.groups.streams.member import Endpoint, StreamsMember
    from groupledger.coordinator.model.groups.streams.tasks import TaskIds


class EndpointPartitions(NamedTuple):
    """The partitions of a member that has an endpoint, by topic: those of its active tasks, and those of its
    standbys."""

    user_endpoint: Endpoint
    active: TaskIds
    standby: TaskIds


def endpoints_of(
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology | None,
    topics: Mapping[str, Topic],
    *,
    by_number: bool,
) -> tuple[EndpointPartitions, ...]:
    """Returns the partitions of each member that has an endpoint, as a 4.4 broker does if `by_number`. Raises
    IllegalStateError, as a broker throws, if topics of the topology are missing."""
    found = []
    for member in members:
        if member.user_endpoint is not None:
            if configured is None or not configured.task_counts:
                raise IllegalStateError(f"{member.member_id} has an endpoint, and the topology is not configured")
            inputs = {each.subtopology_id: each.input_topics() for each in configured.topology.subtopologies}
            tasks = by_role(member.assigned)
            active, standby = (_partitions(each, inputs, topics, by_number) for each in (tasks.active, tasks.standby))
            found.append(EndpointPartitions(member.user_endpoint, active, standby))
    return tuple(found)


def _partitions(
    tasks: TaskIds,
    inputs: Mapping[str, tuple[str, ...]],
    topics: Mapping[str, Topic],
    by_number: bool,
) -> TaskIds:
    found = []
    for subtopology_id, numbers in tasks:
        for name in dict.fromkeys(inputs[subtopology_id]):
            if name not in topics:
                raise IllegalStateError(f"{name} is not there")
            count = topics[name].partition_count
            found.append((name, tuple(each for each in numbers if each < count) if by_number else numbers[:count]))
    return tuple(sorted(each for each in found if each[1]))
