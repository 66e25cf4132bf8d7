"""Handles StreamsGroupHeartbeat: how a member joins a streams group (KIP-1071), moves to its target, and leaves.

One heartbeat writes in this order: the member's settings, the topology if the group has none yet, a new epoch of the
group if the member, the topics, the configured topology or the assignment's settings changed, a new target for that
epoch, and the member's step to its target. The first epoch is 2. While the topology lacks topics, the target is empty
for everybody. A member that leaves, or whose session ends, is removed: that is a new epoch, whose target the next
heartbeat of another member computes. The target of a new group may wait for more members to join.

A 4.2 broker refuses another topology of a newer epoch as an invalid request: it never returns
STREAMS_INVALID_TOPOLOGY_EPOCH and STREAMS_TOPOLOGY_FENCED.

The assignment of tasks is an input (`groups/streams/assignors.py`). Not modelled: settings of single groups; internal
topics, which a broker creates after its response (the caller adds them to the coordinator's topics); the refusal of
the names of Kafka's own topics; source topics by regular expressions, which 4.2 ignores; and a broker's log lines
about streams groups. A rebalance timer that was set before a failed append stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.modern.epochs import LEFT
from groupledger.coordinator.model.groups.modern.topics import metadata_hash
from groupledger.coordinator.model.groups.streams.assignors import TasksToAssign, check_legal
from groupledger.coordinator.model.groups.streams.configured import Status, StatusCode, configure
from groupledger.coordinator.model.groups.streams.endpoints import endpoints_of
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.groups.streams.member import StreamsMember, StreamsMemberState
from groupledger.coordinator.model.groups.streams.reconciliation import StreamsReconciliation
from groupledger.coordinator.model.groups.streams.records import (
    NOT_VALIDATED,
    GroupWords,
    new_streams_current_record,
    new_streams_epoch_record,
    new_streams_member_record,
    new_streams_target_record,
    new_streams_topology_record,
)
from groupledger.coordinator.model.groups.streams.tasks import TasksByRole, by_role, tasks_of
from groupledger.coordinator.model.groups.streams.topology import KeyValue
from groupledger.coordinator.model.handlers.streams.messages import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.configured import ConfiguredTopology
    from groupledger.coordinator.model.groups.streams.tasks import Tasks
    from groupledger.coordinator.model.groups.streams.topology import Topology
    from groupledger.coordinator.model.operation import Operation

STREAMS_SESSION_TIMER: Final = "streams-session"
STREAMS_REVOCATION_TIMER: Final = "streams-revocation"
STREAMS_INITIAL_TIMER: Final = "streams-initial-rebalance"
STANDBYS_SETTING: Final = "num.standby.replicas"
DELAYED: Final = Status(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)


def heartbeat_of_streams(request: StreamsGroupHeartbeatRequest, operation: Operation) -> None:
    try:
        operation.response = (_leave if request.member_epoch == LEFT else _heartbeat)(request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = StreamsGroupHeartbeatResponse(request.request_id, error=refused.error)


def refusal_of_invalid_streams(request: StreamsGroupHeartbeatRequest) -> Error:
    """Returns the error with which a request is refused before any group is read, or NONE if it is valid. An instance
    id is refused, since streams groups have no static members yet."""
    names = request.member_id, request.group_id, request.rack_id
    tasks = request.active_tasks, request.standby_tasks, request.warmup_tasks
    is_joining = request.member_epoch == 0
    wrong = (
        any(text is not None and not text.strip() for text in names),
        is_joining and (request.rebalance_timeout_ms == -1 or tasks != ((), (), ()) or request.topology is None),
        request.instance_id is not None or request.member_epoch < LEFT,
    )
    if any(wrong):
        return Error.INVALID_REQUEST
    if is_joining and request.topology is not None:
        changelogs = (topic for each in request.topology.subtopologies for topic in each.state_changelog_topics)
        if any(topic.partitions for topic in changelogs):
            return Error.STREAMS_INVALID_TOPOLOGY
    says_some = any(each is not None for each in tasks) and request.owned_tasks() is None
    return Error.INVALID_REQUEST if says_some or (not is_joining and request.topology is not None) else Error.NONE


# A member that is or will be there


def _heartbeat(request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsGroupHeartbeatResponse:
    group = _group(request, operation)
    before = _member(group, request, operation)
    member = _with_requested_fields(before, request)
    if member != before:
        operation.records.append(new_streams_member_record(group.group_id, member))
    topology = _topology(group, request, operation)
    status = _stale(group, member)
    configured = _configured(group, topology, request, operation)
    epoch = _epoch(group, configured, operation, has_changed=member != before)
    target_epoch, target = _target(group, member, epoch, configured, operation, status)
    member = _reconciled(group, member, target_epoch, target, request, operation)
    timer = STREAMS_SESSION_TIMER, group.group_id, operation.config.group_streams_session_timeout_ms, member.member_id
    operation.set_timer(*timer)
    if request.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = member.member_id
    response = _answer(group, before, member, request, operation)
    status += [] if configured.status is None else [configured.status]
    if group.shutdown_member_id is not None:
        who = f"Streams group member {group.shutdown_member_id}"
        detail = f"{who} encountered a fatal error and requested a shutdown for the entire application."
        status.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    return replace(response, status=tuple(status))


def _group(request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsGroup:
    """Returns the group, which the first member makes, also of a classic one without members."""
    group = operation.groups.get(request.group_id)
    if isinstance(group, StreamsGroup):
        return group
    is_taken = group is not None and not (isinstance(group, Group) and group.is_empty)
    if request.member_epoch != 0 or is_taken:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    if group is not None:
        operation.records += group.tombstones()
    return StreamsGroup(request.group_id)


def _member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsMember:
    """Returns the member at its epoch, or at the one before if it owns nothing beyond its own tasks; it may also join
    again at any time, but not in a full group."""
    if request.member_epoch == 0 and len(group.members) >= operation.config.group_streams_max_size:
        raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != 0:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        return StreamsMember(member_id=request.member_id)
    epoch, owned = request.member_epoch, request.owned_tasks()
    is_retried = epoch < member.epoch and epoch == member.previous_epoch and owned is not None
    if epoch not in (0, member.epoch) and not (is_retried and _has_all(member, owned or TasksByRole())):
        raise RefusedError(Error.FENCED_MEMBER_EPOCH)
    return member


def _has_all(member: StreamsMember, owned: TasksByRole) -> bool:
    roles = zip(owned, by_role(member.assigned), strict=True)
    names_no_other = all({*dict(reported)} <= {*dict(known)} for reported, known in roles)
    return names_no_other and tasks_of(owned) <= member.assigned.keys()


def _with_requested_fields(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """Returns the member with the fields that the request sets; others stay."""
    tags = request.client_tags
    said: dict[str, Any] = {
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "topology_epoch": None if request.topology is None else request.topology.epoch,
        "process_id": request.process_id,
        "user_endpoint": request.user_endpoint,
        "client_tags": None if tags is None else tuple(sorted(tags, key=lambda tag: tag.key)),
    }
    said = {name: value for name, value in said.items() if value is not None}
    return replace(member, client_id=request.client_id, client_host=request.client_host, **said)


# The topology and the group's epoch


def _topology(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, operation: Operation) -> Topology:
    """Returns the group's topology, which its first member brings. One of an older epoch is passed over."""
    asked = request.topology
    if asked is not None and (asked.epoch < 0 or len(asked.in_hash_order()) < len(asked.subtopologies)):
        raise IllegalStateError("a topology has a negative epoch, or two subtopologies of one id")
    if group.topology is None:
        if asked is None:
            raise IllegalStateError(f"{group.group_id} has no topology")
        operation.records.append(new_streams_topology_record(group.group_id, asked))
        return asked
    if asked is not None and asked.epoch >= group.topology.epoch and not asked.is_same(group.topology):
        raise RefusedError(Error.INVALID_REQUEST)
    return group.topology


def _stale(group: StreamsGroup, member: StreamsMember) -> list[Status]:
    if group.topology is None or member.topology_epoch >= group.topology.epoch:
        return []
    behind = f"topology epoch {member.topology_epoch} is behind the group's topology epoch {group.topology.epoch}."
    return [Status(StatusCode.STALE_TOPOLOGY, f"The member's {behind}")]


def _configured(
    group: StreamsGroup, topology: Topology, request: StreamsGroupHeartbeatRequest, operation: Operation
) -> ConfiguredTopology:
    """Configures the topology if it is not configured yet, or if its topics changed, and checks the tasks that the
    member reports."""
    configured = group.configured
    if configured is None or group.topology is None or _hash(topology, operation) != group.words.metadata_hash:
        configured = configure(topology, operation.topics)
        group.configured = configured
        operation.unwritten.configured.append(group)
    counts = configured.task_counts
    for name, partitions in (one for tasks in request.owned_tasks() or () for one in tasks):
        is_known = name in counts and all(0 <= partition < counts[name] for partition in partitions)
        if configured.is_ready and not is_known:
            raise RefusedError(Error.INVALID_REQUEST)
    return configured


def _hash(topology: Topology, operation: Operation) -> int:
    return metadata_hash(topology.required_topics(), operation.topics)


def _epoch(group: StreamsGroup, configured: ConfiguredTopology, operation: Operation, *, has_changed: bool) -> int:
    """Returns the epoch of the group: a new one if something changed that the assignment depends on."""
    words = GroupWords(
        metadata_hash=_hash(configured.topology, operation),
        validated_topology_epoch=configured.topology.epoch if configured.is_ready else NOT_VALIDATED,
        assignment_configs=(KeyValue(STANDBYS_SETTING, str(operation.config.group_streams_num_standby_replicas)),),
    )
    if not has_changed and words == group.words:
        return group.epoch
    epoch = group.epoch + 1 if group.epoch else 2
    operation.records.append(new_streams_epoch_record(group.group_id, epoch, words))
    return epoch


# The target, and the member's way to it


def _target(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    configured: ConfiguredTopology,
    operation: Operation,
    status: list[Status],
) -> tuple[int, Tasks]:
    """Returns the member's target and its epoch; of a new epoch, computed now or, with a status, later."""
    timer = STREAMS_INITIAL_TIMER, group.group_id
    delay_ms = operation.config.group_streams_initial_rebalance_delay_ms
    if not len(group.members) and delay_ms > 0 and not operation.has_timer(*timer):
        operation.set_timer(*timer, delay_ms)
    if epoch <= group.target_epoch:
        return group.target_epoch, group.target.get(member.member_id, frozenset())
    if operation.has_timer(*timer):
        status.append(DELAYED)
        return max(1, group.target_epoch), frozenset()
    return epoch, _new_target(group, member, epoch, configured, operation)[member.member_id]


def _new_target(
    group: StreamsGroup,
    member: StreamsMember | None,
    epoch: int,
    configured: ConfiguredTopology,
    operation: Operation,
) -> dict[str, Tasks]:
    """Gets a target for all members from the assignor, and writes the changes."""
    members = {each.member_id: each for each in group.members.values()}
    if member is not None:
        members[member.member_id] = member
    found: dict[str, Tasks] = dict.fromkeys(members, frozenset())
    if configured.is_ready:
        asked = TasksToAssign(
            group_id=group.group_id,
            processes={name: each.process_id for name, each in members.items()},
            task_counts=configured.task_counts,
            before=group.target,
        )
        target = operation.streams_assignor(asked)
        check_legal(target, asked)
        found |= target
    for name in hash_map_order(members):
        if found[name] != group.target.get(name):
            operation.records.append(new_streams_target_record(group.group_id, name, found[name]))
    operation.records.append(group.new_target_epoch_record(epoch))
    return found


def _reconciled(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    target: Tasks,
    request: StreamsGroupHeartbeatRequest,
    operation: Operation,
) -> StreamsMember:
    owned = request.owned_tasks()
    reconciliation = StreamsReconciliation(
        group=group, target_epoch=epoch, target=target, owned=None if owned is None else tasks_of(owned)
    )
    after = reconciliation.step(member)
    if after == member:
        return member
    operation.records.append(new_streams_current_record(group.group_id, after))
    timer = STREAMS_REVOCATION_TIMER, group.group_id
    if after.state is StreamsMemberState.UNREVOKED_TASKS:
        operation.set_timer(*timer, after.rebalance_timeout_ms, after.member_id)
    else:
        operation.cancel_timer(*timer, after.member_id)
    return after


def _answer(
    group: StreamsGroup,
    before: StreamsMember,
    member: StreamsMember,
    request: StreamsGroupHeartbeatRequest,
    operation: Operation,
) -> StreamsGroupHeartbeatResponse:
    sends_assignment = request.member_epoch == 0 or member.assigned != before.assigned
    if sends_assignment and member.user_endpoint is not None:
        group.endpoint_epoch += 1
    endpoints = None
    if group.endpoint_epoch != request.endpoint_information_epoch:
        others = [each for each in group.members.values() if each.member_id != member.member_id]
        endpoints = endpoints_of([*others, member], group.configured, operation.topics)
    is_there = request.group_id in operation.groups
    return StreamsGroupHeartbeatResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=operation.config.group_streams_heartbeat_interval_ms,
        assignment=by_role(member.assigned) if sends_assignment else None,
        endpoint_information_epoch=group.endpoint_epoch if is_there else 0,
        endpoints=endpoints,
    )


# A member that goes


def _leave(request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsGroupHeartbeatResponse:
    group = operation.group(request.group_id, StreamsGroup)
    if group is None:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    if request.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = request.member_id
    if request.member_id not in group.members:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    expire_streams_session(group, request.member_id, operation)
    return StreamsGroupHeartbeatResponse(
        request.request_id,
        error=Error.NONE,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
    )


def expire_streams_session(group: StreamsGroup, member_id: str, operation: Operation) -> None:
    """Removes a member and begins a new epoch. It is the handler of the session timer, and also removes members that
    leave, or that do not give up their tasks in time."""
    if member_id in group.members:
        operation.records += group.member_tombstones(member_id)
        operation.records.append(new_streams_epoch_record(group.group_id, group.epoch + 1, group.words))
        for timer in (STREAMS_SESSION_TIMER, STREAMS_REVOCATION_TIMER):
            operation.cancel_timer(timer, group.group_id, member_id)


def expire_streams_revocation(group: StreamsGroup, member_id: str, operation: Operation) -> None:
    """Removes a member that has not given up its tasks in time."""
    member = group.members.get(member_id)
    if member is not None and member.state is StreamsMemberState.UNREVOKED_TASKS:
        expire_streams_session(group, member_id, operation)


def begin_streams_assignment(group: StreamsGroup, _: str, operation: Operation) -> None:
    """Computes the target that was delayed so that more members could join. Does nothing if no member is left."""
    if len(group.members) and group.configured is not None:
        _new_target(group, None, group.epoch, group.configured, operation)


def watch_loaded_streams(group: StreamsGroup, operation: Operation) -> None:
    """Starts the timers of a group that was loaded from its log."""
    session_ms = operation.config.group_streams_session_timeout_ms
    for member_id, member in group.members.items():
        operation.set_timer(STREAMS_SESSION_TIMER, group.group_id, session_ms, member_id)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            operation.set_timer(STREAMS_REVOCATION_TIMER, group.group_id, member.rebalance_timeout_ms, member_id)
