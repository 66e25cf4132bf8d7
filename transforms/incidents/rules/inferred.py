"""Infers incidents from the records of `__consumer_offsets` alone. Refused requests are not in the topic, so these are
suspicions.

A removal is inferred by the history (`members.leave_cause`) from a member's silence and its timeouts. A static member
that never comes back may have been closed: it does not leave the group then, and its session runs out. A guess that is
wrong as often as right is listed but raises no alarm.

A zombie commit is suspected if a silent member was removed and its client came back under a new id soon after: the
client was alive all the time, and may have continued to work and commit in between. None is suspected if no other
member was left to take over its work. The records between the last commit before the removal and the new owners' first
commit may have been processed twice. That number is an exposure, not a count.

A commit gap is a time in which all partitions of a member had no commits, for many times the usual interval of their
commits, while records waited in one of them. A consumer that commits what it has read is silent when its topics are, so
without samples of their ends no gap is reported. A consumer that waits for the end of a transaction is silent, too, and
is not to blame (`waiting`). A generation without a record had a leader that never sent its SyncGroup.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.changes import SUBSCRIPTION_CHANGED
from groupledger.schemas.kinds.incidents import (
    COMMIT_GAP,
    LEADER_NEVER_SYNCED,
    REMOVALS,
    STATIC_SUBSCRIPTION_IGNORED,
    ZOMBIE_COMMIT_SUSPECTED,
)
from groupledger.schemas.words import CoordinatorEventKind, EndedBy, Evidence, HoleCause, LagStatus, Severity
from groupledger.transforms.incidents.rules.facts import SET_BACK_MS_MAX, host, milliseconds
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.incidents.rules.sighting import Sighting
from groupledger.transforms.lookups import InOrder, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.incidents.rules.facts import CommitStep, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

KIND_OF_LEAVE = {kind.trigger.name: kind for kind in REMOVALS if kind.trigger is not None}
DOUBTFUL = 0.7  # below it a removal is of severity info: clean groups have such, in which everybody joins again slowly


def inferred(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    yield from _removals(facts, rules)
    yield from _commit_gaps(facts, rules)
    yield from _unsynced_generations(facts, rules)
    yield from _ignored_subscriptions(facts)


def row_proof(table: str, row: Mapping[str, Any], *key: str) -> Proof:
    return Proof(table, "/".join(str(row[name]) for name in key))


def of_member(row: Row) -> dict[str, Any]:
    """Returns the fields of a sighting that a row of `members` fills."""
    return {
        "member_id": row["member_id"],
        "group_instance_id": row["group_instance_id"],
        "client_id": row["client_id"],
        "client_host": host(row["client_host"]),
        "claimed_generation": row["to_generation"],
        "incarnation": row["incarnation"],
    }


# Removals


def _removals(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    lost = _lost_places(facts)
    for row in facts.members:
        kind = KIND_OF_LEAVE.get(row["leave_cause"] or "")
        if kind is None or row["left_at"] is None:
            continue
        return_row = _return(facts, row, rules.zombie_return_ms)
        proof = row_proof("members", row, "group_id", "incarnation", "member_id")
        left_ms = milliseconds(row["left_at"])
        handed_over = lost.get((row["incarnation"], row["member_id"]), ())
        offsets = tuple((place, None) for place, *_ in handed_over)
        confidence = min(kind.confidence, row["leave_cause_confidence"])
        is_closed_static = row["group_instance_id"] is not None and return_row is None
        is_alarming = confidence >= DOUBTFUL and not is_closed_static
        yield Sighting(
            kind=kind,
            evidence=Evidence.INFERRED,
            severity=kind.severity if is_alarming else Severity.INFO,
            confidence=confidence,
            first_ms=left_ms,
            last_ms=left_ms,
            happening=row["member_id"],
            proofs=(proof,),
            offsets=offsets,
            **of_member(row),
        )
        if return_row is not None and is_alarming and not _was_left_empty(facts, row):
            yield _zombie(row, return_row, handed_over, proof)


def closed_static_members(facts: GroupFacts, rules: Rules, expired: set[str | None]) -> set[str]:
    """Returns the ids of expired members whose instances did not come back: a closed static member leaves in this
    way."""
    return {
        row["member_id"]
        for row in facts.members
        if row["member_id"] in expired
        and row["group_instance_id"] is not None
        and row["left_at"] is not None
        and _return(facts, row, rules.zombie_return_ms) is None
    }


def _return(facts: GroupFacts, gone: Row, within_ms: int) -> Row | None:
    """Returns the tenure in which the same process, by its instance id, or client and address, came back.

    A process that was restarted may join before its old session has run out: one record then has the new member and
    no longer the old one. One that was paused can't, for it joins only when it learns that it is no member.
    """
    for row in facts.lookups.later_tenures(gone):
        after_ms = milliseconds(row["joined_at"]) - milliseconds(gone["left_at"])
        if after_ms <= within_ms:
            return row
        if after_ms > within_ms + SET_BACK_MS_MAX:
            break
    return None


def _zombie(
    row: Row, return_row: Row, handed_over: Sequence[tuple[TopicPartition, int, int]], proof: Proof
) -> Sighting:
    bounds = [max(after - before, 0) for _, before, after in handed_over]
    returned_ms = milliseconds(return_row["joined_at"])
    return Sighting(
        kind=ZOMBIE_COMMIT_SUSPECTED,
        evidence=Evidence.INFERRED,
        severity=ZOMBIE_COMMIT_SUSPECTED.severity,
        confidence=ZOMBIE_COMMIT_SUSPECTED.confidence,
        first_ms=milliseconds(row["left_at"]),
        last_ms=returned_ms,
        happening=row["member_id"],
        proofs=(proof, row_proof("members", return_row, "group_id", "incarnation", "member_id")),
        offsets=tuple((place, after) for place, _, after in handed_over),
        duplicates=(0, sum(bounds)) if bounds else (None, None),
        detail=return_row["member_id"],
        **of_member(row),
    )


def _was_left_empty(facts: GroupFacts, row: Row) -> bool:
    """Returns whether the group had no member when this one was gone, so that nobody else took its work up."""
    generation = facts.lookups.generation_at(row["to_offset"])
    return generation is not None and generation["member_count"] == 0


def _lost_places(facts: GroupFacts) -> dict[tuple[int, str], list[tuple[TopicPartition, int, int]]]:
    """Returns the partitions that went to others, by incarnation and member, with the commits before and after."""
    pauses = {
        (row["incarnation"], row["kafka_offset"], pause["topic"], pause["partition"]): pause
        for row in facts.rebalances
        for pause in row["partition_pauses"] or ()
    }
    lost: dict[tuple[int, str], list[tuple[TopicPartition, int, int]]] = defaultdict(list)
    for row in facts.assignments:
        pause = pauses.get((row["incarnation"], row["to_offset"], row["topic"], row["partition"]))
        if pause is not None and pause["committed_offset_after"] is not None:
            place = TopicPartition(row["topic"], row["partition"])
            handover = (place, pause["committed_offset_before"], pause["committed_offset_after"])
            lost[row["incarnation"], row["member_id"]].append(handover)
    return lost


# Commits


def had_no_members(facts: GroupFacts, kafka_offset: int) -> bool:
    """Returns whether the records show that the group had no members at that offset: its generation was empty, or a
    tombstone had ended its last one. False for a group without any generation."""
    last = facts.lookups.last_generation(kafka_offset)
    if last is None:
        return False
    if last["to_offset"] is None or kafka_offset < last["to_offset"]:
        return bool(last["member_count"] == 0)  # a count that is not known is no empty group
    return bool(last["ended_by"] == EndedBy.TOMBSTONE)


def _commit_gaps(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Yields the tenures whose committed partitions all fell silent, with the time of that silence."""
    tenures = {(row["incarnation"], row["member_id"]): row for row in facts.members}
    owned = grouped(facts.assignments, lambda row: (row["incarnation"], row["member_id"]))
    held_up_ms = _held_up_until_ms(facts)
    by_place = {
        place: InOrder(steps, lambda step: step.commit.kafka_offset)
        for place, steps in grouped(facts.steps, lambda step: step.commit.place).items()
    }
    silent: dict[tuple[int, str], dict[TopicPartition, CommitStep]] = defaultdict(dict)
    for interval in facts.assignments:
        place = TopicPartition(interval["topic"], interval["partition"])
        until = inf if interval["to_offset"] is None else interval["to_offset"] - 1
        of_place = by_place.get(place)
        for step in () if of_place is None else of_place.between(interval["from_offset"] + 1, until):
            if _is_gap(step, interval, facts.silent_until_ms, rules):
                silent[interval["incarnation"], interval["member_id"]][place] = step
    for key, steps in silent.items():
        if key in tenures:
            yield from _commit_gap(facts, tenures[key], owned[key], steps, held_up_ms, rules)


def _end_ms(step: CommitStep, end_us: int | None, as_of_ms: int) -> int:
    """Returns until when the partition's owner was silent."""
    ends = [as_of_ms if step.next_commit is None else step.next_commit.at_ms]
    return min([*ends, milliseconds(end_us)] if end_us is not None else ends)


def _is_gap(step: CommitStep, interval: Row, as_of_ms: int, rules: Rules) -> bool:
    length_ms = _end_ms(step, interval["valid_to"], as_of_ms) - step.commit.at_ms
    return step.interval_ms is not None and length_ms >= _too_long_ms(step.interval_ms, rules)


def _too_long_ms(interval_ms: float, rules: Rules) -> float:
    return max(rules.commit_gap_ms, rules.commit_gap_intervals * interval_ms)


def _harmful_since_ms(step: CommitStep, end_ms: int, held_up_until_ms: int, rules: Rules) -> int | None:
    """Returns since when a partition was silent though records may have waited in it; None if that was not for long.

    Records came after the last sample that showed nothing to read, if there is one. They must be known to have waited
    for most of the time since: rare samples could take an idle hour with a record at its end for a gap. While all
    records lay after the beginning of an open transaction, there was nothing to read.
    """
    if step.waiting_from_ms is None or step.interval_ms is None:
        return None
    since_ms = max(step.commit.at_ms, step.idle_until_ms or 0, held_up_until_ms)
    is_long = end_ms - since_ms >= _too_long_ms(step.interval_ms, rules)
    return since_ms if is_long and 2 * (end_ms - step.waiting_from_ms) >= end_ms - since_ms else None


def _held_up_until_ms(facts: GroupFacts) -> dict[tuple[TopicPartition, int], int]:
    """Returns until when all that lay after a commit waited for the end of a transaction, by place and offset."""
    found: dict[tuple[TopicPartition, int], int] = {}
    for each in facts.lag_stretches:
        if each.status == LagStatus.WAITING_FOR_TRANSACTION:
            commit = each.place, each.committed_offset
            found[commit] = max(each.until_ms, found.get(commit, 0))
    return found


def _commit_gap(
    facts: GroupFacts,
    tenure: Row,
    intervals: Iterable[Row],
    steps: dict[TopicPartition, CommitStep],
    held_up_ms: Mapping[tuple[TopicPartition, int], int],
    rules: Rules,
) -> Iterator[Sighting]:
    silent_ms = max(step.commit.at_ms for step in steps.values())
    end_ms = min(_end_ms(step, tenure["left_at"], facts.silent_until_ms) for step in steps.values())
    owned = {
        (row["topic"], row["partition"])
        for row in intervals
        if milliseconds(row["valid_from"]) <= silent_ms
        and (row["valid_to"] is None or milliseconds(row["valid_to"]) > silent_ms)
    }
    harmful_ms = [
        _harmful_since_ms(step, end_ms, held_up_ms.get((place, step.commit.offset), 0), rules)
        for place, step in steps.items()
    ]
    begin_ms = max(silent_ms, min((each for each in harmful_ms if each is not None), default=end_ms))
    if end_ms - begin_ms < rules.commit_gap_ms or not owned <= steps.keys():
        return
    first = min((step.commit for step in steps.values()), key=lambda commit: commit.kafka_offset)
    yield Sighting(
        kind=COMMIT_GAP,
        evidence=Evidence.INFERRED,
        severity=COMMIT_GAP.severity,
        confidence=COMMIT_GAP.confidence,
        first_ms=begin_ms,
        last_ms=end_ms,
        happening=f"{first.kafka_partition}/{first.kafka_offset}",
        proofs=tuple(step.commit.proof for step in steps.values()),
        offsets=tuple((place, None) for place in steps),
        **of_member(tenure),
    )


# Records


def _unsynced_generations(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Yields generations without a record for which no log shows that their assignments came.

    They are normal where the next join came before the leader's assignment; the records don't show which it was. As
    many as a storm has are no normal operation.
    """
    spoken = (event for event in facts.spoken if event.kind == CoordinatorEventKind.ASSIGNMENT_RECEIVED)
    assigned = InOrder(spoken, lambda event: event.generation or 0)
    for row in facts.rebalances:
        if row["hole_cause"] != HoleCause.NOT_SYNCED:
            continue
        if assigned.has_between(row["from_generation"] + 1, row["to_generation"] - 1):
            continue
        gap = row["generation_gap"] or 1
        at_ms = milliseconds(row["happened_at"])
        yield Sighting(
            kind=LEADER_NEVER_SYNCED,
            evidence=Evidence.INFERRED,
            severity=Severity.WARNING if gap >= rules.storm_rebalances else LEADER_NEVER_SYNCED.severity,
            confidence=LEADER_NEVER_SYNCED.confidence,
            first_ms=at_ms,
            last_ms=at_ms,
            happening=f"{row['incarnation']}/{row['to_generation']}",
            proofs=(row_proof("rebalances", row, "group_id", "incarnation", "to_generation"),),
            claimed_generation=row["from_generation"],
            current_generation=row["to_generation"],
            incarnation=row["incarnation"],
            detail=f"{gap:,}",
        )


def _ignored_subscriptions(facts: GroupFacts) -> Iterator[Sighting]:
    """Yields static members that came back with other topics: they keep their assignment (KIP-345)."""
    for row in facts.generations:
        changes = [each for each in row["changes"] or () if each["kind"] == SUBSCRIPTION_CHANGED.name]
        for change in changes if row["revision"] else ():
            at_ms = milliseconds(row["started_at"])
            yield Sighting(
                kind=STATIC_SUBSCRIPTION_IGNORED,
                evidence=Evidence.INFERRED,
                severity=STATIC_SUBSCRIPTION_IGNORED.severity,
                confidence=STATIC_SUBSCRIPTION_IGNORED.confidence,
                first_ms=at_ms,
                last_ms=at_ms,
                happening=change["member_id"],
                proofs=(row_proof("generations", row, "group_id", "incarnation", "generation", "revision"),),
                member_id=change["member_id"],
                group_instance_id=change.get("group_instance_id"),
                client_id=change.get("client_id"),
                claimed_generation=row["generation"],
                current_generation=row["generation"],
                incarnation=row["incarnation"],
            )
