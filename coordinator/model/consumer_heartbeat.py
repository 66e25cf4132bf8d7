"""ConsumerGroupHeartbeat: joining, reconciling and leaving a consumer group of KIP-848.

One heartbeat does up to four things, each of which writes its records in this order: the member's own words, a new
epoch of the group if they or the topics changed, a new target for it, and the member's next step towards its target.
Who leaves, or is silent for its session, or does not give up in time what it has to, is taken out: that is a new epoch,
whose target the next heartbeat of somebody else computes.

Not modelled: regular expressions, which a broker resolves on its own, members of the classic protocol in such a group,
and the conversion of a group that has members. A subscription by a regular expression is refused as an invalid one;
the others are refused as a broker refuses them where `group.consumer.migration.policy` is disabled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.consumer.assignors import ASSIGNORS, Subscriber
from groupledger.coordinator.model.consumer.group import ConsumerGroup
from groupledger.coordinator.model.consumer.member import (
    AWAY,
    LEFT,
    ConsumerMember,
    MemberState,
    common,
)
from groupledger.coordinator.model.consumer.reconciliation import Reconciliation
from groupledger.coordinator.model.consumer.records import (
    member_tombstones,
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_target_epoch_record,
    new_target_record,
)
from groupledger.coordinator.model.consumer.topics import metadata_hash
from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from groupledger.coordinator.model.records import new_group_metadata_tombstone_record
from groupledger.coordinator.model.states import State
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.model.consumer.member import Partitions
    from groupledger.coordinator.model.operation import Operation

SESSION_TIMER: Final = "consumer-session"
REVOCATION_TIMER: Final = "consumer-revocation"
PROTOCOL: Final = "consumer"  # as the log calls it
SESSION_EXPIRED: Final = "the member session expired"
CLASSIC_TO_CONSUMER: Final = {"previous_group_type": "classic", "group_type": "consumer"}


class RefusedError(Exception):
    """A heartbeat is answered with an error, and changes nothing."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error


def heartbeat_of_consumer(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> None:
    try:
        if request.member_epoch in (LEFT, AWAY):
            operation.response = _leave(request, operation)
        else:
            operation.response = _heartbeat(request, operation)
    except RefusedError as refused:
        operation.records.clear()
        operation.response = ConsumerGroupHeartbeatResponse(request.request_id, error=refused.error)


def refusal_of_invalid(request: ConsumerGroupHeartbeatRequest) -> Error:
    """Returns why a request is refused before any group is looked at; NONE if it is not."""
    epoch = request.member_epoch
    is_joining = epoch == 0
    names_nothing = not request.subscribed_topic_names and not request.subscribed_topic_regex
    wrong = (
        (request.api_version > 0 or epoch > 0 or epoch == LEFT) and not request.member_id.strip(),
        not request.group_id.strip(),
        any(text is not None and not text.strip() for text in (request.instance_id, request.rack_id)),
        is_joining and (request.rebalance_timeout_ms == -1 or request.owned is None or bool(request.owned)),
        is_joining and request.subscribed_topic_names is None and names_nothing,
        epoch == AWAY and request.instance_id is None,
        epoch < AWAY,
    )
    if any(wrong):
        return Error.INVALID_REQUEST
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        return Error.UNSUPPORTED_ASSIGNOR
    if request.subscribed_topic_regex:  # it would never be resolved, and its member would wait for ever
        return Error.INVALID_REGULAR_EXPRESSION
    return Error.NONE


# A member that is or will be there


def _heartbeat(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroupHeartbeatResponse:
    group = _group(request, operation)
    member_id = request.member_id or request.new_member_id
    if len(group.members) >= operation.config.group_consumer_max_size and member_id not in group.members:
        raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)
    before = (_static if request.instance_id else _dynamic)(group, member_id, request, operation)
    member = _as_asked(before, request)
    has_new_words = member != before
    if has_new_words:
        operation.records.append(new_member_record(group.group_id, member))
    has_changed = member.topics != before.topics
    epoch = _epoch(group, member, has_changed=has_changed, operation=operation)
    target_epoch, target = group.target_epoch, group.target_of(member_id, member.instance_id)
    if epoch > group.target_epoch:
        target_epoch, target = epoch, _new_target(group, (before, member), epoch, operation)
    reconciliation = Reconciliation(
        target_epoch=target_epoch,
        target=target,
        owned=request.owned,
        subscribed=_topic_ids(member, operation),
        is_held=group.is_held,
    )
    member = _reconciled(group, member, reconciliation, has_changed=has_changed, operation=operation)
    operation.set_timer(SESSION_TIMER, group.group_id, operation.config.group_consumer_session_timeout_ms, member_id)
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.owned is not None
    )
    is_told = request.member_epoch == 0 or is_full or member.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        request.request_id,
        error=Error.NONE,
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=operation.config.group_consumer_heartbeat_interval_ms,
        assignment=member.assigned if is_told else None,
    )


def _group(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroup:
    """Returns the group, which the first member makes, also of an empty classic one."""
    group = operation.consumer_groups.get(request.group_id)
    if group is not None:
        return group
    classic = operation.groups.get(request.group_id)
    if request.member_epoch != 0 or (classic is not None and classic.state is not State.EMPTY):
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    if classic is not None:
        operation.log("empty_group_converted", group_id=request.group_id, **CLASSIC_TO_CONSUMER)
        operation.records.append(new_group_metadata_tombstone_record(request.group_id))
    return ConsumerGroup(request.group_id)


def _dynamic(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, operation: Operation
) -> ConsumerMember:
    member = group.members.get(member_id)
    if request.member_epoch == 0:
        operation.log("consumer_member_joined", group_id=group.group_id, member_id=member_id, protocol=PROTOCOL)
        return member or ConsumerMember(member_id=member_id)
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    _check_epoch(member, request)
    return member


def _static(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, operation: Operation
) -> ConsumerMember:
    """Returns the member of an instance. One that joins takes the place of one that is away, with all that it had."""
    if request.member_epoch != 0:
        known = _speaker_of_instance(group, request, operation)
        _check_epoch(known, request)
        return known
    member = group.static_member(request.instance_id or "")
    words = {"group_id": group.group_id, "member_id": member_id, "group_instance_id": request.instance_id}
    if member is None:
        operation.log("consumer_static_member_joined", **words, protocol=PROTOCOL)
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    words["previous_member_id"] = member.member_id
    if member.epoch != AWAY:
        operation.log("instance_id_owned", **words)
        raise RefusedError(Error.UNRELEASED_INSTANCE_ID)
    operation.log("consumer_static_member_replaced", **words, protocol=PROTOCOL)
    joining = replace(member, member_id=member_id, epoch=0, previous_epoch=0)
    operation.cancel_timer(SESSION_TIMER, group.group_id, member.member_id)
    operation.cancel_timer(REVOCATION_TIMER, group.group_id, member.member_id)
    operation.records += [
        *member_tombstones(group.group_id, member.member_id),
        new_member_record(group.group_id, joining),
        new_target_record(group.group_id, member_id, group.target.get(member.member_id, {})),
        new_current_record(group.group_id, joining),
    ]
    return joining


def _speaker_of_instance(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, operation: Operation
) -> ConsumerMember:
    """Returns the member of the request's instance. Refuses who speaks for one that nobody has, or another."""
    member = group.static_member(request.instance_id or "")
    if member is None:
        raise RefusedError(Error.UNKNOWN_MEMBER_ID)
    if member.member_id != request.member_id:
        operation.log(
            "instance_id_fenced",
            group_id=group.group_id,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            previous_member_id=member.member_id,
        )
        raise RefusedError(Error.FENCED_INSTANCE_ID)
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuses an epoch that is not the member's, but the one before if the member owns nothing beyond its own."""
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    is_retried = epoch < member.epoch and epoch == member.previous_epoch and request.owned is not None
    if not is_retried or common(request.owned or {}, member.assigned) != request.owned:
        raise RefusedError(Error.FENCED_MEMBER_EPOCH)


def _as_asked(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Returns the member with what the request says of it; what it does not say stays."""
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "assignor": request.server_assignor,
        "topics": None if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
        "regex": request.subscribed_topic_regex,
    }
    said = {name: value for name, value in said.items() if value is not None}
    return replace(member, client_id=request.client_id, client_host=request.client_host, **said)


def _epoch(group: ConsumerGroup, member: ConsumerMember, *, has_changed: bool, operation: Operation) -> int:
    """Returns the epoch of the group, a new one if the member's topics or the cluster's changed."""
    names = frozenset().union(*(each.topics for each in group.others(member)), member.topics)
    found = metadata_hash(names, operation.topics)
    if group.epoch and not has_changed and found == group.metadata_hash:
        return group.epoch
    _bump(group, found, operation)
    return group.epoch + 1


def _bump(group: ConsumerGroup, found: int, operation: Operation) -> None:
    epoch = group.epoch + 1
    operation.records.append(new_epoch_record(group.group_id, epoch, found))
    operation.log("group_epoch_bumped", group_id=group.group_id, generation=epoch, metadata_hash=found)


def _new_target(
    group: ConsumerGroup, before_and_after: tuple[ConsumerMember, ConsumerMember], epoch: int, operation: Operation
) -> Partitions:
    """Computes a target for all members, writes what is new of it, and returns that of the member that asks."""
    before, member = before_and_after
    members = {each.member_id: each for each in group.members.values()}
    members[member.member_id] = member
    members = {name: each for name, each in members.items() if each is member or each in group.others(member)}
    subscribers = {
        name: Subscriber(each.instance_id, _topic_ids(each, operation), group.target_of(name, each.instance_id))
        for name, each in members.items()
    }
    counts = {topic.topic_id: topic.partition_count for topic in operation.topics.values()}
    assignor = group.preferred_assignor(before, member) or operation.config.group_consumer_assignors[0]
    # Without a new epoch now, a broker goes by what the members were before this heartbeat.
    counted = members.values() if epoch > group.epoch else group.members.values()
    is_equal = len({each.topics for each in counted}) <= 1
    found = ASSIGNORS[assignor](subscribers, counts, is_equal=is_equal)
    for name in hash_map_order(members):
        if found.get(name, {}) != group.target.get(name):
            operation.records.append(new_target_record(group.group_id, name, found.get(name, {})))
    operation.records.append(new_target_epoch_record(group.group_id, epoch))
    operation.log("target_assignment_computed", group_id=group.group_id, generation=epoch, assignor=assignor)
    return found.get(member.member_id, {})


def _topic_ids(member: ConsumerMember, operation: Operation) -> tuple[str, ...]:
    order = hash_map_order(sorted(member.topics), expected_size=len(member.topics))
    return tuple(operation.topics[name].topic_id for name in order if name in operation.topics)


def _reconciled(
    group: ConsumerGroup,
    member: ConsumerMember,
    reconciliation: Reconciliation,
    *,
    has_changed: bool,
    operation: Operation,
) -> ConsumerMember:
    after = reconciliation.step(member, has_changed_subscription=has_changed)
    if after == member:
        return member
    operation.records.append(new_current_record(group.group_id, after))
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        timer = REVOCATION_TIMER, group.group_id, after.rebalance_timeout_ms, after.member_id
        operation.set_timer(*timer)
    else:
        operation.cancel_timer(REVOCATION_TIMER, group.group_id, after.member_id)
    return after


# A member that goes


def _leave(request: ConsumerGroupHeartbeatRequest, operation: Operation) -> ConsumerGroupHeartbeatResponse:
    group = operation.consumer_groups.get(request.group_id)
    if group is None:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    words = {"group_id": group.group_id, "member_id": request.member_id}
    if request.instance_id is None:
        known = group.members.get(request.member_id)
        if known is None:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        member = known
        operation.log("consumer_member_left", **words)
    else:
        member = _speaker_of_instance(group, request, operation)
        kind = "consumer_static_member_paused" if request.member_epoch == AWAY else "consumer_static_member_left"
        operation.log(kind, **words, group_instance_id=request.instance_id)
    if request.member_epoch == AWAY:
        away = replace(member, epoch=AWAY, pending_revocation={})
        operation.records.append(new_current_record(group.group_id, away))
    else:
        fence(group, member, operation)
    return ConsumerGroupHeartbeatResponse(
        request.request_id, error=Error.NONE, member_id=request.member_id, member_epoch=request.member_epoch
    )


def fence(group: ConsumerGroup, member: ConsumerMember, operation: Operation) -> None:
    """Takes a member out of its group."""
    operation.records += member_tombstones(group.group_id, member.member_id)
    names = frozenset().union(*(each.topics for each in group.others(member)))
    found = metadata_hash(names, operation.topics)
    _bump(group, found, operation)
    operation.cancel_timer(SESSION_TIMER, group.group_id, member.member_id)
    operation.cancel_timer(REVOCATION_TIMER, group.group_id, member.member_id)


def begin_epoch(group: ConsumerGroup, operation: Operation) -> None:
    """Begins an epoch without a cause, as a test may want it; a group without members has nobody to tell."""
    if group.members:
        _bump(group, group.metadata_hash, operation)


def expire_consumer_session(group: ConsumerGroup, member_id: str, operation: Operation) -> None:
    member = group.members.get(member_id)
    if member is not None:
        words = {"group_id": group.group_id, "member_id": member_id, "reason": SESSION_EXPIRED}
        operation.log("consumer_member_fenced", **words)
        fence(group, member, operation)


def expire_revocation(group: ConsumerGroup, member_id: str, operation: Operation) -> None:
    """Takes out a member that still has what it had to give up, unless it went away meanwhile."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != AWAY:
        words = {"group_id": group.group_id, "member_id": member_id, "generation": member.epoch}
        operation.log("consumer_member_not_revoking", **words, timeout_ms=member.rebalance_timeout_ms)
        fence(group, member, operation)


def watch_loaded(group: ConsumerGroup, operation: Operation) -> None:
    """Starts the timers of a group that was loaded from its log."""
    for member in group.members.values():
        session_ms = operation.config.group_consumer_session_timeout_ms
        operation.set_timer(SESSION_TIMER, group.group_id, session_ms, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            operation.set_timer(REVOCATION_TIMER, group.group_id, member.rebalance_timeout_ms, member.member_id)
