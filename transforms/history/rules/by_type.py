"""Handles what only share groups or only streams groups have: partitions that can be shared, the topology, and which
task reads which partition.

A share group's epoch without another cause has one of two causes: partitions became ready to be shared, or a member
left and its partitions, which the newest target assigns to nobody, are given to others (seen in a real 4.2 broker's
log).

A task of a subtopology reads the partition of its number in each source topic of the subtopology. No record says how
many partitions a topic has: where a subtopology reads topics of different sizes without joining them, a task may be
reported as the owner of a partition that does not exist. No record names the topics that match a regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import changes as kinds
from groupledger.schemas.words import TaskRole
from groupledger.transforms.history.rules.changes import change
from groupledger.transforms.history.rules.modern_records import CurrentAssignment
from groupledger.transforms.history.rules.modern_state import Topology, by_topic
from groupledger.transforms.history.rules.rows import put_topology

if TYPE_CHECKING:
    from groupledger.transforms.history.rules.changes import Change
    from groupledger.transforms.history.rules.modern_records import EpochRecord, Units
    from groupledger.transforms.history.rules.modern_state import Reconciliation
    from groupledger.transforms.history.rules.rows import HistoryRows, IntervalEnd
    from groupledger.transforms.history.rules.state import OpenGroup
    from groupledger.transforms.history.rules.streams_records import CurrentTasks, Tasks, TopologyRecord


def changes_of_epoch(state: Reconciliation, record: EpochRecord) -> list[Change]:
    """Returns those changes of an epoch that only share groups or only streams groups have. Stores the compared values
    in `state` for the next epoch."""
    found = []
    before, state.shareable_before = state.shareable_before, state.shareable
    if before is not None and state.shareable is not None:
        ready = by_topic(sorted(set(state.shareable) - set(before)))
        found += [change(kinds.PARTITIONS_INITIALIZED, topic=topic, partitions=ready[topic]) for topic in ready]
    was_ready, state.is_topology_ready = state.is_topology_ready, record.is_topology_ready
    if was_ready is not None and was_ready != record.is_topology_ready:
        found.append(change(kinds.TOPOLOGY_READY if record.is_topology_ready else kinds.TOPOLOGY_NOT_READY))
    configs = [list(pair) for pair in record.assignment_configs]
    configs_before, state.assignment_configs = state.assignment_configs, configs
    if configs_before is not None and configs_before != configs:
        found.append(change(kinds.ASSIGNMENT_CONFIGURED))
    return found


def fold_topology(
    group: OpenGroup, state: Reconciliation, record: TopologyRecord, rows: HistoryRows, here: IntervalEnd
) -> bool:
    """Replaces the group's topology by that of `record`, and writes the rows of both. Returns whether the group is
    known to have had another topology before."""
    before = state.topology
    subtopologies = [*record.subtopologies]
    if before is not None and (before.epoch, before.subtopologies) == (record.epoch, subtopologies):
        return False
    if before is not None:
        put_topology(rows, group, before, here)
        state.topology = None
    if record.epoch is not None:
        state.topology = Topology(
            epoch=record.epoch,
            subtopologies=subtopologies,
            from_offset=here.kafka_offset,
            valid_from_ms=here.at_ms,
        )
        put_topology(rows, group, state.topology)
    return before is not None and here.is_known


def partitions_of(topology: Topology | None, tasks: Tasks) -> Units:
    """Returns the partitions that the active tasks in `tasks` read; an empty tuple if the topology is not known."""
    parts = {} if topology is None else {part["subtopology"]: part for part in topology.subtopologies}
    found = {
        TopicPartition(topic, task.partition)
        for task in tasks
        if task.role == TaskRole.ACTIVE and task.subtopology in parts
        for name in ("source_topics", "repartition_source_topics")
        for topic in parts[task.subtopology][name]
    }
    return tuple(sorted(found))


def current_of(topology: Topology | None, tasks: CurrentTasks) -> CurrentAssignment:
    assigned, pending = partitions_of(topology, tasks.tasks), partitions_of(topology, tasks.pending)
    return CurrentAssignment(tasks.member_epoch, tasks.previous_member_epoch, tasks.state, assigned, pending)
