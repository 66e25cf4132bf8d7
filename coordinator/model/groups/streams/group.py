"""Models a streams group (KIP-1071): its topology, its members, the target of each, and the current tasks.

State that the log has changes only by applying records: `apply` takes those of types 17 and 19 to 23, when they are
appended and when a log is loaded. Five values are not in the log: the configured topology, the number of times that
endpoints were sent, the member that requested a shutdown of the application, the configured topology that a
description shows (`shown`), and the plan. A group that its first member has just created has none of them, since a
broker builds it again from that member's records.

The plan is the target to which members go, with its epoch. With 4.2 it always is the target of the records. A 4.4
broker keeps the plan that the first request of an epoch made, even if that request then failed. After a failed append,
a broker has the plan of before; this is not modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupledger.coordinator.model.groups.modern.epochs import NO_EPOCH
from groupledger.coordinator.model.groups.modern.states import ASSIGNING, EMPTY, RECONCILING, STABLE
from groupledger.coordinator.model.groups.modern.static_members import GroupWithStaticMembers
from groupledger.coordinator.model.groups.streams.member import StreamsMember
from groupledger.coordinator.model.groups.streams.records import TOPOLOGY, TYPES, GroupWords, streams_group_tombstones
from groupledger.coordinator.model.groups.streams.tasks import Task, TasksByRole, tasks_of
from groupledger.coordinator.model.groups.streams.topology import KeyValue, topology_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from groupledger.coordinator.model.groups.streams.configured import ConfiguredTopology
    from groupledger.coordinator.model.groups.streams.tasks import Tasks
    from groupledger.coordinator.model.groups.streams.topology import Topology
    from groupledger.schemas.codec.records import Record

NOT_READY: Final = "NotReady"


class StreamsGroup(GroupWithStaticMembers[StreamsMember, "Tasks"]):
    __slots__ = (
        "_holders",
        "configured",
        "endpoint_epoch",
        "plan",
        "shown",
        "shutdown_member_id",
        "topology",
        "words",
    )
    group_type = "streams"
    record_types = TYPES

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        super().__init__(group_id, first_epoch)
        self.words = GroupWords()
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.shown: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.plan: tuple[int, Mapping[str, Tasks]] = (NO_EPOCH, {})
        self.shutdown_member_id: str | None = None
        self._holders: dict[Task, dict[str, str]] = {}

    @property
    def state(self) -> str:
        if not len(self.members):
            return EMPTY
        if self.topology is None or self.topology.epoch != self.words.validated_topology_epoch:
            return NOT_READY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        are_there = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if are_there else RECONCILING

    def processes_with(self, task: Task) -> Collection[str]:
        """Returns the processes of the members that have a task or still have to give it up."""
        return self._holders.get(task, {}).values()

    def targets_with(self, member: StreamsMember) -> dict[str, Tasks]:
        """Returns the target of each member, as if `member` was there, which may replace a static one."""
        targets = {each.member_id: self.target.get(each.member_id) for each in self.others(member)}
        targets[member.member_id] = self.recorded_target(member.member_id, member.instance_id)
        return {name: target for name, target in targets.items() if target is not None}

    def rename_in_plan(self, instance_id: str | None, member_id: str) -> None:
        """Gives the part of a static member in the plan to `member_id`, which has sent its instance id. A broker does
        so even if it then refuses the request."""
        known = None if instance_id is None else self.static_members.get(instance_id)
        epoch, tasks = self.plan
        if known in tasks:
            self.plan = epoch, {member_id if name == known else name: each for name, each in tasks.items()}

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return self.state != EMPTY and topic in self.subtopology_by_topic()

    def subtopology_by_topic(self) -> dict[str, str]:
        """Returns the subtopology that reads each topic."""
        read = () if self.topology is None else self.topology.in_hash_order()
        return {topic: each.subtopology_id for each in read for topic in each.input_topics()}

    def tombstones(self) -> list[Record]:
        return streams_group_tombstones(self.group_id)

    def apply(self, record: Record) -> None:
        super().apply(record)
        if not len(self.members):
            self.shutdown_member_id = None

    def _apply_epoch(self, value: Mapping[str, Any]) -> None:
        super()._apply_epoch(value)
        configs = tuple(KeyValue(each["key"], each["value"]) for each in value["last_assignment_configs"] or ())
        self.words = GroupWords(value["metadata_hash"], value["validated_topology_epoch"], configs)

    def _apply_other(self, record: Record) -> None:
        if record.record_type == TOPOLOGY:
            self.topology = None if record.value is None else topology_of(record.value)

    def _target_of(self, value: Mapping[str, Any]) -> Tasks:
        listed = TasksByRole(
            *(
                tuple((each["subtopology_id"], tuple(each["partitions"])) for each in value[name])
                for name in ("active_tasks", "standby_tasks", "warmup_tasks")
            )
        )
        return tasks_of(listed)

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id=member_id)

    def _remove(self, member: StreamsMember) -> None:
        self._replace(member, member.with_assignment(None))
        super()._remove(member)

    def _replace(self, before: StreamsMember | None, after: StreamsMember) -> None:
        for task in () if before is None else (*before.assigned, *before.pending_revocation):
            self._holders[task].pop(after.member_id, None)
        for task in (*after.assigned, *after.pending_revocation):
            self._holders.setdefault(task, {})[after.member_id] = after.process_id
        if before is not None and before.instance_id is not None:
            self.static_members.pop(before.instance_id, None)
        super()._replace(before, after)
