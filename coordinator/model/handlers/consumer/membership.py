"""Changes members of a consumer group, whether they use the classic or the KIP-848 protocol.

A request of a member does up to four things, which write records in this order: the member's subscription and settings,
a new epoch of the group if these or the topics changed (`epochs`), a new target for that epoch, and the member's next
step towards its target. When a member leaves, or its timer runs out, it is removed and a new epoch begins, whose target
the next request of another member computes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.errors import RefusedError
from groupledger.coordinator.model.groups.consumer.assignors import ASSIGNORS, Subscriber
from groupledger.coordinator.model.groups.consumer.group import are_equal
from groupledger.coordinator.model.groups.consumer.member import ConsumerMember, MemberState
from groupledger.coordinator.model.groups.consumer.reconciliation import Reconciliation
from groupledger.coordinator.model.groups.consumer.records import (
    new_current_record,
    new_member_record,
    new_target_record,
)
from groupledger.coordinator.model.groups.modern.epochs import AWAY
from groupledger.coordinator.model.groups.modern.topics import metadata_hash
from groupledger.coordinator.model.handlers.consumer.conversion import becomes_classic_without, downgrade
from groupledger.coordinator.model.handlers.consumer.epochs import bump_epoch
from groupledger.coordinator.model.handlers.consumer.regexes import drop_regexes
from groupledger.coordinator.model.handlers.consumer.timers import REVOCATION_TIMER, SESSION_TIMER, TIMERS
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import SESSION_EXPIRED_FENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.handlers.consumer.epochs import Epoch
    from groupledger.coordinator.model.operation import Operation
    from groupledger.coordinator.model.partitions import Partitions


def check_size(group: ConsumerGroup, member_id: str, instance_id: str | None, operation: Operation) -> None:
    """Raises RefusedError if a new member would make the group larger than its maximum. Since 4.4 a static member that
    comes back is always let in."""
    if operation.config.is_4_4 and instance_id is not None and group.static_member(instance_id) is not None:
        return
    if len(group.members) >= operation.config.group_consumer_max_size and member_id not in group.members:
        raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)


def new_static_member(
    group: ConsumerGroup, instance_id: str, member_id: str, protocol: str, operation: Operation
) -> ConsumerMember:
    """Returns the member that joins under an instance id that no member has."""
    words = {"group_id": group.group_id, "member_id": member_id, "group_instance_id": instance_id}
    operation.log("consumer_static_member_joined", **words, protocol=protocol)
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def new_dynamic_member(group: ConsumerGroup, member_id: str, protocol: str, operation: Operation) -> ConsumerMember:
    """Returns the member that joins without an instance id. A member with its id may exist already."""
    operation.log("consumer_member_joined", group_id=group.group_id, member_id=member_id, protocol=protocol)
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def take_place(
    group: ConsumerGroup, member: ConsumerMember, member_id: str, protocol: str, operation: Operation
) -> ConsumerMember:
    """Replaces a static member by one with the id `member_id`, which gets its partitions and target, and returns that
    one. It is at epoch 0."""
    words = {"group_id": group.group_id, "member_id": member_id, "group_instance_id": member.instance_id}
    operation.log("consumer_static_member_replaced", **words, previous_member_id=member.member_id, protocol=protocol)
    joining = replace(member, member_id=member_id, epoch=0, previous_epoch=0)
    operation.cancel_timer(SESSION_TIMER, group.group_id, member.member_id)
    operation.cancel_timer(REVOCATION_TIMER, group.group_id, member.member_id)
    operation.records += [
        *group.member_tombstones(member.member_id),
        new_member_record(group.group_id, joining),
        new_target_record(group.group_id, member_id, group.target.get(member.member_id, {})),
        new_current_record(group.group_id, joining),
    ]
    return joining


def step_to_target(
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    epoch: Epoch,
    owned: Partitions | None,
    operation: Operation,
    *,
    has_changed: bool,
) -> ConsumerMember:
    """Computes a new target for all members if the group's epoch has none yet and may have one, and then returns the
    member one step closer to its target."""
    target_epoch, target = group.target_epoch, group.target_of(member.member_id, member.instance_id)
    interval_ms = operation.config.group_consumer_assignment_interval_ms
    may_assign = operation.config.may_assign(group.targeted_at_ms, interval_ms, operation.now_ms)
    if epoch.number > group.target_epoch and may_assign:
        target_epoch, target = epoch.number, _new_target(group, (before, member), epoch, operation)
    reconciliation = Reconciliation(
        target_epoch=target_epoch,
        target=target,
        owned=owned,
        subscribed=_topic_ids(group, member, operation),
        is_held=group.is_held,
        names_epochs=operation.config.is_4_4,
    )
    return _reconciled(group, member, reconciliation, has_changed=has_changed, operation=operation)


def _new_target(
    group: ConsumerGroup, before_and_after: tuple[ConsumerMember, ConsumerMember], epoch: Epoch, operation: Operation
) -> Partitions:
    """Computes a target for all members, writes the changes, and returns the target of the requesting member."""
    before, member = before_and_after
    members = group.members_with(member)
    subscribers = {
        name: Subscriber(each.instance_id, _topic_ids(group, each, operation), group.target_of(name, each.instance_id))
        for name, each in members.items()
    }
    counts = {topic.topic_id: topic.partition_count for topic in operation.topics.values()}
    assignor = group.preferred_assignor(before, member) or operation.config.group_consumer_assignors[0]
    is_equal = group.are_equal  # before this request, unless it looked at what all subscribe to
    if epoch.is_looked_at:
        regexes = {each.regex for each in members.values()}
        resolved = [group.resolved[regex] for regex in group.resolved if regex in regexes]
        is_equal = are_equal(members.values(), resolved)
    found = ASSIGNORS[assignor](subscribers, counts, is_equal=is_equal)
    for name in hash_map_order(members):
        # A 4.2 broker takes a static member that has just replaced another for one without a target.
        instance_id = members[name].instance_id if operation.config.is_4_4 else None
        if found.get(name, {}) != group.recorded_target(name, instance_id):
            operation.records.append(new_target_record(group.group_id, name, found.get(name, {})))
    targeted_at_ms = operation.now_ms if operation.config.is_4_4 else 0
    operation.records.append(group.new_target_epoch_record(epoch.number, targeted_at_ms))
    operation.log("target_assignment_computed", group_id=group.group_id, generation=epoch.number, assignor=assignor)
    return found.get(member.member_id, {})


def _topic_ids(group: ConsumerGroup, member: ConsumerMember, operation: Operation) -> tuple[str, ...]:
    names = group.topics_of(member)
    return tuple(operation.topics[name].topic_id for name in names if name in operation.topics)


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
    if after.classic is not None:
        return after  # it has timers of its own
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        timer = REVOCATION_TIMER, group.group_id, after.rebalance_timeout_ms, after.member_id
        operation.set_timer(*timer)
    else:
        operation.cancel_timer(REVOCATION_TIMER, group.group_id, after.member_id)
    return after


# Members that go


def fence(group: ConsumerGroup, members: Sequence[ConsumerMember], operation: Operation) -> None:
    """Removes members from their group. If only classic members remain, the group may become a classic one."""
    if becomes_classic_without(group, members, operation):
        downgrade(group, members, operation)
        return
    gone = [member.member_id for member in members]
    for name in gone:
        operation.records += group.member_tombstones(name)
    drop_regexes(group, members, operation)
    topics = group.topics_of_all((each for name, each in group.members.items() if name not in gone), group.resolved.get)
    epoch = bump_epoch(group, metadata_hash(topics, operation.topics), operation)
    if operation.config.is_4_4 and len(gone) == len(group.members):
        operation.records.append(group.new_target_epoch_record(epoch))
    for name in gone:
        for timer in TIMERS:
            operation.cancel_timer(timer, group.group_id, name)


def expire_member(
    group: ConsumerGroup, member_id: str, operation: Operation, *, reason: str = SESSION_EXPIRED_FENCE
) -> None:
    """Removes a member because its session, or its time to join or to sync, has ended."""
    member = group.members.get(member_id)
    if member is not None:
        operation.log("consumer_member_fenced", group_id=group.group_id, member_id=member_id, reason=reason)
        _fence_by_timer(group, member, operation)


def _fence_by_timer(group: ConsumerGroup, member: ConsumerMember, operation: Operation) -> None:
    try:
        fence(group, [member], operation)
    except RefusedError:  # what remains can't become a classic group: the member stays, as on a broker
        operation.records.clear()


def expire_revocation(group: ConsumerGroup, member_id: str, operation: Operation) -> None:
    """Removes a member that has not given up its partitions in time. A static member that is away by now stays."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != AWAY:
        words = {"group_id": group.group_id, "member_id": member_id, "generation": member.epoch}
        operation.log("consumer_member_not_revoking", **words, timeout_ms=member.rebalance_timeout_ms)
        _fence_by_timer(group, member, operation)


def watch_loaded(group: ConsumerGroup, operation: Operation) -> None:
    """Starts the timers of a group that was loaded from its log. As on a broker, even a classic member gets the session
    timeout of KIP-848 members instead of its own."""
    group.is_loaded = True
    for member in group.members.values():
        session_ms = operation.config.group_consumer_session_timeout_ms
        operation.set_timer(SESSION_TIMER, group.group_id, session_ms, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            operation.set_timer(REVOCATION_TIMER, group.group_id, member.rebalance_timeout_ms, member.member_id)
