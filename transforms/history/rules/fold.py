"""The fold of one group: `fold(open state, events in log order) -> rows to upsert, new open state`.

The fold is pure: the state comes and goes as text. Events at or below the state's `last_kafka_offset` were folded
before and are passed over, so that a batch may come twice. This file decides in which order things happen, where a
group's incarnations begin and end, and what can be known with the given coverage; `generation` says what a new
generation means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import Completeness, EndedBy, FindingKind, GroupType
from groupledger.transforms.history.rules import cost, modern, reconciliation
from groupledger.transforms.history.rules.events import (
    SESSION_DEFAULT_MS,
    CommitSums,
    Coverage,
    Event,
    GroupRecord,
    GroupTombstone,
    OtherGroupType,
)
from groupledger.transforms.history.rules.generation import close_rows, end_members, forget, open_generation
from groupledger.transforms.history.rules.modern_state import Reconciliation
from groupledger.transforms.history.rules.rows import HistoryRows, IntervalEnd, open_group_row, put_group, put_member
from groupledger.transforms.history.rules.state import Ending, OpenGroup, PartitionCommits, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.transforms.history.rules.modern_records import TopicNames

FIRST_EPOCHS = (1, 2)  # of a new consumer group: 2 since Kafka 4.3


class LogOrderError(ValueError):
    """The events are not in the order of the log, or a summary of commits spans the offset where the fold left off."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a fold: the rows to upsert by table, to be written first, and the row of `open_groups`, to be
    written last."""

    rows: dict[str, list[dict[str, Any]]]
    open_group: dict[str, Any]


def fold(
    group_id: str,
    kafka_partition: int,
    open_state: str | None,
    events: Iterable[Event],
    topic_names: TopicNames | None = None,
    *,
    consumer_session_timeout_ms: int = SESSION_DEFAULT_MS,
) -> Folded:
    """Returns the rows and the new state after the events.

    `events` are in log order; a `Coverage` mark comes before the event at its offset. Marks may be repeated.
    `topic_names` are names by topic id, for topics that the state may still hold by id. `consumer_session_timeout_ms`
    is what the brokers' `group.consumer.session.timeout.ms` is set to.
    """
    new = OpenGroup(group_id=group_id, kafka_partition=kafka_partition)
    group = new if open_state is None else load(open_state, topic_names or {})
    group.consumer_session_timeout_ms = consumer_session_timeout_ms
    rows = HistoryRows()
    guard = group.last_kafka_offset
    has_lost_all = False
    for event in events:
        if isinstance(event, Coverage):
            if event.from_offset > group.coverage_offset:
                _enter_stretch(group, event, rows)
        elif event.last_kafka_offset > guard:
            if has_lost_all and event.first_kafka_offset > group.last_kafka_offset:
                _end_incarnation(group)
            _advance(group, event)
            _FOLDED_BY[type(event)](group, event, rows)
            has_lost_all = _has_lost_all(group, event)
    if has_lost_all:
        _end_incarnation(group)
    cost.write_rebalance(rows, group)
    put_group(rows, group)
    return Folded(rows.by_table(), open_group_row(group))


def _advance(group: OpenGroup, event: GroupRecord | GroupTombstone | OtherGroupType | CommitSums) -> None:
    is_summary = isinstance(event, CommitSums)
    floor = group.record_offset if is_summary else group.last_kafka_offset
    if event.first_kafka_offset <= floor:
        raise LogOrderError(
            f"{type(event).__name__} at offset {event.first_kafka_offset} comes after offset {floor} was folded:"
            " order the events by offset, and leave out what lies at or below last_kafka_offset before summing up"
        )
    if group.first_kafka_offset is None or event.first_kafka_offset < group.first_kafka_offset:
        group.first_kafka_offset = event.first_kafka_offset
    group.last_kafka_offset = max(group.last_kafka_offset, event.last_kafka_offset)
    group.ends_hidden_from = None
    if not is_summary:
        group.record_offset = event.last_kafka_offset
    begin_ms = event.first_commit_timestamp_ms if isinstance(event, CommitSums) else event.kafka_timestamp_ms
    end_ms = event.last_commit_timestamp_ms if isinstance(event, CommitSums) else event.kafka_timestamp_ms
    group.first_seen_ms = cost.earlier(group.first_seen_ms, begin_ms)
    group.last_seen_ms = cost.later(group.last_seen_ms, end_ms)


def _enter_stretch(group: OpenGroup, mark: Coverage, rows: HistoryRows) -> None:
    """Begins a stretch of coverage. If records before it may be missing, everything open ends; nothing is known yet
    after it."""
    if mark.from_offset <= group.record_offset:
        raise LogOrderError(
            f"a coverage mark at offset {mark.from_offset} comes after {group.record_offset} was folded"
        )
    is_first = group.coverage_offset < 0
    group.coverage_offset, group.completeness = mark.from_offset, mark.completeness
    group.has_all_records, group.is_renewed = mark.has_all_records, False
    if mark.hides_ends:
        if group.ending is not None:
            _end_incarnation(group)
        cost.write_rebalance(rows, group)
        _close(group, rows, IntervalEnd(mark.from_offset, group.last_seen_ms or 0, is_known=False), EndedBy.HOLE)
        for tenure in group.members.values():
            tenure.may_have_left = True
            put_member(rows, group, tenure)
        group.owners, group.rebalance, group.is_state_known = {}, None, False
        if group.reconciliation is not None:
            group.reconciliation = Reconciliation(is_whole=False, group_type=group.reconciliation.group_type)
        group.commits, group.ends_hidden_from = {}, mark.from_offset
    elif is_first:
        group.is_state_known = True  # before its first record a group does not exist


def _is_known(group: OpenGroup) -> bool:
    """Returns whether everything between the group's last record and the present one was read."""
    is_covered = group.completeness == Completeness.COMPLETE or (group.has_all_records and group.is_renewed)
    return is_covered and group.is_state_known


# Incarnations


def _close(group: OpenGroup, rows: HistoryRows, end: IntervalEnd, ended_by: str) -> None:
    """Ends all open rows of a group of any type."""
    close_rows(group, rows, end, ended_by)
    reconciliation.close_steps(group, rows, end)


def _close_unseen(group: OpenGroup, rows: HistoryRows, end: IntervalEnd) -> None:
    """Ends all open rows of a group whose place another group has taken, by a record that is missing in the log."""
    _close(group, rows, end, EndedBy.HOLE)
    end_members(group, rows, end, group.number)


def _begin_incarnation(group: OpenGroup) -> None:
    if not group.is_alive:
        group.is_alive = True
        group.incarnation += 1
        group.group_type = GroupType.CLASSIC


def _end_incarnation(group: OpenGroup, *, keeps_offsets: bool = False) -> None:
    """Ends it. The broker removes the offsets of a group before the group; of one that only changes its type it removes
    none."""
    if group.group_type != GroupType.CLASSIC:  # else a `consumer` group may have begun already
        group.reconciliation = None
    forget(group)
    group.is_alive, group.number, group.ending = False, None, None
    if not keeps_offsets:
        group.commits = {}


def _has_lost_all(group: OpenGroup, event: Event) -> bool:
    """Returns whether the event removed the last offset of a simple group, which ends the group: coordinators before
    4.0 write no tombstone for such a group. A summary of commits that began earlier may still follow; then the group
    has not ended."""
    is_removal = isinstance(event, CommitSums) and event.is_removed
    return is_removal and group.is_simple and not group.commits and _is_known(group)


def _settle_ending(group: OpenGroup, rows: HistoryRows, event: GroupRecord | OtherGroupType | CommitSums) -> bool:
    """Decides after a tombstone whether the group ended or was converted. Returns False while only a later record of
    the same operation can have.

    A change of type writes the tombstone and the records of the other type in one operation, and so with one timestamp.
    """
    ending = group.ending
    if ending is None:
        return True
    is_same_operation = not isinstance(event, CommitSums) and event.kafka_timestamp_ms == ending.kafka_timestamp_ms
    if not isinstance(event, OtherGroupType) or event.group_type != GroupType.CONSUMER or not is_same_operation:
        _end_incarnation(group, keeps_offsets=is_same_operation)
    elif event.group_epoch is None:
        return False
    elif not _goes_on_from(group, event.group_epoch):
        _end_incarnation(group, keeps_offsets=True)
        if not ending.is_known:  # it may have had members, and go on with them
            group.is_state_known = False
            if group.reconciliation is not None:
                group.reconciliation.is_whole = False
    else:
        end = IntervalEnd(ending.kafka_offset, ending.kafka_timestamp_ms, is_known=ending.is_known)
        _close(group, rows, end, EndedBy.UPGRADE)
        upgraded = group.generation
        forget(group)
        group.generation, group.ending, group.group_type = upgraded, None, event.group_type
    return True


def _goes_on_from(group: OpenGroup, epoch: int) -> bool:
    """Returns whether a group whose tombstone was just read goes on with this epoch: one with members goes on from its
    generation, which a rebalance under way may have raised since; an empty one begins again with the first."""
    number = group.number or 0
    is_empty = group.generation is None or not group.generation.member_count
    # Above the group's number the second of them is no first one, but shows a rebalance under way.
    is_first = epoch == FIRST_EPOCHS[0] or epoch == number == FIRST_EPOCHS[1]
    return epoch >= number and not (is_empty and is_first)


def _group_tombstone(group: OpenGroup, event: GroupTombstone, rows: HistoryRows) -> None:
    is_known = _is_known(group)
    group.is_state_known = True  # not renewed: the group may go on as another type with what was missed before
    if group.ending is not None:
        _end_incarnation(group)
    if group.is_alive or not group.incarnation:
        _begin_incarnation(group)
        cost.write_rebalance(rows, group)
        end = IntervalEnd(event.kafka_offset, event.kafka_timestamp_ms, is_known=is_known)
        _close(group, rows, end, EndedBy.TOMBSTONE)
        group.ending, group.rebalance = Ending(event.kafka_offset, event.kafka_timestamp_ms, is_known), None


def _other_group_type(group: OpenGroup, event: OtherGroupType, rows: HistoryRows) -> None:
    if event.is_tombstone and not event.is_group_tombstone:
        # It may come after the group's own, as a topology's does.
        if (
            event.content is not None
            and group.is_alive
            and group.ending is None
            and group.group_type == event.group_type
        ):
            modern.fold_record(group, event, rows, is_known=_is_known(group))
        return
    is_settled = _settle_ending(group, rows, event)
    is_known = _is_known(group)
    if not is_settled:
        modern.fold_record(group, event, rows, is_known=is_known)
        return
    generation = group.generation
    if generation is not None and group.group_type != event.group_type:
        # The tombstone of this incarnation is missing in the log.
        cost.write_rebalance(rows, group)
        _close_unseen(group, rows, IntervalEnd(event.kafka_offset, event.kafka_timestamp_ms, is_known=False))
        forget(group)
        group.reconciliation = None
    epoch = event.group_epoch
    if epoch is not None and group.number is not None and epoch < group.number:
        cost.write_rebalance(rows, group)
        end = IntervalEnd(event.kafka_offset, event.kafka_timestamp_ms, is_known=False)
        _close(group, rows, end, EndedBy.GENERATION_DECREASE)
        _end_incarnation(group)
    if event.is_group_tombstone:
        _end_other_group(group, event, rows, is_known=is_known)
        group.is_state_known = True
        return
    _begin_incarnation(group)
    group.group_type = event.group_type
    if epoch is not None:
        group.number = epoch
    if event.content is not None:
        modern.fold_record(group, event, rows, is_known=is_known)
    if epoch is not None:  # one record says one thing, and only that of the epoch says how far the group has come
        group.is_state_known = True


def _end_other_group(group: OpenGroup, event: OtherGroupType, rows: HistoryRows, *, is_known: bool) -> None:
    if not group.is_alive:
        return
    cost.write_rebalance(rows, group)
    modern.end_group(group, rows)
    _close(group, rows, IntervalEnd(event.kafka_offset, event.kafka_timestamp_ms, is_known=is_known), EndedBy.TOMBSTONE)
    group.owners, group.rebalance = {}, None
    group.ending = Ending(event.kafka_offset, event.kafka_timestamp_ms, is_known)


def _group_record(group: OpenGroup, record: GroupRecord, rows: HistoryRows) -> None:
    is_downgrade = _is_live_downgrade(group, record)
    was_other_type = group.group_type != GroupType.CLASSIC and _goes_on_as_classic(group, record)
    if is_downgrade:
        modern.hand_over(group, rows, {member.facts.member_id for member in record.members})
        group.ending, group.group_type = None, GroupType.CLASSIC
    else:
        _settle_ending(group, rows, record)
        if group.is_alive and group.group_type != GroupType.CLASSIC:
            _close_unseen(group, rows, IntervalEnd(record.kafka_offset, record.kafka_timestamp_ms, is_known=False))
            _end_incarnation(group)
    is_known = _is_known(group) and (is_downgrade or not was_other_type)
    group.is_state_known = group.is_renewed = True
    finding = None
    if group.number is not None and record.generation < group.number:
        cost.write_rebalance(rows, group)
        end = IntervalEnd(record.kafka_offset, record.kafka_timestamp_ms, is_known=False)
        _close(group, rows, end, EndedBy.GENERATION_DECREASE)
        _end_incarnation(group)
        finding = FindingKind.GENERATION_DECREASED if is_known else None
        is_known = False
    _begin_incarnation(group)
    is_new = group.generation is None or group.generation.generation != record.generation
    if is_new:
        cost.write_rebalance(rows, group)
        group.rebalance = None
    open_generation(group, record, rows, is_known=is_known, finding=finding)
    group.number = record.generation


def _goes_on_as_classic(group: OpenGroup, record: GroupRecord) -> bool:
    """Returns whether the group was a `consumer` group before: then its new incarnation did not begin with this record.
    The tombstones of that group may be missing in the log."""
    if group.ending is None:
        return group.is_alive
    return record.generation > 0 and record.kafka_timestamp_ms == group.ending.kafka_timestamp_ms


def _is_live_downgrade(group: OpenGroup, record: GroupRecord) -> bool:
    """Returns whether the record goes on with the members of a `consumer` group whose tombstone stands before it in the
    same operation: its generation is their last epoch."""
    return (
        group.group_type == GroupType.CONSUMER
        and group.ending is not None
        and group.ending.kafka_timestamp_ms == record.kafka_timestamp_ms
        and bool(record.members)
        and record.generation == group.number
    )


# Commits


def _commits(group: OpenGroup, event: CommitSums, rows: HistoryRows) -> None:
    _settle_ending(group, rows, event)
    unit = TopicPartition(event.topic, event.partition)
    if event.commit_count:
        _begin_incarnation(group)
        _remember_commits(group, event)
        if group.rebalance is not None:
            cost.observe(group.rebalance, event)
    if event.is_removed:
        group.commits.pop(unit, None)


def _remember_commits(group: OpenGroup, event: CommitSums) -> None:
    unit = TopicPartition(event.topic, event.partition)
    first_ms, last_ms = event.first_commit_timestamp_ms, event.last_commit_timestamp_ms
    if first_ms is None or last_ms is None or event.last_committed_offset is None:
        raise LogOrderError(f"the commits up to offset {event.last_kafka_offset} lack their timestamps or offsets")
    committed = group.commits.setdefault(unit, PartitionCommits(last_ms, event.last_committed_offset))
    committed.last_ms, committed.committed_offset = last_ms, event.last_committed_offset
    if unit in group.owners:
        if not committed.owner_commits:
            committed.owner_first_ms = first_ms
        committed.owner_commits += event.commit_count
    group.last_commit_ms = cost.later(group.last_commit_ms, last_ms)
    is_hole = group.generation is not None and group.generation.ended_by is not None
    if not group.members and not is_hole:
        group.last_memberless_commit_ms = cost.later(group.last_memberless_commit_ms, last_ms)


_FOLDED_BY: dict[type[Event], Callable[[OpenGroup, Any, HistoryRows], None]] = {
    CommitSums: _commits,
    GroupRecord: _group_record,
    GroupTombstone: _group_tombstone,
    OtherGroupType: _other_group_type,
}
