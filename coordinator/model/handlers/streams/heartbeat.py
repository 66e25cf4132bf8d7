"""Handles StreamsGroupHeartbeat: how a member joins a streams group (KIP-1071), moves to its target, and leaves.

One heartbeat writes in this order: the member's settings, the topology if the group has none yet, a new epoch of the
group if the member, the topics, the configured topology or the assignment's settings changed, a new target for that
epoch, and the member's step to its target. The first epoch is 2. While the topology lacks topics, the target is empty
for everybody. A member that leaves, or whose session ends, is removed: that is a new epoch, whose target the next
heartbeat of another member computes. The target of a new group may wait for more members to join.

Since 4.4 the group may have static members, who leave with epoch -2 and come back (`static_members`), there is a time
between two targets, and members go to a plan (`groups/streams/group.py`).

A broker refuses another topology of a newer epoch as an invalid request: it never returns
STREAMS_INVALID_TOPOLOGY_EPOCH and STREAMS_TOPOLOGY_FENCED. It also refuses source topics by regular expressions.

The assignment of tasks is an input (`groups/streams/assignors.py`). Not modelled: settings of single groups, among them
tags for rack-aware standbys; internal topics, which a broker creates after its response (the caller adds them to the
coordinator's topics); the refusal of the names of Kafka's own topics; descriptions of topologies, which only a plugin
of a 4.4 broker asks for; and most of a broker's log lines about streams groups. A rebalance timer that was set before a
failed append stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
from groupledger.coordinator.model.groups.modern.states import STABLE
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
from groupledger.coordinator.model.handlers.static_members import check_away, member_of_instance
from groupledger.coordinator.model.handlers.streams.messages import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from groupledger.coordinator.model.handlers.streams.static_members import go_away, take_place
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.streams.configured import ConfiguredTopology
    from groupledger.coordinator.model.groups.streams.tasks import Tasks
    from groupledger.coordinator.model.groups.streams.topology import Topology
    from groupledger.coordinator.model.operation import Operation

STREAMS_SESSION_TIMER: Final = "streams-session"
STREAMS_REVOCATION_TIMER: Final = "streams-revocation"
STREAMS_INITIAL_TIMER: Final = "streams-initial-rebalance"
STANDBYS_SETTING: Final = "num.standby.replicas"
_DELAYED_BY: Final = "Assignment delayed due to the configured"
DELAYED: Final = Status(StatusCode.ASSIGNMENT_DELAYED, f"{_DELAYED_BY} initial rebalance delay.")
TOO_SOON: Final = Status(StatusCode.ASSIGNMENT_DELAYED, f"{_DELAYED_BY} assignment interval.")


def heartbeat_of_streams(request: StreamsGroupHeartbeatRequest, operation: Operation) -> None:
    try:
        goes = request.member_epoch in (LEFT, AWAY)
        operation.response = (_leave if goes else _heartbeat)(request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = StreamsGroupHeartbeatResponse(request.request_id, error=refused.error)


def refusal_of_invalid_streams(request: StreamsGroupHeartbeatRequest, config: Config) -> Error:
    """Returns the error with which a request is refused before any group is read, or NONE if it is valid. A 4.2 broker
    refuses instance ids and warm-up tasks."""
    names = request.member_id, request.group_id, request.rack_id, request.instance_id
    tasks = request.active_tasks, request.standby_tasks, request.warmup_tasks
    is_joining = request.member_epoch == 0
    wrong = (
        any(text is not None and not text.strip() for text in names),
        is_joining and (request.rebalance_timeout_ms == -1 or tasks != ((), (), ()) or request.topology is None),
        request.member_epoch < AWAY or (request.member_epoch == AWAY and request.instance_id is None),
        not config.is_4_4 and (request.instance_id is not None or bool(request.warmup_tasks)),
        request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies),
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
    group.rename_in_plan(request.instance_id, request.member_id)
    before = _member(group, request, operation)
    member = _with_requested_fields(before, request, operation.config)
    if member != before:
        operation.records.append(new_streams_member_record(group.group_id, member))
    topology = _topology(group, request, operation)
    status = _stale(group, member)
    configured = _configured(group, topology, request, operation)
    epoch = _epoch(group, configured, operation, has_changed=_begins_epoch(before, member, request))
    target_epoch, target = _planned(group, member, epoch, configured, operation, status)
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
    return StreamsGroup(request.group_id, operation.config.first_epoch)


def _member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsMember:
    """Returns the member at its epoch, or at the one before if it owns nothing beyond its own tasks; it may also join
    again at any time."""
    epoch, owned = request.member_epoch, request.owned_tasks()
    if epoch == 0:
        return _joining(group, request, operation)
    member = _known_member(group, request, operation)
    is_retried = epoch < member.epoch and epoch == member.previous_epoch and owned is not None
    if epoch != member.epoch and not (is_retried and _has_all(member, owned or TasksByRole())):
        raise RefusedError(Error.FENCED_MEMBER_EPOCH)
    return member


def _joining(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsMember:
    """Returns the member that joins. A full group takes nobody, but since 4.4 those who are there may join again."""
    member = group.members.get(request.member_id)
    away = None if request.instance_id is None else group.static_member(request.instance_id)
    is_back = operation.config.is_4_4 and (member is not None or away is not None)
    if len(group.members) >= operation.config.group_streams_max_size and not is_back:
        raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)
    if away is None:
        return member or StreamsMember(member_id=request.member_id)
    check_away(group.group_id, away, request.member_id, operation)
    return take_place(group, away, request.member_id, operation)


def _known_member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, operation: Operation) -> StreamsMember:
    if request.instance_id is not None:
        return member_of_instance(group, request.instance_id, request.member_id, operation)
    member = group.members.get(request.member_id)
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    return member


def _has_all(member: StreamsMember, owned: TasksByRole) -> bool:
    roles = zip(owned, by_role(member.assigned), strict=True)
    names_no_other = all({*dict(reported)} <= {*dict(known)} for reported, known in roles)
    return names_no_other and tasks_of(owned) <= member.assigned.keys()


def _with_requested_fields(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, config: Config
) -> StreamsMember:
    """Returns the member with the fields that the request sets; others stay. Since 4.4 a member that joins has no
    endpoint unless it names one."""
    tags = request.client_tags
    if config.is_4_4 and request.member_epoch == 0:
        member = replace(member, user_endpoint=None)
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "topology_epoch": None if request.topology is None else request.topology.epoch,
        "process_id": request.process_id,
        "user_endpoint": request.user_endpoint,
        "client_tags": None if tags is None else tuple(sorted(tags, key=lambda tag: tag.key)),
    }
    said = {name: value for name, value in said.items() if value is not None}
    return replace(member, client_id=request.client_id, client_host=request.client_host, **said)


def _begins_epoch(before: StreamsMember, member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> bool:
    """Whether a member has changed so that the group begins an epoch. A static member can change its client, its
    endpoint and its timeout without that."""
    if request.instance_id is None:
        return member != before
    words = ((each.topology_epoch, each.rack_id, each.client_tags, each.process_id) for each in (before, member))
    return len({*words}) > 1


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
    epoch = max(group.epoch, 1) + 1
    operation.records.append(new_streams_epoch_record(group.group_id, epoch, words))
    return epoch


# The target, and the member's way to it


def _planned(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    configured: ConfiguredTopology,
    operation: Operation,
    status: list[Status],
) -> tuple[int, Tasks]:
    """Returns the tasks to which the member goes, and their epoch. Since 4.4 these are the tasks of the group's plan,
    which stays for as long as its epoch. If all members have reached it, but this one is not at its target, a new epoch
    begins with the same target."""
    is_settled = operation.config.is_4_4 and epoch == group.epoch and group.state == STABLE
    if is_settled and group.target.get(member.member_id, frozenset()) != member.assigned.keys():
        epoch += 1
        operation.records += [
            new_streams_epoch_record(group.group_id, epoch, group.words),
            group.new_target_epoch_record(epoch, group.targeted_at_ms),
        ]
        target_epoch, targets = epoch, dict(group.target)
    else:
        target_epoch, targets = _target(group, member, epoch, configured, operation, status)
    if is_settled or not operation.config.is_4_4 or group.plan[0] != target_epoch:
        group.plan = target_epoch, targets
    return target_epoch, group.plan[1].get(member.member_id, frozenset())


def _target(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    configured: ConfiguredTopology,
    operation: Operation,
    status: list[Status],
) -> tuple[int, dict[str, Tasks]]:
    """Returns the targets and their epoch; of a new epoch, computed now or, with a status, later."""
    timer = STREAMS_INITIAL_TIMER, group.group_id
    delay_ms = operation.config.group_streams_initial_rebalance_delay_ms
    if not len(group.members) and delay_ms > 0 and not operation.has_timer(*timer):
        operation.set_timer(*timer, delay_ms)
    if epoch > group.target_epoch and operation.has_timer(*timer):
        status.append(DELAYED)
        return max(1, group.target_epoch), {}
    interval_ms = operation.config.group_streams_assignment_interval_ms
    may_assign = operation.config.may_assign(group.targeted_at_ms, interval_ms, operation.now_ms)
    if epoch <= group.target_epoch or not may_assign:
        status += [] if epoch <= group.target_epoch else [TOO_SOON]
        return group.target_epoch, group.targets_with(member)
    return epoch, _new_target(group, member, epoch, configured, operation)


def _new_target(
    group: StreamsGroup,
    member: StreamsMember | None,
    epoch: int,
    configured: ConfiguredTopology,
    operation: Operation,
) -> dict[str, Tasks]:
    """Gets a target for all members from the assignor, and writes the changes."""
    if member is None:
        members, before = {each.member_id: each for each in group.members.values()}, group.target
    else:
        members, before = group.members_with(member), group.targets_with(member)
    found: dict[str, Tasks] = dict.fromkeys(members, frozenset())
    if configured.is_ready:
        asked = TasksToAssign(
            group_id=group.group_id,
            processes={name: each.process_id for name, each in members.items()},
            task_counts=configured.task_counts,
            before=before,
        )
        target = operation.streams_assignor(asked)
        check_legal(target, asked)
        found |= target
    for name in hash_map_order(members):
        if found[name] != before.get(name):
            operation.records.append(new_streams_target_record(group.group_id, name, found[name]))
    targeted_at_ms = operation.now_ms if operation.config.is_4_4 else 0
    operation.records.append(group.new_target_epoch_record(epoch, targeted_at_ms))
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
        group=group,
        target_epoch=epoch,
        target=target,
        owned=None if owned is None else tasks_of(owned),
        changes_roles=operation.config.is_4_4,
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
    if operation.config.is_4_4:
        has_changed = member.user_endpoint != before.user_endpoint
        has_changed = has_changed or (member.assigned != before.assigned and member.user_endpoint is not None)
    else:
        has_changed = sends_assignment and member.user_endpoint is not None
    group.endpoint_epoch += has_changed
    endpoints = None
    if group.endpoint_epoch != request.endpoint_information_epoch:
        members = [*group.others(member), member]
        endpoints = endpoints_of(members, group.configured, operation.topics, by_number=operation.config.is_4_4)
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
    member = _known_member(group, request, operation)
    if request.member_epoch == AWAY:
        go_away(group, member, operation)
    else:
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
        if operation.config.is_4_4 and len(group.members) == 1:
            operation.records.append(group.new_target_epoch_record(group.epoch + 1))
        for timer in (STREAMS_SESSION_TIMER, STREAMS_REVOCATION_TIMER):
            operation.cancel_timer(timer, group.group_id, member_id)


def expire_streams_revocation(group: StreamsGroup, member_id: str, operation: Operation) -> None:
    """Removes a member that has not given up its tasks in time. A static member that is away by now stays."""
    member = group.members.get(member_id)
    if member is not None and member.state is StreamsMemberState.UNREVOKED_TASKS and member.epoch != AWAY:
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
