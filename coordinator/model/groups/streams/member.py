"""A member of a streams group, as the records of types 19 and 22 describe it.

Members are immutable, as those of consumer groups are. One member is one thread of an application. The members of one
process have the same `process_id`, and no process has a task twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.modern.epochs import LEFT
from groupledger.coordinator.model.groups.modern.states import RecordedState
from groupledger.coordinator.model.groups.streams.tasks import NO_ASSIGNMENT_EPOCH, Held, Task
from groupledger.coordinator.model.groups.streams.topology import KeyValue
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Mapping


class StreamsMemberState(RecordedState):
    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address at which other instances of the application can query the state of a process."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()  # by key
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: Held = field(default_factory=dict)
    pending_revocation: Held = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def with_subscription(self, value: Mapping[str, Any]) -> StreamsMember:
        endpoint = value["user_endpoint"]
        return replace(
            self,
            instance_id=value["instance_id"],
            rack_id=value["rack_id"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            rebalance_timeout_ms=value["rebalance_timeout_ms"],
            topology_epoch=value["topology_epoch"],
            process_id=value["process_id"],
            user_endpoint=None if endpoint is None else Endpoint(endpoint["host"], endpoint["port"]),
            client_tags=tuple(KeyValue(each["key"], each["value"]) for each in value["client_tags"]),
        )

    def with_assignment(self, value: Mapping[str, Any] | None) -> StreamsMember:
        """Returns the member as the value of a record of type 22 describes it. After the tombstone (None) it has no
        tasks and no epoch."""
        if value is None:
            return replace(self, epoch=LEFT, previous_epoch=LEFT, assigned={}, pending_revocation={})
        return replace(
            self,
            epoch=value["member_epoch"],
            previous_epoch=value["previous_member_epoch"],
            state=StreamsMemberState(value["state"]),
            assigned=_held(value, "", value["member_epoch"]),
            pending_revocation=_held(value, "_pending_revocation", value["member_epoch"]),
        )


def _held(value: Mapping[str, Any], suffix: str, member_epoch: int) -> Held:
    found: Held = {}
    for role in (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP):
        for each in value[f"{role}_tasks{suffix}"]:
            epochs = each["assignment_epochs"] or []
            if role != TaskRole.ACTIVE:
                epochs = [NO_ASSIGNMENT_EPOCH] * len(each["partitions"])
            elif len(epochs) != len(each["partitions"]):
                epochs = [member_epoch] * len(each["partitions"])
            for partition, epoch in zip(each["partitions"], epochs, strict=True):
                found[Task(role, each["subtopology_id"], partition)] = epoch
    return found
