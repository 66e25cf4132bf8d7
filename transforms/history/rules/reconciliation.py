"""Determines how the members of a group of KIP-848's kind come to own the partitions that an epoch assigns: targets,
steps, owners.

A member owns a partition from its first current assignment that names the partition to the first that names it neither
as assigned nor as still to be given up. A static member that is away (epoch -2) owns nothing: its partitions are
reserved for it. An epoch has converged when its target is written and every member, except those that are away, is
stable at it; the next epoch may come before that. Convergence is claimed only where the log holds every member's newest
record.

A partition of a share group has no owner: several members hold it at once, which `holdings` records, as it does the
tasks of a streams group's members. In a streams group the owners are those of the partitions that active tasks read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules import cost, holdings
from groupledger.transforms.history.rules.modern_records import STABLE
from groupledger.transforms.history.rules.modern_state import MemberAssignment
from groupledger.transforms.history.rules.rows import (
    HistoryRows,
    IntervalEnd,
    put_generation,
    put_intervals,
    put_member,
    put_step,
    put_topology,
)
from groupledger.transforms.history.rules.state import OpenOwnership

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.transforms.history.rules.events import MemberFacts
    from groupledger.transforms.history.rules.modern_records import CurrentRecord, TargetRecord, Units
    from groupledger.transforms.history.rules.modern_state import Held, Reconciliation
    from groupledger.transforms.history.rules.state import OpenGroup

Owners = dict[TopicPartition, cost.Identities]


def fold_target(state: Reconciliation, record: TargetRecord, here: IntervalEnd) -> None:
    if not here.is_known:  # as after the record of an epoch that is not known
        state.is_target_known = False
    state.targets_before.setdefault(record.member_id, state.targets.get(record.member_id, ()))
    if record.units is None:
        state.targets.pop(record.member_id, None)
    else:
        state.targets[record.member_id] = record.units


def pass_on_target(state: Reconciliation, old_id: str, new_id: str) -> None:
    """Makes the former target of a static member that of the member in its place, since both are the same owner."""
    if old_id in state.targets_before:
        state.targets_before[new_id] = state.targets_before.pop(old_id)


def fold_target_epoch(
    group: OpenGroup, state: Reconciliation, epoch: int, rows: HistoryRows, here: IntervalEnd
) -> None:
    """Folds the record that gives all targets their epoch into the state. Only with this record is it known which
    partitions the epoch moves."""
    state.target_epoch, state.targeted_at_ms = epoch, here.at_ms
    before, state.targets_before = state.targets_before, {}
    is_before_known, state.is_target_known = state.is_target_known, epoch == group.number
    generation = group.generation
    if generation is None or generation.ended_by is not None:
        return
    if generation.generation != epoch or generation.targeted_at_ms is not None:
        return
    generation.targeted_at_ms = here.at_ms
    if here.is_known:
        generation.owned_count = sum(map(len, state.targets.values()))
    put_generation(rows, group, generation)
    rebalance = group.rebalance
    if rebalance is not None and not rebalance.row["is_hole"] and is_before_known:
        facts = {member_id: tenure.facts for member_id, tenure in group.members.items()}
        moves = cost.movement_between(_by_unit({**state.targets, **before}, facts), _by_unit(state.targets, facts))
        row = rebalance.row | moves.columns()
        row["members_idle"] = sum(not state.targets.get(member_id) for member_id in group.members)
        group.rebalance = cost.watch(group, row, moves)
    _see_convergence(group, state, rows, here)


def _by_unit(targets: Mapping[str, Units], facts: Mapping[str, MemberFacts]) -> Owners:
    found: Owners = {}
    for member_id, units in targets.items():
        identity = facts[member_id].identity if member_id in facts else f"member {member_id}"
        for unit in units:
            found[unit] = tuple(sorted((*found.get(unit, ()), identity)))
    return found


def fold_current(
    group: OpenGroup,
    state: Reconciliation,
    record: CurrentRecord,
    rows: HistoryRows,
    here: IntervalEnd,
    holds: tuple[Held, ...] = (),
) -> None:
    """Folds the record of a member's current assignment, or its tombstone, into the state, as a step of the member.
    `holds` are the tasks that a member of a streams group has."""
    member_id, current = record.member_id, record.current
    if current is None:
        release(group, state, member_id, rows, here)
        return
    tenure = group.members.get(member_id)
    if tenure is not None and tenure.may_have_left:
        tenure.may_have_left = False
        put_member(rows, group, tenure)
    old = state.steps.get(member_id)
    if old is not None:
        put_step(rows, group, member_id, old, here)
    target = state.targets.get(member_id, ())
    held = set(current.held)
    step = MemberAssignment(
        current=current,
        target=target,
        waits_for=[],
        targeted_at_ms=state.targeted_at_ms,
        from_offset=here.kafka_offset,
        valid_from_ms=here.at_ms,
        holds=holds,
    )
    _hand_over(group, state, member_id, old, step, rows, here)
    if not current.is_away and state.group_type != GroupType.SHARE:
        step.waits_for = [(unit, _holder(group, unit)) for unit in target if unit not in held]
    state.steps[member_id] = step
    put_step(rows, group, member_id, step)
    if here.is_known:
        _see_convergence(group, state, rows, here)


def _holder(group: OpenGroup, unit: TopicPartition) -> str | None:
    interval = group.owners.get(unit)
    return None if interval is None else interval.owners[0]


def release(group: OpenGroup, state: Reconciliation, member_id: str, rows: HistoryRows, here: IntervalEnd) -> None:
    """Ends the steps of a member that leaves, and its ownership."""
    step = state.steps.pop(member_id, None)
    if step is not None:
        put_step(rows, group, member_id, step, here)
        _hand_over(group, state, member_id, step, None, rows, here)


def take(group: OpenGroup, state: Reconciliation, member_id: str, rows: HistoryRows, here: IntervalEnd) -> None:
    """Gives a new member the partitions of its current assignment, if that record was read before the member's own, as
    may happen in a compacted log."""
    step = state.steps.get(member_id)
    if step is not None:
        _hand_over(group, state, member_id, None, step, rows, here)


def close_steps(group: OpenGroup, rows: HistoryRows, end: IntervalEnd) -> None:
    """Ends the steps and the ownership of all members at `end`, because the group ends or a hole in coverage begins
    there."""
    holdings.close(group, rows, end)
    if group.reconciliation is not None:
        if group.reconciliation.topology is not None:
            put_topology(rows, group, group.reconciliation.topology, end)
            group.reconciliation.topology = None
        for member_id, step in group.reconciliation.steps.items():
            put_step(rows, group, member_id, step, end)
        group.reconciliation.steps = {}


def _hand_over(
    group: OpenGroup,
    state: Reconciliation,
    member_id: str,
    before: MemberAssignment | None,
    now: MemberAssignment | None,
    rows: HistoryRows,
    here: IntervalEnd,
) -> None:
    """Ends and begins the intervals of a member; nobody is reported as an owner before its member record is read."""
    if member_id not in group.members:
        return
    holdings.hold(group, state, member_id, () if now is None else now.holds or now.current.held, rows, here)
    if state.group_type == GroupType.SHARE:
        return
    had = set(() if before is None else before.current.held)
    has = set(() if now is None else now.current.held)
    for unit in sorted(had - has):
        interval = group.owners.get(unit)
        if interval is not None and member_id in interval.owners:
            _own(group, unit, tuple(each for each in interval.owners if each != member_id), rows, here)
    for unit in sorted(has):
        interval = group.owners.get(unit)
        if interval is None or member_id not in interval.owners:
            others = () if interval is None else interval.owners
            _own(group, unit, tuple(sorted((*others, member_id))), rows, here)


def _own(group: OpenGroup, unit: TopicPartition, owners: tuple[str, ...], rows: HistoryRows, here: IntervalEnd) -> None:
    """Ends the partition's interval, and begins that of its next owners, if there are any."""
    interval = group.owners.pop(unit, None)
    if interval is not None:
        put_intervals(rows, group, [(unit, interval)], here, group.number or 0)
    if unit in group.commits:
        group.commits[unit].owner_commits = 0
    if owners:
        group.owners[unit] = OpenOwnership(
            owners=owners,
            from_generation=group.number or 0,
            from_offset=here.kafka_offset,
            valid_from_ms=here.at_ms,
            is_start_known=here.is_known,
        )
        put_intervals(rows, group, [(unit, group.owners[unit])])


def _see_convergence(group: OpenGroup, state: Reconciliation, rows: HistoryRows, here: IntervalEnd) -> None:
    generation = group.generation
    if generation is None or generation.converged_at_ms is not None or generation.group_type == GroupType.CLASSIC:
        return
    # Of an epoch that began in the dark nobody can say that it had not converged before.
    is_in_sight = generation.ended_by is None and generation.is_start_known
    if is_in_sight and _has_converged(group, state, generation.generation):
        generation.converged_at_ms = here.at_ms
        put_generation(rows, group, generation)


def _has_converged(group: OpenGroup, state: Reconciliation, epoch: int) -> bool:
    if state.target_epoch != epoch or not state.is_whole:
        return False
    steps = (state.steps.get(member_id) for member_id in group.members)
    return all(
        step is not None
        and (step.current.is_away or (step.current.state == STABLE and step.current.member_epoch == epoch))
        for step in steps
    )
