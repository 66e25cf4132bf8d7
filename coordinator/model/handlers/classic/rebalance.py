"""Implements the two phases of a rebalance, and the timers that end them.

Join phase (PreparingRebalance): it lasts until all members have rejoined or the join timer fires. The first rebalance
of an Empty group waits for `group.initial.rebalance.delay.ms`, and again while new members come, up to the members'
rebalance timeout. Sync phase (CompletingRebalance): the leader's assignment ends it (membership.py), and the sync timer
removes the members that sent no SyncGroup. Each member has a session timer, which runs all the time.

Functions are named after those of Kafka's GroupMetadataManager, and take the operation in which they happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.groups.classic.group import Group, Member
from groupledger.coordinator.model.groups.classic.records import new_group_metadata_record
from groupledger.coordinator.model.groups.classic.states import Event, State, can_happen
from groupledger.coordinator.model.log_lines import Reason
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import NOT_PROVIDED

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.classic.group import Group, Member
    from groupledger.coordinator.model.operation import Operation

JOIN_TIMER = "join"
INITIAL_JOIN_TIMER = "initial-join"
SYNC_TIMER = "sync"
SESSION_TIMER = "heartbeat"


def maybe_prepare_rebalance_or_complete_join(group: Group, reason: Reason, operation: Operation) -> None:
    if can_happen(group.state, Event.REBALANCE_STARTED):
        prepare_rebalance(group, reason, operation)
    else:
        maybe_complete_join_phase(group, operation)


def prepare_rebalance(group: Group, reason: Reason, operation: Operation) -> None:
    if group.state is State.COMPLETING_REBALANCE:
        reset_and_propagate_assignment_with_error(group, Error.REBALANCE_IN_PROGRESS, operation)
    group.pending_sync_members.clear()
    operation.cancel_timer(SYNC_TIMER, group.group_id)
    is_initial = group.state is State.EMPTY
    group.apply(Event.REBALANCE_STARTED, operation.now_ms)
    operation.log(
        "preparing_rebalance",
        group_id=group.group_id,
        state=group.state.value,
        previous_generation=group.generation_id,
        reason=reason,
    )
    if is_initial:
        delay_ms = operation.config.group_initial_rebalance_delay_ms
        _delay_join(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), operation)
    elif group.has_all_members_joined:
        complete_join(group, operation)
    else:
        operation.set_timer(JOIN_TIMER, group.group_id, group.rebalance_timeout_ms)


def rebalance_by_leader(group: Group, operation: Operation) -> None:
    """Begins a rebalance as if the leader had joined again. Does nothing if the group has no leader, or if no rebalance
    can begin in its state."""
    if can_happen(group.state, Event.REBALANCE_STARTED) and group.leader_id is not None:
        fields = {"member_id": group.leader_id, "state": group.state.value, "client_reason": NOT_PROVIDED}
        prepare_rebalance(group, Reason("leader_rejoined", fields), operation)


def maybe_complete_join_phase(group: Group, operation: Operation) -> None:
    """Ends the join phase if all members have joined. The first rebalance of an Empty group always waits until its
    delay is over."""
    if (
        group.state is State.PREPARING_REBALANCE
        and group.previous_state is not State.EMPTY
        and group.has_all_members_joined
    ):
        complete_join(group, operation)


def complete_initial_join_or_delay(group: Group, operation: Operation) -> None:
    """Handles the end of the initial delay. The delay begins again if members have joined meanwhile and time remains;
    otherwise the join phase ends."""
    if not group.new_member_added or group.initial_remaining_ms == 0:
        complete_join(group, operation)
        return
    group.new_member_added = False
    remaining_ms = group.initial_remaining_ms
    _delay_join(
        group,
        min(operation.config.group_initial_rebalance_delay_ms, remaining_ms),
        max(remaining_ms - group.initial_delay_ms, 0),
        operation,
    )


def _delay_join(group: Group, delay_ms: int, remaining_ms: int, operation: Operation) -> None:
    group.initial_delay_ms = delay_ms
    group.initial_remaining_ms = remaining_ms
    operation.set_timer(INITIAL_JOIN_TIMER, group.group_id, delay_ms)


def complete_join(group: Group, operation: Operation) -> None:
    """Ends the join phase. The members of the next generation are those that have joined and all static ones. If only
    static members are left and none has joined, it waits for another rebalance timeout."""
    operation.cancel_timer(JOIN_TIMER, group.group_id)
    operation.cancel_timer(INITIAL_JOIN_TIMER, group.group_id)
    _remove_dynamic_members_not_joined(group, operation)
    if group.state is State.DEAD:
        operation.log("group_is_dead", group_id=group.group_id)
    elif not group.elect_joined_leader(operation) and group.members:
        # Only static members are left and none of them has joined: wait until sessions expire.
        operation.log("no_members_rejoined", group_id=group.group_id)
        operation.set_timer(JOIN_TIMER, group.group_id, group.rebalance_timeout_ms)
    else:
        group.init_next_generation(operation.now_ms, operation.config)
        if group.state is State.EMPTY:
            _write_empty_group(group, operation)
        else:
            _start_sync_phase(group, operation)


def _remove_dynamic_members_not_joined(group: Group, operation: Operation) -> None:
    removed = hash_map_order(
        member.member_id
        for member in group.members.values()
        if member.awaiting_join is None and member.group_instance_id is None
    )
    if removed:
        _remove_members(group, removed, operation)
        operation.log("dynamic_members_removed", group_id=group.group_id, member_ids=removed)


def _remove_members(group: Group, member_ids: list[str], operation: Operation) -> None:
    for member_id in member_ids:
        group.remove(member_id)
        operation.cancel_timer(SESSION_TIMER, group.group_id, member_id)


def _write_empty_group(group: Group, operation: Operation) -> None:
    operation.log("group_now_empty", group_id=group.group_id, generation=group.generation_id)

    def after_append(error: Error) -> None:
        if error is not Error.NONE:
            operation.log("empty_metadata_not_written", group_id=group.group_id, error=error.name)

    operation.append(new_group_metadata_record(group, {}), after_append)


def _start_sync_phase(group: Group, operation: Operation) -> None:
    operation.log(
        "stabilized",
        group_id=group.group_id,
        generation=group.generation_id,
        member_count=len(group.members),
    )
    for member in group.members.values():
        is_leader = member.member_id == group.leader_id
        group.complete_join(
            member,
            operation,
            error=Error.NONE,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id,
            members=group.joined_members() if is_leader else (),
        )
        reset_session(group, member, operation)
        member.is_new = False
        group.pending_sync_members.put(member.member_id, None)
    operation.set_timer(SYNC_TIMER, group.group_id, group.rebalance_timeout_ms)


def expire_pending_sync(group: Group, operation: Operation) -> None:
    """Handles the sync timer: members that have sent no SyncGroup are removed, even static ones, and a rebalance
    begins."""
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
        return
    removed = hash_map_order(group.pending_sync_members, expected_size=len(group.pending_sync_members))
    if removed:
        _remove_members(group, removed, operation)
        prepare_rebalance(group, Reason("sync_expired", {"member_ids": removed}), operation)


def reset_session(group: Group, member: Member, operation: Operation, timeout_ms: int | None = None) -> None:
    timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    timer = (SESSION_TIMER, operation.partition, group.group_id, member.member_id)
    operation.deadlines.set(
        timer, operation.now_ms + timeout_ms
    )  # not by set_timer: half the cost of a heartbeat is here


def expire_session(group: Group, member_id: str, operation: Operation) -> None:
    """Handles a session timer. A pending member is removed, and a member that is silent has failed; a member that is
    gone already, or whose request waits, is ignored."""
    member = group.members.get(member_id)
    if group.state is State.DEAD:
        return
    if member_id in group.pending_join_members:
        operation.log("pending_member_expired", member_id=member_id, group_id=group.group_id)
        group.remove(member_id)
        _complete_join_if_all_joined(group, operation)
    elif member is not None and not member.has_satisfied_heartbeat:
        operation.log("member_failed", member_id=member_id, group_id=group.group_id)
        group.complete_join(member, operation, error=Error.UNKNOWN_MEMBER_ID, member_id="")
        group.remove(member_id)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            reason = Reason("session_expired", {"member_id": member_id})
            prepare_rebalance(group, reason, operation)
        else:
            _complete_join_if_all_joined(group, operation)


def _complete_join_if_all_joined(group: Group, operation: Operation) -> None:
    """Ends the join phase if all members have joined, and even in the initial delay, unlike a join or a leave."""
    if group.state is State.PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join(group, operation)


def reset_and_propagate_assignment_with_error(group: Group, error: Error, operation: Operation) -> None:
    for member in group.members.values():
        member.assignment = b""
        if group.complete_sync(member, operation, error):
            reset_session(group, member, operation)


def set_and_propagate_assignment(group: Group, assignments: dict[str, bytes], operation: Operation) -> None:
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
    for member in group.members.values():
        if not member.assignment:
            operation.log(
                "empty_assignment_sent",
                member_id=member.member_id,
                group_id=group.group_id,
                generation=group.generation_id,
            )
        if group.complete_sync(member, operation):
            # Expiries were ignored while the member waited, so its session starts over.
            reset_session(group, member, operation)
