"""Determines what happened to a committed offset, from one record, the commit before it, and the group as it was then.

Commits. A commit below the one before makes the group read records again. A higher commit is usual, unless no member of
the group can have made it: while a group has no members, the coordinator accepts commits of resets, and of consumers
that assign partitions to themselves. Such a consumer commits the leader epoch of the records that it has read, and a
reset by Kafka's tools commits none. So only a commit without an epoch counts as `skipped`. In a group that never had
members, the commit before it must have had an epoch, too, because some clients never commit one. If the topic id
changed, it is another topic, and the offsets are not compared.

Removals. Kafka writes the same tombstone when an offset expires, is deleted, or goes with its topic. They are
distinguished by the offset's age (`offsets.retention.minutes`), counted as the broker counts it
(OffsetExpirationConditionImpl): from when the group lost its last member, in a classic group that had some, and else
from the commit. An offset that is removed before its time did not expire. After its time, the next cleanup removes it,
at most `offsets.retention.check.interval.ms` later. If members of a KIP-848 group have kept it beyond its time, it is
removed within that interval after the last of them has left. If it was removed even later, something that these records
do not show had kept it (a subscription, a coordinator that was down, another retention), and the cause of the removal
is unknown.

Offsets that did not expire may have been removed with their group: then the group's own tombstone follows in the same
operation. (When all offsets of a group expire, the same records are written, so age is checked first.) Or they were
removed with their topic: no request removes offsets of several groups and leaves the groups, but the deletion of a
topic does, in one operation for each partition of `__consumer_offsets`. All other offsets were deleted by a request
(OffsetDelete; DeleteGroups of a simple group, up to Kafka 3.9), or with a topic for which no other group there had
offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupledger.schemas.words import OffsetEventCause, OffsetEventEvidence, OffsetEventKind

# A coordinator may have another clock than the one before it.
CLOCK_SKEW_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRules:
    """Holds the brokers' settings that decide about expiry: offsets.retention.minutes and
    offsets.retention.check.interval.ms, both in milliseconds."""

    retention_ms: int = 604_800_000
    retention_check_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. `offset` is None for offset -1; other fields are None if the commit did not have them."""

    kafka_offset: int
    offset: int | None
    committed_at_ms: int
    leader_epoch: int | None = None
    topic_id: str | None = None
    expire_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Holds the generation or epoch that was in force, and when it began. `since_ms` is Kafka's currentStateTimestamp;
    None for an epoch. `member_count` is None if it is not known, which does not mean an empty group."""

    protocol_type: str
    member_count: int | None
    since_ms: int | None
    begun_ms: int | None = None

    @property
    def has_emptied(self) -> bool:
        """Returns whether the group had members and lost them."""
        return self.member_count == 0 and self.protocol_type != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """Holds a record about a committed offset. `after` is the record's commit; None for a tombstone. `before` is the
    last commit before the record, and `was_removed` says whether a tombstone followed that commit.

    `is_known`: no record is missing between `before` and this record. `generation` is None if none was in force, which
    is certain only if `is_group_known`. `ends_group`: the group's tombstone follows in the same operation.
    `groups_at_once` counts the groups that lost offsets of the topic, but not their own metadata, in one operation.
    """

    at_ms: int
    after: Commit | None
    before: Commit | None
    was_removed: bool
    is_known: bool
    generation: Generation | None
    is_group_known: bool
    ends_group: bool = False
    groups_at_once: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEvent:
    """The event that a record means, with the columns of `offset_events` of the same names."""

    kind: str
    cause: str | None
    evidence: str = OffsetEventEvidence.RECORDS
    records_repeated: int | None = None
    records_skipped: int | None = None
    age_ms: int | None = None


def offset_event(step: OffsetChange, rules: OffsetRules) -> OffsetEvent | None:
    """Returns what happened to the offset; None if it only advanced, or if that can't be known."""
    if step.after is not None:
        return _move(step, step.after)
    has_lost_nothing = step.was_removed or (step.before is None and step.is_known)
    return None if has_lost_nothing else _removal(step, rules)


# Commits


def _move(step: OffsetChange, after: Commit) -> OffsetEvent | None:
    before = step.before
    if before is None or not step.is_known:
        return None
    if before.topic_id is not None and after.topic_id is not None and before.topic_id != after.topic_id:
        return OffsetEvent(kind=OffsetEventKind.TOPIC_RECREATED, cause=None)
    if before.offset is None or after.offset is None:
        return None
    if after.offset < before.offset:
        return _rewind(step, before.offset - after.offset, is_same_topic=after.topic_id == before.topic_id is not None)
    if after.offset == before.offset or step.was_removed or not _is_of_nobody(step, before, after):
        return None
    skipped = after.offset - before.offset
    return OffsetEvent(kind=OffsetEventKind.SKIPPED, cause=OffsetEventCause.NO_MEMBER, records_skipped=skipped)


def _is_of_nobody(step: OffsetChange, before: Commit, after: Commit) -> bool:
    """Returns whether neither a member made the commit, nor a consumer that has read up to there."""
    if after.leader_epoch is not None:
        return False
    if step.generation is not None and step.generation.has_emptied:
        return True
    is_simple = step.is_group_known and (step.generation is None or step.generation.member_count == 0)
    return is_simple and before.leader_epoch is not None


def _rewind(step: OffsetChange, repeated: int, *, is_same_topic: bool) -> OffsetEvent | None:
    """Returns the event. An offset may have been removed with its topic: only the topic's id then shows that it is the
    same one."""
    if step.was_removed and not is_same_topic:
        return None
    cause = OffsetEventCause.AFTER_REMOVAL if step.was_removed else _mover(step.generation)
    return OffsetEvent(kind=OffsetEventKind.REWOUND, cause=cause, records_repeated=repeated)


def _mover(generation: Generation | None) -> str | None:
    if generation is None or generation.member_count is None:
        return None
    return OffsetEventCause.MEMBER if generation.member_count else OffsetEventCause.NO_MEMBER


# Removals


def _removal(step: OffsetChange, rules: OffsetRules) -> OffsetEvent:
    before = step.before
    if before is None or not (step.is_known and step.is_group_known):
        return OffsetEvent(kind=OffsetEventKind.REMOVED, cause=None)
    since_ms = _counted_from_ms(before, step.generation)
    due_ms = since_ms + rules.retention_ms if before.expire_at_ms is None else before.expire_at_ms
    due_ms = max(due_ms, _kept_until_ms(step.generation))
    kind, cause = _removed_by(step, step.at_ms - due_ms, rules)
    if cause == OffsetEventCause.RETENTION and before.expire_at_ms is not None:
        cause = OffsetEventCause.OWN_EXPIRY
    return OffsetEvent(kind=kind, cause=cause, evidence=OffsetEventEvidence.AGE, age_ms=step.at_ms - since_ms)


def _removed_by(step: OffsetChange, late_ms: int, rules: OffsetRules) -> tuple[str, str | None]:
    """Returns the kind and the cause of a removal so long after the offset's time had come."""
    if 0 <= late_ms <= rules.retention_check_interval_ms + CLOCK_SKEW_MS:
        return OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION
    if late_ms >= -CLOCK_SKEW_MS:
        return OffsetEventKind.REMOVED, None
    if step.ends_group:
        return OffsetEventKind.GROUP_DELETED, OffsetEventCause.DELETE_REQUEST
    if step.groups_at_once > 1:
        return OffsetEventKind.TOPIC_DELETED, OffsetEventCause.TOPIC_DELETION
    return OffsetEventKind.DELETED, OffsetEventCause.DELETE_REQUEST_OR_TOPIC


def _kept_until_ms(generation: Generation | None) -> int:
    """Returns until when members of a KIP-848 group may have kept an offset that had aged from its commit meanwhile."""
    if generation is None or not generation.has_emptied or generation.since_ms is not None:
        return 0
    return generation.begun_ms or 0


def _counted_from_ms(before: Commit, generation: Generation | None) -> int:
    if generation is None or not generation.has_emptied or generation.since_ms is None:
        return before.committed_at_ms
    return generation.since_ms


def event_row(step: OffsetChange, event: OffsetEvent) -> dict[str, Any]:
    """Returns the columns of `offset_events` that the rules decide. Columns about the previous commit are None if that
    commit is not known to be the last one."""
    last = step.before if step.is_known else None
    return {
        "kind": event.kind,
        "offset_before": None if last is None else last.offset,
        "offset_after": None if step.after is None else step.after.offset,
        "records_repeated": event.records_repeated,
        "records_skipped": event.records_skipped,
        "cause": event.cause,
        "evidence": event.evidence,
        "committed_at_ms": None if last is None else last.committed_at_ms,
        "commit_kafka_offset": None if last is None else last.kafka_offset,
        "age_ms": event.age_ms,
    }
