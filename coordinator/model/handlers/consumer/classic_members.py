"""Handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group of KIP-848.

In such a group no member waits for others, and there is no leader: a JoinGroup is answered at once with the member's
epoch as its generation, and the following SyncGroup with its current partitions. The response to a heartbeat asks the
member to join again when something changed for it: another epoch, partitions to give up, or partitions that are free
now. An empty consumer group becomes a classic one as soon as a classic member joins. LeaveGroup removes members of
either protocol.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import uuid_order
from groupledger.coordinator.model.config import DISABLED
from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from groupledger.coordinator.model.groups.classic.subscription import (
    Subscription,
    read_subscription,
    unreadable,
    written_assignment,
)
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.member import ClassicWords, ConsumerMember, MemberState
from groupledger.coordinator.model.groups.consumer.records import new_member_record
from groupledger.coordinator.model.groups.modern.states import EMPTY
from groupledger.coordinator.model.handlers.classic.join_group import MEMBER_ID_REQUIRED_SINCE, join_group
from groupledger.coordinator.model.handlers.consumer.conversion import (
    CONSUMER_TO_CLASSIC,
    becomes_classic_by_replacing,
    downgrade_by_replacing,
    named,
)
from groupledger.coordinator.model.handlers.consumer.epochs import Epoch, new_epoch
from groupledger.coordinator.model.handlers.consumer.membership import (
    check_size,
    fence,
    new_dynamic_member,
    new_static_member,
    step_to_target,
    take_place,
)
from groupledger.coordinator.model.handlers.consumer.regexes import RegexChange, change_regex
from groupledger.coordinator.model.handlers.consumer.timers import JOIN_TIMER, SESSION_TIMER, SYNC_TIMER
from groupledger.coordinator.model.handlers.static_members import member_of_instance
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
    refusal,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import NOT_PROVIDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.operation import Operation
    from groupledger.coordinator.model.partitions import Partitions

_NAMES_LEAVERS_SINCE: Final = 3
PROTOCOL: Final = "classic"  # as the log calls it


# Joining


def join_as_classic(request: JoinGroupRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, ConsumerGroup)
    if group.state == EMPTY:
        operation.log("empty_group_converted", group_id=request.group_id, **CONSUMER_TO_CLASSIC)
        if request.member_id:  # it will be refused: a broker forgets the group by that, and writes nothing
            operation.forget(group)
        else:
            operation.records += group.tombstones()
        join_group(request, operation)
        return
    if request.api_version == 0:  # this version has no rebalance timeout
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    try:
        _join(group, request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = refusal(request, refused.error)


def _join(group: ConsumerGroup, request: JoinGroupRequest, operation: Operation) -> None:
    config = operation.config
    if config.is_4_4 and config.group_consumer_migration_policy == DISABLED:
        operation.log("classic_member_refused", group_id=group.group_id, reason="the group migration is disabled")
        raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or request.new_member_uuid
    check_size(group, member_id, request.group_instance_id, operation)
    if not _supports(group, request):
        raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
    is_dynamic = request.group_instance_id is None
    if is_dynamic and not request.member_id and request.api_version >= MEMBER_ID_REQUIRED_SINCE:
        operation.log("member_id_required", group_id=group.group_id, member_id=member_id)
        operation.response = JoinGroupResponse(request.request_id, error=Error.MEMBER_ID_REQUIRED, member_id=member_id)
        return
    replaced = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    before = _before(group, member_id, replaced, request, operation)
    subscription = _subscription(request, operation)
    member = _as_joined(before, subscription, request)
    if member != before:
        operation.records.append(new_member_record(group.group_id, member))
    regex = change_regex(group, before, member, operation)
    has_changed = member.topics != before.topics or regex is not RegexChange.NONE
    epoch = new_epoch(group, member, operation, has_changed=has_changed)
    owned = _owned(subscription, operation)
    if replaced is not None and becomes_classic_by_replacing(group, replaced, operation):
        has_to_join = group.target_epoch < epoch.number if config.is_4_4 else has_changed
        if not has_to_join:
            epoch = Epoch(group.target_epoch, is_looked_at=False)  # any existing target is enough
            member = step_to_target(group, before, member, epoch, owned, operation, has_changed=False)
        operation.cancel_timer(JOIN_TIMER, group.group_id, member.member_id)
        downgrade_by_replacing(group, member, replaced, operation, has_to_join=has_to_join)
    else:
        member = step_to_target(group, before, member, epoch, owned, operation, has_changed=has_changed)
        operation.after_append = _watch(member, request, operation)
    operation.response = JoinGroupResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0][0],
    )


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether one of the protocols is one of all classic members."""
    offered = [{name for name, _ in each.classic.protocols} for each in group.members.values() if each.classic]
    return request.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
        all(name in names for names in offered) for name, _ in request.protocols
    )


def _before(
    group: ConsumerGroup,
    member_id: str,
    existing: ConsumerMember | None,
    request: JoinGroupRequest,
    operation: Operation,
) -> ConsumerMember:
    """Returns the member that joins, as it was. A client that names an id counts as its member, known or not. A static
    client has to be the member of its instance, or to come without an id and take that member's place."""
    instance_id = request.group_instance_id
    if instance_id is None:
        return new_dynamic_member(group, member_id, PROTOCOL, operation)
    if request.member_id:
        return member_of_instance(group, instance_id, member_id, operation)
    if existing is None:
        return new_static_member(group, instance_id, member_id, PROTOCOL, operation)
    return take_place(group, existing, member_id, PROTOCOL, operation)


def _subscription(request: JoinGroupRequest, operation: Operation) -> Subscription:
    """Returns the member's subscription, which it sends with each of its protocols."""
    try:
        return read_subscription(request.protocols[0][1])
    except unreadable(operation.config):
        if operation.config.is_4_4:
            raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL) from None
        raise IllegalStateError("a subscription is cut off") from None


def _as_joined(member: ConsumerMember, subscription: Subscription, request: JoinGroupRequest) -> ConsumerMember:
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicWords(request.session_timeout_ms, request.protocols),
    )


def _owned(subscription: Subscription, operation: Operation) -> Partitions:
    owned: dict[str, tuple[int, ...]] = {}
    for topic, numbers in subscription.owned:
        if topic in operation.topics:
            topic_id = operation.topics[topic].topic_id
            owned[topic_id] = owned.get(topic_id, ()) + numbers
    return owned


def _watch(member: ConsumerMember, request: JoinGroupRequest, operation: Operation) -> Callable[[Error], None]:
    def after_append(error: Error) -> None:
        if error is not Error.NONE and operation.records:
            return
        timer = request.group_id, member.member_id
        operation.cancel_timer(JOIN_TIMER, *timer)
        operation.set_timer(SESSION_TIMER, request.group_id, request.session_timeout_ms, member.member_id)
        operation.set_timer(SYNC_TIMER, request.group_id, request.rebalance_timeout_ms, member.member_id)

    return after_append


# Between two joins


def sync_as_classic(request: SyncGroupRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, ConsumerGroup)
    try:
        member, words = _syncing_member(group, request, operation)
    except RefusedError as refused:
        operation.response = refusal(request, refused.error)
        return
    operation.cancel_timer(SYNC_TIMER, group.group_id, member.member_id)
    operation.set_timer(SESSION_TIMER, group.group_id, words.session_timeout_ms, member.member_id)
    assigned = {topic_id: member.assigned[topic_id] for topic_id in uuid_order(member.assigned)}
    operation.response = SyncGroupResponse(
        request.request_id,
        error=Error.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=written_assignment(named(assigned, operation), words.protocols[0][1]),
    )


def _syncing_member(
    group: ConsumerGroup, request: SyncGroupRequest, operation: Operation
) -> tuple[ConsumerMember, ClassicWords]:
    member, words = _classic_member(group, request, operation)
    name = words.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
    # Who has something to give up has joined already, and learns of the new epoch when it has given that up.
    if _newest_epoch(group, operation) > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(group, member, operation)
        raise RefusedError(Error.REBALANCE_IN_PROGRESS)
    return member, words


def heartbeat_as_classic(request: HeartbeatRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, ConsumerGroup)
    try:
        member, words = _classic_member(group, request, operation)
    except RefusedError as refused:
        operation.response = refusal(request, refused.error)
        return
    operation.set_timer(SESSION_TIMER, group.group_id, words.session_timeout_ms, member.member_id)
    error = Error.NONE
    if (
        member.epoch < _newest_epoch(group, operation)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        error = Error.REBALANCE_IN_PROGRESS
        _await_join(group, member, operation)
    operation.response = HeartbeatResponse(request.request_id, error)


def _newest_epoch(group: ConsumerGroup, operation: Operation) -> int:
    """Returns the epoch that members receive: since 4.4 they join again only when it has a target."""
    return group.target_epoch if operation.config.is_4_4 else group.epoch


def _classic_member(
    group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest, operation: Operation
) -> tuple[ConsumerMember, ClassicWords]:
    if request.group_instance_id is None:
        member = group.members.get(request.member_id)
    else:
        member = member_of_instance(group, request.group_instance_id, request.member_id, operation)
    if member is None or member.classic is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    if member.epoch != request.generation_id:
        raise RefusedError(Error.ILLEGAL_GENERATION)
    return member, member.classic


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Returns whether other members still have partitions of the member's target."""
    target = group.target.get(member.member_id, {})
    return any(
        group.is_held(topic_id, number)
        for topic_id, numbers in target.items()
        for number in numbers
        if number not in member.assigned.get(topic_id, ())
    )


def _await_join(group: ConsumerGroup, member: ConsumerMember, operation: Operation) -> None:
    """Gives a member its rebalance timeout to join again, which runs from the first request to do so."""
    if (JOIN_TIMER, operation.partition, group.group_id, member.member_id) not in operation.deadlines:
        operation.set_timer(JOIN_TIMER, group.group_id, member.rebalance_timeout_ms, member.member_id)


# Leaving


def leave_as_classic(request: LeaveGroupRequest, operation: Operation) -> None:
    """Removes the named members, of either protocol, and begins one new epoch for all. A broker removes several in the
    order of a set that depends on its internals; here the order is that of the request."""
    group = operation.require_group(request.group_id, ConsumerGroup)
    results = []
    gone: dict[str, ConsumerMember] = {}
    for leaving in request.members:
        member, error = _leaver(group, leaving, operation)
        if member is not None:
            gone[member.member_id] = member
        results.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
    try:
        if gone:
            fence(group, [*gone.values()], operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = refusal(request, refused.error)
        return
    if request.api_version < _NAMES_LEAVERS_SINCE:
        operation.response = refusal(request, results[0].error)
    else:
        operation.response = LeaveGroupResponse(request.request_id, error=Error.NONE, members=tuple(results))


def _leaver(group: ConsumerGroup, leaving: LeavingMember, operation: Operation) -> tuple[ConsumerMember | None, Error]:
    """Returns the member to take out, or why none is. An administrator names an instance and no member."""
    words = {
        "group_id": group.group_id,
        "member_id": leaving.member_id,
        "client_reason": leaving.reason or NOT_PROVIDED,
    }
    instance_id = leaving.group_instance_id
    member = group.members.get(leaving.member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        return None, Error.UNKNOWN_MEMBER_ID
    if instance_id is None:
        operation.log("consumer_member_left", **words)
        return member, Error.NONE
    try:
        if leaving.member_id:
            member_of_instance(group, instance_id, leaving.member_id, operation)
    except RefusedError as refused:
        return None, refused.error
    operation.log("consumer_static_member_left", **words, group_instance_id=instance_id)
    return member, Error.NONE
