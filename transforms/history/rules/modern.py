"""Turns the records of a group of KIP-848's kind into rows: epochs, members, and what started each rebalance.

Groups of all three types are handled alike: `consumer` groups, `share` groups (KIP-932), and `streams` groups
(KIP-1071). A generation is a group epoch. Its record comes after those of the members that caused it, in the same
operation of the coordinator, so the changes are exact: they are the earlier records of the operation. An epoch alone,
with another metadata hash, says that subscribed topics changed. An operation without an epoch changes members only; a
static member that comes back in another's place is a revision, as in a classic group. `reconciliation` decides what
follows from an epoch.

After a hole in coverage the group is not fully known: a member that joined within the hole may appear in no later
record. So the group's epochs count as holes until its own tombstone.

No record says whether a member left or was fenced: that is inferred from its silence, as for classic groups. A member
that still held partitions to give up when its rebalance timeout was over was fenced.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import saturated_int32
from groupledger.schemas.kinds import changes as kinds
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import EndedBy, GroupType, HoleCause, LeaveCause, ProtocolKind
from groupledger.transforms.history.rules import by_type, cost, reconciliation
from groupledger.transforms.history.rules import modern_records as said
from groupledger.transforms.history.rules.changes import about, change, subscription_change
from groupledger.transforms.history.rules.modern_state import (
    Departure,
    MemberAssignment,
    Newcomer,
    Operation,
    Reconciliation,
)
from groupledger.transforms.history.rules.rows import HistoryRows, IntervalEnd, micros, put_generation, put_member
from groupledger.transforms.history.rules.share_records import ShareableRecord
from groupledger.transforms.history.rules.state import OpenGeneration, OpenGroup, Tenure
from groupledger.transforms.history.rules.streams_records import (
    CurrentTasksRecord,
    TargetTasksRecord,
    TopologyRecord,
)
from groupledger.transforms.history.rules.trigger import Guess, departure, silences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groupledger.transforms.history.rules.changes import Change
    from groupledger.transforms.history.rules.events import OtherGroupType

_FIRST_EPOCH_MAX = 2  # of a new group: of a streams group always, of the others since Kafka 4.3, and 1 before
_TRIGGERS = {
    kinds.GROUP_STARTED.name: triggers.JOINED,
    kinds.MEMBER_JOINED.name: triggers.JOINED,
    kinds.SUBSCRIPTION_CHANGED.name: triggers.METADATA_CHANGED,
    kinds.REGEX_RESOLVED.name: triggers.METADATA_CHANGED,
    kinds.TOPICS_CHANGED.name: triggers.TOPICS_CHANGED,
    kinds.PARTITIONS_INITIALIZED.name: triggers.PARTITIONS_INITIALIZED,
    kinds.PARTITIONS_FREED.name: triggers.PARTITIONS_FREED,
    kinds.TOPOLOGY_CHANGED.name: triggers.TOPOLOGY_CHANGED,
    kinds.TOPOLOGY_READY.name: triggers.TOPOLOGY_CHANGED,
    kinds.TOPOLOGY_NOT_READY.name: triggers.TOPOLOGY_CHANGED,
    kinds.ASSIGNMENT_CONFIGURED.name: triggers.ASSIGNMENT_CONFIGURED,
}


def fold_record(group: OpenGroup, event: OtherGroupType, rows: HistoryRows, *, is_known: bool) -> None:
    """Folds one record of a consumer, share or streams group into the group's state, and puts the rows that follow from
    it into `rows`. `is_known`: no record of the group is missing before this one."""
    if group.reconciliation is None:
        is_whole = group.is_state_known
        group.reconciliation = Reconciliation(
            is_whole=is_whole,
            is_target_known=is_whole,
            group_type=event.group_type,
            shareable=() if is_known and event.group_type == GroupType.SHARE else None,
        )
    fold_content = _FOLDED_BY.get(type(event.content))
    if fold_content is not None:
        # For a group that is not known whole, a record does not show who is new and who was there before.
        is_whole_known = is_known and group.reconciliation.is_whole
        here = IntervalEnd(event.kafka_offset, event.kafka_timestamp_ms, is_known=is_whole_known)
        fold_content(group, group.reconciliation, event.content, rows, here)


def _fold_target(
    group: OpenGroup, state: Reconciliation, record: said.TargetRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    if record.units is not None:
        settle(group, rows)
    reconciliation.fold_target(state, record, here)


def _fold_target_epoch(
    group: OpenGroup, state: Reconciliation, record: said.TargetEpochRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    settle(group, rows)
    if record.epoch is not None:
        reconciliation.fold_target_epoch(group, state, record.epoch, rows, here)


def _fold_current(
    group: OpenGroup, state: Reconciliation, record: said.CurrentRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    if record.current is None:
        _foresee_departure(group, state, record.member_id, rows, here)
    else:
        settle(group, rows)
    reconciliation.fold_current(group, state, record, rows, here)


# Operations


def _operation(group: OpenGroup, state: Reconciliation, rows: HistoryRows, here: IntervalEnd) -> Operation:
    """Returns the operation that the record at `here` belongs to: one with another time has ended before."""
    if state.operation is not None and state.operation.at_ms != here.at_ms:
        settle(group, rows)
    if state.operation is None:
        state.operation = Operation(at_ms=here.at_ms)
    return state.operation


def _fold_member(
    group: OpenGroup, state: Reconciliation, record: said.MemberRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    operation = _operation(group, state, rows, here)
    facts, member_id = record.facts, record.member_id
    if facts is None:
        tenure = group.members.get(member_id)
        if tenure is not None:
            reconciliation.release(group, state, member_id, rows, here)
            operation.departures.append(_departure(tenure, here, operation.causes.pop(member_id, [None, None, None])))
            del group.members[member_id]
        return
    # In an upgrade, the members of the classic group are still there under the same ids.
    tenure = group.members.get(member_id) if group.ending is None else None
    if tenure is not None:
        operation.changes += subscription_change(tenure.facts, facts)
        tenure.facts, tenure.may_have_left = facts, False
        put_member(rows, group, tenure)
        return
    operation.newcomers.append(
        Newcomer(facts=facts, kafka_offset=here.kafka_offset, at_ms=here.at_ms, is_known=here.is_known)
    )
    old = _replaced_by(operation, facts.group_instance_id)
    if old is None:
        operation.changes.append(about(kinds.MEMBER_JOINED, facts))
    else:
        old.replaced_by = member_id
        operation.changes.append(about(kinds.MEMBER_REPLACED, facts, previous_member_id=old.facts.member_id))
        operation.changes += subscription_change(old.facts, facts)
    if not here.is_known and group.ending is None:
        settle(group, rows)  # later records of its operation may be missing, and nothing is reported of it anyway


def _replaced_by(operation: Operation, instance_id: str | None) -> Departure | None:
    """Returns the member that the operation removed, and in whose place the instance comes."""
    if instance_id is None:
        return None
    same = (each for each in operation.departures if each.facts.group_instance_id == instance_id)
    return next((each for each in same if each.replaced_by is None), None)


def _departure(tenure: Tenure, here: IntervalEnd, cause: Sequence[Any]) -> Departure:
    return Departure(
        facts=tenure.facts,
        from_generation=tenure.from_generation,
        from_offset=tenure.from_offset,
        joined_at_ms=tenure.joined_at_ms,
        is_start_known=tenure.is_start_known,
        to_offset=here.kafka_offset,
        left_at_ms=here.at_ms,
        is_end_known=here.is_known,
        cause=cause[0],
        confidence=cause[1],
        explanation=cause[2],
    )


def _foresee_departure(
    group: OpenGroup, state: Reconciliation, member_id: str, rows: HistoryRows, here: IntervalEnd
) -> None:
    """Infers why a member leaves, at its first tombstone: after it, its ownership is not known any more."""
    operation = _operation(group, state, rows, here)
    tenure = group.members.get(member_id)
    step = state.steps.get(member_id)
    if tenure is None or not here.is_known:
        return
    if step is not None and step.current.is_away:
        # It had closed, which for a static member is no leave, and nobody knows when it would be back.
        operation.causes[member_id] = [
            triggers.SESSION_EXPIRED.name,
            0.6,
            f"a static member that had been away for {here.at_ms - step.valid_from_ms} ms",
        ]
    elif step is not None and _ran_out(step, tenure, here.at_ms):
        operation.causes[member_id] = [
            triggers.REBALANCE_TIMEOUT.name,
            0.9,
            f"gave up nothing for {here.at_ms - step.valid_from_ms} ms, its rebalance timeout being over",
        ]
    else:
        facts = tenure.facts
        if facts.session_timeout_ms is None and state.group_type == GroupType.CONSUMER:
            facts = replace(facts, session_timeout_ms=group.consumer_session_timeout_ms)
        guess = departure(facts, silences(group, [tenure], here.at_ms)[member_id], None)
        operation.causes[member_id] = [guess.trigger, guess.confidence, guess.explanation]


def _ran_out(step: MemberAssignment, tenure: Tenure, at_ms: int) -> bool:
    """Returns whether a member had its rebalance timeout to give up partitions, and still held them."""
    timeout_ms = tenure.facts.rebalance_timeout_ms or 0  # members of share groups have none
    return step.current.state == said.UNREVOKED and 0 < timeout_ms <= at_ms - step.valid_from_ms


def _fold_regex(
    group: OpenGroup, state: Reconciliation, record: said.RegexRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    operation = _operation(group, state, rows, here)
    before = state.regexes.pop(record.regex, [])
    if record.topics is not None:
        state.regexes[record.regex] = list(record.topics)
        added, removed = sorted({*record.topics} - {*before}), sorted({*before} - {*record.topics})
        if added or removed:
            operation.changes.append(change(kinds.REGEX_RESOLVED, topics_added=added, topics_removed=removed))


def settle(group: OpenGroup, rows: HistoryRows) -> None:
    """Ends the coordinator's operation whose records were read last, if one is open, as an operation that began no
    epoch. Puts the rows of its members into `rows`."""
    state = group.reconciliation
    operation = None if state is None else state.operation
    if state is None or operation is None:
        return
    is_known = all(each.is_known for each in operation.newcomers)
    replaced = [each for each in operation.departures if each.replaced_by is not None]
    generation = group.generation
    if replaced and is_known and generation is not None and generation.ended_by is None:
        end = IntervalEnd(operation.newcomers[0].kafka_offset, operation.at_ms, is_known=True)
        generation.ended_by = EndedBy.REVISION
        put_generation(rows, group, generation, end)
        group.generation = replace(
            generation,
            revision=generation.revision + 1,
            kafka_offset=end.kafka_offset,
            started_at_ms=end.at_ms,
            changes=operation.changes,
            ended_by=None,
        )
        put_generation(rows, group, group.generation)
    _turn_over(group, state, operation, rows, group.number)


def _turn_over(
    group: OpenGroup, state: Reconciliation, operation: Operation, rows: HistoryRows, to_generation: int | None
) -> None:
    """Writes who came and who went. `to_generation` is the last one of those that went."""
    state.operation = None
    for gone in operation.departures:
        cause = (gone.cause, gone.confidence) if gone.replaced_by is None else (LeaveCause.REPLACED, 1.0)
        end = IntervalEnd(gone.to_offset, gone.left_at_ms, is_known=gone.is_end_known)
        put_member(rows, group, tenure_of(gone, state.group_type), end, to_generation=to_generation, cause=cause)
        if gone.replaced_by is not None:
            reconciliation.pass_on_target(state, gone.facts.member_id, gone.replaced_by)
    for newcomer in operation.newcomers:
        tenure = Tenure(
            facts=newcomer.facts,
            from_generation=group.number or 0,
            from_offset=newcomer.kafka_offset,
            joined_at_ms=newcomer.at_ms,
            is_start_known=newcomer.is_known,
            group_type=state.group_type,
        )
        group.members[newcomer.facts.member_id] = tenure
        put_member(rows, group, tenure)
        here = IntervalEnd(newcomer.kafka_offset, newcomer.at_ms, is_known=False)
        reconciliation.take(group, state, newcomer.facts.member_id, rows, here)


def tenure_of(gone: Departure, group_type: str) -> Tenure:
    return Tenure(
        facts=gone.facts,
        from_generation=gone.from_generation,
        from_offset=gone.from_offset,
        joined_at_ms=gone.joined_at_ms,
        is_start_known=gone.is_start_known,
        group_type=group_type,
    )


# Epochs


def _fold_epoch(
    group: OpenGroup, state: Reconciliation, record: said.EpochRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    before = group.generation
    operation = _operation(group, state, rows, here)
    if not here.is_known:  # a cleaner may have removed the tombstones of targets that came before it
        state.is_target_known = False
    hash_before, state.metadata_hash = state.metadata_hash, record.metadata_hash
    is_upgrade = before is not None and before.group_type == GroupType.CLASSIC
    is_same = before is not None and before.generation == record.epoch
    _turn_over(group, state, operation, rows, None if before is None else before.generation)
    if not group.members:  # no target follows, and the next one takes from nobody
        state.targets_before = {}
    if is_same and before is not None and before.ended_by is None:
        return
    gap = _gap(before, record.epoch, here)
    gap = None if gap is None else saturated_int32(gap)  # a forged epoch may be any number of 32 bits
    is_freed = state.shareable_before is not None  # the one reason that is left for an epoch of a share group
    operation.changes += by_type.changes_of_epoch(state, record)
    is_other_hash = record.metadata_hash != hash_before
    changes = _changes(group, operation, before, is_other_hash=is_other_hash, is_freed=is_freed)
    # An epoch of a share group without a cause has one that was logged where nobody read.
    is_whole_known = here.is_known and (bool(changes) or state.group_type != GroupType.SHARE)
    is_hole = not is_whole_known or (not is_same and (bool(gap) or is_upgrade))
    if before is not None and before.ended_by is None:
        before.ended_by = EndedBy.GENERATION
        put_generation(rows, group, before, IntervalEnd(here.kafka_offset, here.at_ms, is_known=not is_hole))
    cost.write_rebalance(rows, group)
    if not is_same:
        group.rebalance = None
        if before is not None or here.is_known:
            guess = None if is_hole else _guess(changes, operation)
            row = _rebalance_row(group, before, here, None if is_hole else changes, guess)
            row |= {"to_generation": record.epoch, "generation_gap": gap}
            if is_hole:
                row["hole_cause"] = HoleCause.CONVERTED if is_whole_known else HoleCause.NOT_COVERED
            group.rebalance = cost.watch(group, row, None)
    group.generation = _generation(group, state, record.epoch, here, gap)
    if before is not None and is_same:
        group.generation.revision = before.revision + 1
        group.generation.changes = [] if here.is_known else None
    put_generation(rows, group, group.generation)


def _gap(before: OpenGeneration | None, epoch: int, here: IntervalEnd) -> int | None:
    if before is not None:
        return max(epoch - before.generation - 1, 0)
    return max(epoch - _FIRST_EPOCH_MAX, 0) if here.is_known else None


def _changes(
    group: OpenGroup, operation: Operation, before: OpenGeneration | None, *, is_other_hash: bool, is_freed: bool
) -> list[Change]:
    if before is None or (not before.generation and before.ended_by is None):
        return [change(kinds.GROUP_STARTED)]
    left = [about(kinds.MEMBER_LEFT, gone.facts) for gone in operation.departures if gone.replaced_by is None]
    found = [*operation.changes, *left]
    if not found and is_other_hash:
        found = [change(kinds.TOPICS_CHANGED)]
    elif not found and is_freed:
        found = [change(kinds.PARTITIONS_FREED)]
    if operation.departures and not group.members:
        found.append(change(kinds.GROUP_EMPTIED))
    return found


def _guess(changes: Sequence[Change], operation: Operation) -> Guess | None:
    """Returns the trigger of the epoch: the records state it, except for the cause of a departure, which is
    inferred."""
    gone = [each for each in operation.departures if each.replaced_by is None and each.cause is not None]
    if gone:
        best = max(gone, key=lambda each: each.confidence or 0.0)
        (cause,) = (each for each in triggers.TRIGGERS if each.name == best.cause)
        return Guess(cause, best.confidence or 0.0, best.explanation or "")
    kind = next((each["kind"] for each in changes if each["kind"] in _TRIGGERS), None)
    return None if kind is None else Guess(_TRIGGERS[kind], 1.0, "the records of the operation say it")


def _generation(
    group: OpenGroup, state: Reconciliation, epoch: int, here: IntervalEnd, gap: int | None
) -> OpenGeneration:
    votes = [tenure.facts.server_assignor for tenure in group.members.values() if tenure.facts.server_assignor]
    return OpenGeneration(
        generation=epoch,
        revision=0,
        protocol_type=state.group_type,
        protocol=max(sorted(set(votes)), key=votes.count) if votes else None,
        leader=None,
        kafka_offset=here.kafka_offset,
        started_at_ms=here.at_ms,
        current_state_timestamp_ms=None,
        generation_gap=gap,
        is_start_known=here.is_known,
        is_ownership_known=here.is_known,
        member_count=len(group.members) if here.is_known else None,
        owned_count=None,
        group_type=state.group_type,
    )


def _rebalance_row(
    group: OpenGroup,
    before: OpenGeneration | None,
    here: IntervalEnd,
    changes: list[Change] | None,
    guess: Guess | None,
) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "incarnation": group.incarnation,
        "from_generation": 0 if before is None else before.generation,
        "kafka_partition": group.kafka_partition,
        "kafka_offset": here.kafka_offset,
        "happened_at": micros(here.at_ms),
        "is_hole": changes is None,
        "hole_cause": None,
        "protocol_kind": ProtocolKind.UNKNOWN if changes is None else ProtocolKind.COOPERATIVE,
        "changes": changes,
        "caused_by_generation": None,
        "inferred_trigger": guess and guess.trigger,
        "inferred_trigger_confidence": guess and guess.confidence,
        "inferred_trigger_explanation": guess and guess.explanation,
        "member_count": len(group.members) if here.is_known else None,
        "members_idle": None,
        "sync_wait_ms": None,
        "scheduled_delay_ms": None,
        **cost.NO_MOVEMENT_KNOWN,
    }


# Ends


def end_group(group: OpenGroup, rows: HistoryRows) -> None:
    """Puts the ends of the members that the operation of the group's own tombstone removed into `rows`. Why they left
    is not known: the group may have ended, or may continue as a classic group."""
    state = group.reconciliation
    if state is not None and state.operation is not None:
        for gone in state.operation.departures:
            end = IntervalEnd(gone.to_offset, gone.left_at_ms, is_known=gone.is_end_known)
            put_member(rows, group, tenure_of(gone, state.group_type), end, to_generation=group.number)


def hand_over(group: OpenGroup, rows: HistoryRows, stayed: set[str]) -> None:
    """Turns the group's state into that of a classic group, with the members that the tombstones of the consumer group
    have just removed. Those in `stayed` are still members; the fold of classic groups decides which of the others
    left."""
    state, generation, ending = group.reconciliation, group.generation, group.ending
    departures = [] if state is None or state.operation is None else state.operation.departures
    if generation is not None and ending is not None and generation.ended_by == EndedBy.TOMBSTONE:
        generation.ended_by = EndedBy.DOWNGRADE
        put_generation(
            rows, group, generation, IntervalEnd(ending.kafka_offset, ending.kafka_timestamp_ms, ending.is_known)
        )
    for gone in departures:
        tenure = tenure_of(gone, GroupType.CONSUMER)
        group.members[gone.facts.member_id] = tenure
        if gone.facts.member_id in stayed:
            tenure.group_type = GroupType.CLASSIC
            put_member(rows, group, tenure)
    group.reconciliation = group.rebalance = None


def _fold_shareable(
    _group: OpenGroup, state: Reconciliation, record: ShareableRecord, _rows: HistoryRows, _here: IntervalEnd
) -> None:
    state.shareable = record.units


def _fold_topology(
    group: OpenGroup, state: Reconciliation, record: TopologyRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    operation = _operation(group, state, rows, here)
    if by_type.fold_topology(group, state, record, rows, here):
        operation.changes.append(change(kinds.TOPOLOGY_CHANGED))


def _fold_target_tasks(
    group: OpenGroup, state: Reconciliation, record: TargetTasksRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    units = None if record.tasks is None else by_type.partitions_of(state.topology, record.tasks)
    _fold_target(group, state, said.TargetRecord(record.member_id, units), rows, here)


def _fold_current_tasks(
    group: OpenGroup, state: Reconciliation, record: CurrentTasksRecord, rows: HistoryRows, here: IntervalEnd
) -> None:
    tasks = record.current
    if tasks is None:
        _fold_current(group, state, said.CurrentRecord(record.member_id, None), rows, here)
        return
    settle(group, rows)
    current = by_type.current_of(state.topology, tasks)
    step = said.CurrentRecord(record.member_id, current)
    reconciliation.fold_current(group, state, step, rows, here, (*tasks.tasks, *tasks.pending))


_FOLDED_BY: dict[type[Any], Callable[[OpenGroup, Reconciliation, Any, HistoryRows, IntervalEnd], None]] = {
    ShareableRecord: _fold_shareable,
    TopologyRecord: _fold_topology,
    TargetTasksRecord: _fold_target_tasks,
    CurrentTasksRecord: _fold_current_tasks,
    said.EpochRecord: _fold_epoch,
    said.MemberRecord: _fold_member,
    said.RegexRecord: _fold_regex,
    said.TargetRecord: _fold_target,
    said.TargetEpochRecord: _fold_target_epoch,
    said.CurrentRecord: _fold_current,
}
