"""Turns a `group_metadata` record into rows: those of a new generation, those of a revision of the present one, or no
rows.

A revision repeats the generation with another content (a static member was replaced); a record with the same content
adds no rows. A rebalance is an increment of the generation within one incarnation. If increments have no record
(`generation_gap`: their leader never synced, or nobody read the record), or if records may be missing between the two
records, the transition is a hole: its row states the two generations and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import saturated_int32
from groupledger.schemas.kinds.changes import COOPERATIVE_FOLLOW_UP, GROUP_STARTED
from groupledger.schemas.words import EndedBy, HoleCause, LeaveCause, ProtocolKind
from groupledger.transforms.history.rules import cost
from groupledger.transforms.history.rules.changes import (
    Change,
    Turnover,
    change,
    changes_between,
    grow_universe,
    turnover,
)
from groupledger.transforms.history.rules.follow_ups import is_mere_follow_up
from groupledger.transforms.history.rules.rows import (
    HistoryRows,
    IntervalEnd,
    micros,
    put_generation,
    put_intervals,
    put_member,
)
from groupledger.transforms.history.rules.state import OpenGeneration, OpenGroup, OpenOwnership, Tenure
from groupledger.transforms.history.rules.trigger import Guess, departure, infer, silences

if TYPE_CHECKING:
    from groupledger.transforms.history.rules.events import GroupRecord


@dataclass(slots=True, kw_only=True)
class Transition:
    """The step from the group's present generation to a record. `is_known`: no record between them is missing.

    `changes` and `departures` (by member id) are empty if the transition is a hole.
    """

    record: GroupRecord
    members: Turnover
    is_known: bool
    is_revision: bool
    gap: int | None
    finding: str | None
    changes: list[Change] = field(default_factory=list)
    departures: dict[str, Guess] = field(default_factory=dict)

    @property
    def is_hole(self) -> bool:
        return not self.is_known or (bool(self.gap) and not self.is_revision)

    @property
    def end(self) -> IntervalEnd:
        return IntervalEnd(self.record.kafka_offset, self.record.kafka_timestamp_ms, is_known=not self.is_hole)

    @property
    def kinds(self) -> set[str]:
        return {each["kind"] for each in self.changes}


def open_generation(
    group: OpenGroup, record: GroupRecord, rows: HistoryRows, *, is_known: bool, finding: str | None = None
) -> None:
    before = group.generation
    is_revision = before is not None and before.generation == record.generation
    if is_revision and _repeats(group, record):
        return
    members = turnover(group.members, record.members)
    gap = before.generation_gap if before is not None and is_revision else _gap(group, record, is_known=is_known)
    transition = Transition(
        record=record, members=members, is_known=is_known, is_revision=is_revision, gap=gap, finding=finding
    )
    if not transition.is_hole:
        _explain(group, transition)
    if record.generation and not is_revision and (before is not None or (is_known and group.number is None)):
        _open_rebalance(group, transition)
    _close_before(group, transition, rows)
    _replace_members(group, transition, rows)
    _open_after(group, transition, rows)
    _prepare_next(group, transition)


def _repeats(group: OpenGroup, record: GroupRecord) -> bool:
    """Returns whether the record has the content of the open generation, whatever the timestamps."""
    before = group.generation
    return (
        before is not None
        and before.ended_by is None
        and (before.protocol_type, before.protocol, before.leader)
        == (record.protocol_type, record.protocol, record.leader)
        and before.is_ownership_known == record.is_ownership_known
        and {member_id: tenure.facts for member_id, tenure in group.members.items()}
        == {member.facts.member_id: member.facts for member in record.members}
        and {unit: interval.owners for unit, interval in group.owners.items()} == record.owners
    )


def _gap(group: OpenGroup, record: GroupRecord, *, is_known: bool) -> int | None:
    """Returns the number of increments that have no record; None where it can't be known."""
    if group.generation is not None:
        return saturated_int32(record.generation - group.generation.generation - 1)
    return max(record.generation - 1, 0) if is_known and group.number is None else None


def _explain(group: OpenGroup, transition: Transition) -> None:
    record, members = transition.record, transition.members
    moment_ms = record.current_state_timestamp_ms
    if moment_ms is None or transition.is_revision:
        moment_ms = record.kafka_timestamp_ms
    quiet = silences(group, members.gone, moment_ms)
    since_join_ms = _since_join_ms(group.generation, moment_ms)
    for tenure in members.gone:
        member_id = tenure.facts.member_id
        transition.departures[member_id] = departure(tenure.facts, quiet[member_id], since_join_ms)
    is_first = group.generation is None or group.generation.generation == 0
    is_start = is_first and not transition.is_revision
    transition.changes = [change(GROUP_STARTED)] if is_start else changes_between(group, record, members)


def _since_join_ms(before: OpenGeneration | None, moment_ms: int) -> int | None:
    """Returns the time since the join phase of the open generation, None where no record of its sync has it."""
    if before is None or before.revision or before.current_state_timestamp_ms is None:
        return None
    return moment_ms - before.current_state_timestamp_ms


def _open_rebalance(group: OpenGroup, transition: Transition) -> None:
    record, before, is_hole = transition.record, group.generation, transition.is_hole
    moves = None if is_hole else cost.movement(group, record)
    leader = (before and before.leader) or ""
    guess = None
    if not is_hole:
        guess = infer(transition.changes, transition.members, transition.departures, group.revokers, leader)
    idle = [member for member in record.members if member.assigned == ()]
    row: dict[str, Any] = {
        "group_id": group.group_id,
        "incarnation": group.incarnation,
        "to_generation": record.generation,
        "from_generation": before.generation if before is not None else 0,
        "kafka_partition": group.kafka_partition,
        "kafka_offset": record.kafka_offset,
        "happened_at": micros(record.kafka_timestamp_ms),
        "is_hole": is_hole,
        "hole_cause": (HoleCause.NOT_SYNCED if transition.is_known else HoleCause.NOT_COVERED) if is_hole else None,
        "generation_gap": transition.gap,
        "protocol_kind": ProtocolKind.UNKNOWN if is_hole else cost.protocol_kind(group, transition.members),
        "changes": None if is_hole else transition.changes,
        "caused_by_generation": group.cause_generation if COOPERATIVE_FOLLOW_UP.name in transition.kinds else None,
        "inferred_trigger": guess and guess.trigger,
        "inferred_trigger_confidence": guess and guess.confidence,
        "inferred_trigger_explanation": guess and guess.explanation,
        "member_count": len(record.members),
        "members_idle": len(idle) if record.is_ownership_known else None,
        # After a hole in coverage the record may be a revision, and not the one that the leader's sync wrote.
        "sync_wait_ms": cost.sync_wait_ms(record) if transition.is_known else None,
        "scheduled_delay_ms": None if is_hole else record.scheduled_delay_ms,
    }
    row |= cost.NO_MOVEMENT_KNOWN if moves is None else moves.columns()
    group.rebalance = cost.watch(group, row, moves)


def _close_before(group: OpenGroup, transition: Transition, rows: HistoryRows) -> None:
    """Ends the generation's row, and the intervals whose owners have changed. Ownership that can't be read in the
    record ends with an unknown end."""
    before, record, end = group.generation, transition.record, transition.end
    if before is None:
        return
    if before.ended_by is None:
        before.ended_by = EndedBy.REVISION if transition.is_revision else EndedBy.GENERATION
        put_generation(rows, group, before, end)
    owners = record.owners
    ended = [(unit, interval) for unit, interval in group.owners.items() if owners.get(unit) != interval.owners]
    in_the_dark = IntervalEnd(end.kafka_offset, end.at_ms, is_known=False)
    for unit, interval in ended:
        is_owner_known = unit in owners or record.is_ownership_known
        delay_ms = None if transition.is_hole or unit in owners else record.scheduled_delay_ms
        until = end if is_owner_known else in_the_dark
        put_intervals(rows, group, [(unit, interval)], until, before.generation, delay_ms)
        del group.owners[unit]
        if unit in group.commits:
            group.commits[unit].owner_commits = 0


def _replace_members(group: OpenGroup, transition: Transition, rows: HistoryRows) -> None:
    before, record, members = group.generation, transition.record, transition.members
    to_generation = None if before is None else before.generation
    for tenure in members.gone:
        guess = transition.departures.get(tenure.facts.member_id)
        cause = (None, None) if guess is None else (guess.trigger, guess.confidence)
        put_member(rows, group, tenure, transition.end, to_generation=to_generation, cause=cause)
    for tenure, _ in members.replaced:
        put_member(rows, group, tenure, transition.end, to_generation=to_generation, cause=_replacement(transition))
    tenures: dict[str, Tenure] = {}
    for member in record.members:
        facts = member.facts
        known = group.members.get(facts.member_id)
        if known is None:
            known = Tenure(
                facts=facts,
                from_generation=record.generation,
                from_offset=record.kafka_offset,
                joined_at_ms=record.kafka_timestamp_ms,
                is_start_known=not transition.is_hole,
            )
            put_member(rows, group, known)
        elif known.facts != facts or known.may_have_left:
            known.facts, known.may_have_left = facts, False
            put_member(rows, group, known)
        tenures[facts.member_id] = known
    group.members = tenures


def _replacement(transition: Transition) -> tuple[str | None, float | None]:
    """Returns the cause of a replacement and its confidence: certain in a revision; before another generation the
    instance may have been removed and have joined again."""
    if transition.is_hole:
        return None, None
    return LeaveCause.REPLACED, 1.0 if transition.is_revision else 0.6


def _open_after(group: OpenGroup, transition: Transition, rows: HistoryRows) -> None:
    before, record = group.generation, transition.record
    was_known = before is None or before.is_ownership_known
    owners = record.owners
    group.generation = OpenGeneration(
        generation=record.generation,
        revision=before.revision + 1 if before is not None and transition.is_revision else 0,
        protocol_type=record.protocol_type,
        protocol=record.protocol,
        leader=record.leader,
        kafka_offset=record.kafka_offset,
        started_at_ms=record.kafka_timestamp_ms,
        current_state_timestamp_ms=record.current_state_timestamp_ms,
        generation_gap=transition.gap,
        is_start_known=transition.is_known,
        is_ownership_known=record.is_ownership_known,
        member_count=len(record.members),
        owned_count=len(owners) if owners or record.is_ownership_known else None,
        changes=transition.changes if transition.is_revision and not transition.is_hole else None,
        finding=transition.finding,
    )
    put_generation(rows, group, group.generation)
    begun = {
        unit: OpenOwnership(
            owners=member_ids,
            from_generation=record.generation,
            from_offset=record.kafka_offset,
            valid_from_ms=record.kafka_timestamp_ms,
            is_start_known=transition.is_known and was_known,
        )
        for unit, member_ids in owners.items()
        if unit not in group.owners
    }
    group.owners |= begun
    put_intervals(rows, group, begun.items())


def _prepare_next(group: OpenGroup, transition: Transition) -> None:
    """Remembers the values that the next transition will be compared with."""
    record = transition.record
    # Partitions may have been added within a hole: their numbers are not compared over it.
    group.universe = grow_universe(group.universe if transition.is_known else {}, record)
    group.pending, group.revokers = cost.revocations(record)
    if not transition.is_revision and not is_mere_follow_up(transition.kinds):
        group.cause_generation = record.generation


def close_rows(group: OpenGroup, rows: HistoryRows, end: IntervalEnd, ended_by: str) -> None:
    """Ends the group's open rows at a tombstone, a conversion or a hole. At a hole the rows of members stay open: ids
    are never used again, so a member that appears after the hole was a member all along."""
    generation = group.generation
    if generation is None:
        return
    # A conversion repeats the end that the tombstone before it made.
    is_conversion = ended_by == EndedBy.UPGRADE and generation.ended_by == EndedBy.TOMBSTONE
    if generation.ended_by is None or is_conversion:
        generation.ended_by = ended_by
        put_generation(rows, group, generation, end)
    put_intervals(rows, group, group.owners.items(), end, generation.generation)
    if ended_by != EndedBy.HOLE:
        cause = (LeaveCause.UPGRADED, 1.0) if ended_by == EndedBy.UPGRADE else (None, None)
        end_members(group, rows, end, generation.generation, cause)


def end_members(
    group: OpenGroup,
    rows: HistoryRows,
    end: IntervalEnd,
    to_generation: int | None,
    cause: tuple[str | None, float | None] = (None, None),
) -> None:
    for tenure in group.members.values():
        put_member(rows, group, tenure, end, to_generation=to_generation, cause=cause)


def forget(group: OpenGroup) -> None:
    """Removes from the state everything that only open rows need: the generation, the rebalance, members and owners."""
    group.generation = group.rebalance = group.cause_generation = None
    group.members, group.owners, group.universe, group.pending, group.revokers = {}, {}, {}, {}, []
