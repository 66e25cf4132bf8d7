"""Determines which internal topics of a streams group are missing. Brokers create these after they have answered a
heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.streams.configured import StatusCode

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from groupledger.coordinator.model.groups.streams.group import StreamsGroup


def missing_topics(group: StreamsGroup | None, known: Container[str]) -> Iterator[tuple[str, int]]:
    """Yields the name and the number of partitions of each internal topic that a group needs and the cluster does not
    have. `known` has the names of the existing topics."""
    configured = None if group is None else group.configured
    if configured is None or configured.status is None:
        return
    if configured.status.code == StatusCode.MISSING_INTERNAL_TOPICS:
        for each in configured.topology.subtopologies:
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
                if topic.name not in known:
                    yield topic.name, topic.partitions
