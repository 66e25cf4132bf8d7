"""Converts a group with members between the classic and the KIP-848 protocol, and keeps its members.

The first KIP-848 heartbeat that joins a classic group of consumers turns it into a consumer group: its generation
becomes the epoch, and its members keep the partitions that their leader assigned. When the last member that sends such
heartbeats leaves, or a classic member replaces it, the remaining members become a classic group again: its epoch
becomes the generation. If that last member becomes a classic member itself, by a JoinGroup, the group is converted back
only when a member leaves. `group.consumer.migration.policy` allows both directions, either or neither.

The new classic group exists when its record is written; the records before it end the consumer group, member by member.
Source: records of a 4.2 broker (`lab.kafka.mixed_differential`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import uuid_order
from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group, Member
from groupledger.coordinator.model.groups.classic.records import (
    new_group_metadata_record,
)
from groupledger.coordinator.model.groups.classic.states import Event
from groupledger.coordinator.model.groups.classic.subscription import (
    read_assignment,
    read_subscription,
    unreadable,
    written_assignment,
)
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.member import ClassicWords, ConsumerMember
from groupledger.coordinator.model.groups.consumer.records import (
    group_tombstones,
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_target_record,
)
from groupledger.coordinator.model.groups.modern.topics import metadata_hash
from groupledger.coordinator.model.handlers.classic.rebalance import (
    INITIAL_JOIN_TIMER,
    prepare_rebalance,
    reset_session,
)
from groupledger.coordinator.model.handlers.consumer.timers import SESSION_TIMER
from groupledger.coordinator.model.log_lines import Reason
from groupledger.coordinator.model.partitions import units_of
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Collection

    from groupledger.coordinator.model.operation import Operation
    from groupledger.coordinator.model.partitions import Partitions

# What the log says of it
CLASSIC_TO_CONSUMER: Final = {"previous_group_type": "classic", "group_type": "consumer"}
CONSUMER_TO_CLASSIC: Final = {"previous_group_type": "consumer", "group_type": "classic"}

# To a consumer group


def upgrade(classic: Group, operation: Operation) -> ConsumerGroup:
    """Writes and returns the consumer group that a classic group becomes. Members with waiting requests have to join
    again. Raises RefusedError if the group may not be converted."""
    why_not = _why_no_upgrade(classic, operation)
    if why_not:
        operation.log("upgrade_refused", group_id=classic.group_id, reason=why_not)
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    for member in classic.members.values():
        classic.complete_join(member, operation, error=Error.REBALANCE_IN_PROGRESS)
    for member in classic.members.values():
        classic.complete_sync(member, operation, Error.REBALANCE_IN_PROGRESS)
    operation.records += classic.tombstones()
    try:
        group = _consumer_group(classic, operation)
    except unreadable(operation.config):
        raise RefusedError(Error.GROUP_ID_NOT_FOUND) from None
    for name, each in group.members.items():
        if each.classic is not None:
            operation.set_timer(SESSION_TIMER, group.group_id, each.classic.session_timeout_ms, name)
    operation.log("group_converted", group_id=group.group_id, **CLASSIC_TO_CONSUMER)
    return group


def _why_no_upgrade(classic: Group, operation: Operation) -> str | None:
    if not operation.config.upgrades_groups:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > operation.config.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _consumer(classic: Group, member: Member, operation: Operation) -> ConsumerMember:
    assigned = _assigned(member.assignment, operation)
    if classic.protocol_name is None:
        raise IllegalStateError(f"{classic.group_id} has not chosen a protocol yet")
    subscription = read_subscription(member.metadata(classic.protocol_name))
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        epoch=classic.generation_id,
        previous_epoch=classic.generation_id,
        assigned=assigned,
        epochs=dict.fromkeys(units_of(assigned), classic.generation_id) if operation.config.is_4_4 else {},
        classic=ClassicWords(member.session_timeout_ms, member.protocols),
    )


def _assigned(assignment: bytes, operation: Operation) -> Partitions:
    """Returns the partitions that a leader assigned to a member, without topics that no longer exist. An assignor's own
    data is lost."""
    if not assignment:
        return {}
    read = read_assignment(assignment)
    if read.has_user_data:
        raise RefusedError(Error.GROUP_ID_NOT_FOUND)
    known = {
        operation.topics[topic].topic_id: tuple(sorted(dict.fromkeys(numbers)))
        for topic, numbers in read.partitions
        if topic in operation.topics
    }
    return {topic_id: known[topic_id] for topic_id in uuid_order(known) if known[topic_id]}


def _consumer_group(classic: Group, operation: Operation) -> ConsumerGroup:
    """Returns the group of the same members, and writes it in the order in which its own map has them."""
    group = ConsumerGroup(classic.group_id, operation.config.first_epoch)
    for each in classic.members.values():
        member = _consumer(classic, each, operation)
        if any(group.is_held(topic, number) for topic, numbers in member.assigned.items() for number in numbers):
            raise IllegalStateError("a leader gave a partition to two members")
        group.add(member)
        group.apply(new_target_record(group.group_id, member.member_id, member.assigned))
    found = metadata_hash(group.subscribed_topics(), operation.topics)
    epochs = (
        new_epoch_record(group.group_id, classic.generation_id, found),
        group.new_target_epoch_record(classic.generation_id),
    )
    for record in epochs:
        group.apply(record)
    ordered = list(group.members.values())
    operation.records += [
        *(new_member_record(group.group_id, each) for each in ordered),
        epochs[0],
        *(new_target_record(group.group_id, each.member_id, group.target[each.member_id]) for each in ordered),
        epochs[1],
        *(new_current_record(group.group_id, each) for each in ordered),
    ]
    return group


# To a classic group


def becomes_classic_without(group: ConsumerGroup, gone: Collection[ConsumerMember], operation: Operation) -> bool:
    """Returns whether the group becomes a classic one when the members in `gone` leave, because all remaining members
    are classic members."""
    away = [member.member_id for member in gone]
    stay = [member for name, member in group.members.items() if name not in away]
    return bool(stay) and all(each.classic is not None for each in stay) and _may_go_back(group, len(stay), operation)


def becomes_classic_by_replacing(group: ConsumerGroup, replaced: ConsumerMember, operation: Operation) -> bool:
    """Returns whether the group becomes a classic one when a classic member replaces the member `replaced`."""
    return (
        replaced.classic is None
        and all(member.classic is not None for member in group.members.values() if member is not replaced)
        and _may_go_back(group, len(group.members), operation)
    )


def _may_go_back(group: ConsumerGroup, size: int, operation: Operation) -> bool:
    why_not = None
    if not operation.config.downgrades_groups:
        why_not = "the online downgrade is disabled"
    elif size > operation.config.group_max_size:
        why_not = "its group size is greater than classic group max size"
    if why_not:
        operation.log("downgrade_refused", group_id=group.group_id, reason=why_not)
    return why_not is None


def downgrade(group: ConsumerGroup, gone: Collection[ConsumerMember], operation: Operation) -> None:
    """Writes the classic group that the members other than `gone` become, and begins a rebalance in it, so that all
    join again."""
    operation.records += group_tombstones(group.group_id, group.members, group.resolved)
    away = [member.member_id for member in gone]
    stay = [member for member in group.members.values() if member.member_id not in away]
    classic = _classic_group(group, stay, {}, operation)
    _rebalance(classic, "group_downgraded", operation)
    operation.log("group_converted", group_id=group.group_id, **CONSUMER_TO_CLASSIC)


def downgrade_by_replacing(
    group: ConsumerGroup, joining: ConsumerMember, replaced: ConsumerMember, operation: Operation, *, has_to_join: bool
) -> None:
    """Writes the classic group that a group becomes when the static member `joining` replaces `replaced`.

    The records that add `joining` are written already, so its tombstones have its own id. It gets the target of
    `replaced`; if `has_to_join`, a rebalance begins in the classic group.
    """
    names = [joining.member_id if name == replaced.member_id else name for name in group.members]
    operation.records += group_tombstones(group.group_id, names, group.resolved)
    others = [member for member in group.members.values() if member.instance_id != joining.instance_id]
    classic = _classic_group(group, [*others, joining], {joining.member_id: replaced.member_id}, operation)
    if has_to_join:
        kind = "group_downgraded_with_old_target" if operation.config.is_4_4 else "group_downgraded_by_replacement"
        _rebalance(classic, kind, operation)
    operation.log("group_converted", group_id=group.group_id, **CONSUMER_TO_CLASSIC)


def _rebalance(classic: Group, kind: str, operation: Operation) -> None:
    operation.cancel_timer(INITIAL_JOIN_TIMER, classic.group_id)  # a broker has one timer for both
    prepare_rebalance(classic, Reason(kind, {"group_id": classic.group_id}), operation)


def _classic_group(
    group: ConsumerGroup, members: list[ConsumerMember], took_over: dict[str, str], operation: Operation
) -> Group:
    """Writes a Stable classic group of these members, which is there as soon as that is written."""
    classic = Group(
        group_id=group.group_id,
        current_state_timestamp_ms=operation.now_ms,
        birth=Event.LOADED_WITH_MEMBERS,
        generation_id=group.epoch,
    )
    for each in members:
        classic.add(_classic_member(each))
    classic.protocol_name = classic.select_protocol()
    classic.compute_subscribed_topics(operation.config)
    for member in classic.members.values():
        # A member has no target if it came when one may not be computed yet; 4.2 then fails.
        nothing: Partitions | None = {} if operation.config.is_4_4 else None
        target = group.target.get(took_over.get(member.member_id, member.member_id), nothing)
        if target is None:
            raise IllegalStateError(f"{member.member_id} has no target")
        try:
            subscription = member.metadata(classic.protocol_name)
            member.assignment = written_assignment(named(target, operation), subscription)
        except unreadable(operation.config):
            raise RefusedError(Error.GROUP_ID_NOT_FOUND) from None
        reset_session(classic, member, operation)

    def after_append(error: Error) -> None:
        if error is Error.NONE:
            operation.groups.put(classic.group_id, classic)

    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    operation.append(new_group_metadata_record(classic, assignments), after_append)
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    words = member.classic
    if words is None:
        raise IllegalStateError(f"{member.member_id} has no classic protocol")
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=words.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=words.protocols,
    )


def named(partitions: Partitions, operation: Operation) -> list[tuple[str, tuple[int, ...]]]:
    """Returns partitions by topic name instead of topic id, without topics that no longer exist."""
    names = {topic.topic_id: topic.name for topic in operation.topics.values()}
    return [(names[topic_id], numbers) for topic_id, numbers in partitions.items() if topic_id in names]
