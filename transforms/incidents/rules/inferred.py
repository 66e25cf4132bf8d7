"""Inferred: what the records of `__consumer_offsets` alone let one suspect. Refused requests are not in the topic.

A removal is the history's guess (`members.leave_cause`), made of a member's silence and its timeouts. A static member
that never comes back may have been closed: it says nothing when it is, and its session runs out. A guess that is wrong
as often as not is told and alarms nobody.

A zombie commit is suspected where a silent member was removed and its client came back under a new id soon after: it
lived all the time, and may have committed, or gone on working, in between. What it had in hand is bounded by the new
owners' catch-up: from the last commit before to the first one after. That is exposure, never a count.

A rewind is a committed offset below the one before it. With no members it is a reset; with them a seek, a reset by the
client, or a topic that was made anew. A commit gap is a member whose partitions all fell silent at once, for many times
the interval that they used to be committed at. A generation without a record had a leader that never synced.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from groupledger.transforms.incidents.rules.facts import Proof, host
from groupledger.transforms.incidents.rules.sighting import (
    COMMIT_GAP,
    INFERRED,
    INFO,
    LEADER_NEVER_SYNCED,
    OFFSET_REWIND,
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    STATIC_SUBSCRIPTION_IGNORED,
    WARNING,
    ZOMBIE_COMMIT_SUSPECTED,
    Sighting,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import Commit, CommitStep, GroupFacts, Place, Rules

    Row = dict[str, Any]

KIND_OF_LEAVE = {"session_expired": SESSION_EXPIRED, "left_poll_timeout": POLL_TIMEOUT}
DOUBTFUL = 0.7  # below it a removal is of severity info: clean groups have such, in which everybody joins again slowly
REWIND_TOGETHER_MS = 60_000  # rewinds of a group that lie no further apart are one
# How often such a row was right in bench.incident_accuracy, rounded down; a guess of the history counts if it is lower.
CONFIDENCE = {
    SESSION_EXPIRED: 0.85,
    POLL_TIMEOUT: 0.7,
    ZOMBIE_COMMIT_SUSPECTED: 0.65,
    OFFSET_REWIND: 0.95,
    COMMIT_GAP: 0.8,
    LEADER_NEVER_SYNCED: 0.95,
    STATIC_SUBSCRIPTION_IGNORED: 0.95,
}


def inferred(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    yield from _removals(facts, rules)
    yield from _rewinds(facts)
    yield from _commit_gaps(facts, rules)
    yield from _unsynced_generations(facts)
    yield from _ignored_subscriptions(facts)


def milliseconds(instant_us: int | None) -> int:
    return (instant_us or 0) // 1_000


def row_proof(table: str, row: Row, *key: str) -> Proof:
    return Proof(table, "/".join(str(row[name]) for name in key))


def of_member(row: Row) -> dict[str, Any]:
    """The fields of a sighting that a row of `members` gives."""
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
        return_row = _return(facts.members, row, rules.zombie_return_ms)
        proof = row_proof("members", row, "group_id", "incarnation", "member_id")
        left_ms = milliseconds(row["left_at"])
        handed_over = lost.get((row["incarnation"], row["member_id"]), ())
        offsets = tuple((place, None) for place, *_ in handed_over)
        confidence = min(CONFIDENCE[kind], row["leave_cause_confidence"])
        is_closed_static = row["group_instance_id"] is not None and return_row is None
        is_alarming = confidence >= DOUBTFUL and not is_closed_static
        yield Sighting(
            kind,
            INFERRED,
            WARNING if is_alarming else INFO,
            confidence,
            left_ms,
            left_ms,
            row["member_id"],
            (proof,),
            offsets=offsets,
            **of_member(row),
        )
        if return_row is not None and is_alarming:
            yield _zombie(row, return_row, handed_over, proof)


def closed_static_members(facts: GroupFacts, rules: Rules, expired: set[str | None]) -> set[str]:
    """Those of the expired, by id, whose instances did not come back: so does a static member leave that is closed."""
    return {
        row["member_id"]
        for row in facts.members
        if row["member_id"] in expired
        and row["group_instance_id"] is not None
        and row["left_at"] is not None
        and _return(facts.members, row, rules.zombie_return_ms) is None
    }


def _return(members: Sequence[Row], gone: Row, within_ms: int) -> Row | None:
    """The first tenure of the same process, as far as instance id, or client and address, tell, soon after another.

    A process that was restarted may join before its old session has run out: one record then has the new member and
    not the old one any more. One that was paused can't, for it joins when it is told that it is no member.
    """
    for row in members:
        is_later = row["incarnation"] == gone["incarnation"] and row["from_offset"] > gone["to_offset"]
        is_soon = milliseconds(row["joined_at"]) - milliseconds(gone["left_at"]) <= within_ms
        if is_later and is_soon and identity(row) == identity(gone):
            return row
    return None


def identity(row: Row) -> tuple[str | None, ...]:
    """What a process has in common with what it was before a restart."""
    if row["group_instance_id"] is not None:
        return (row["group_instance_id"],)
    return row["client_id"], row["client_host"]


def _zombie(row: Row, return_row: Row, handed_over: Sequence[tuple[Place, int, int]], proof: Proof) -> Sighting:
    bounds = [max(after - before, 0) for _, before, after in handed_over]
    returned_ms = milliseconds(return_row["joined_at"])
    return Sighting(
        ZOMBIE_COMMIT_SUSPECTED,
        INFERRED,
        WARNING,
        CONFIDENCE[ZOMBIE_COMMIT_SUSPECTED],
        milliseconds(row["left_at"]),
        returned_ms,
        row["member_id"],
        (proof, row_proof("members", return_row, "group_id", "incarnation", "member_id")),
        offsets=tuple((place, after) for place, _, after in handed_over),
        duplicates=(0, sum(bounds)) if bounds else (None, None),
        detail=return_row["member_id"],
        **of_member(row),
    )


def _lost_places(facts: GroupFacts) -> dict[tuple[int, str], list[tuple[Place, int, int]]]:
    """By incarnation and member: the partitions that went to others, with the commit before and the first one after."""
    pauses = {
        (row["incarnation"], row["kafka_offset"], pause["topic"], pause["partition"]): pause
        for row in facts.rebalances
        for pause in row["partition_pauses"] or ()
    }
    lost: dict[tuple[int, str], list[tuple[Place, int, int]]] = defaultdict(list)
    for row in facts.assignments:
        pause = pauses.get((row["incarnation"], row["to_offset"], row["topic"], row["partition"]))
        if pause is not None and pause["committed_offset_after"] is not None:
            place = (row["topic"], row["partition"])
            handover = (place, pause["committed_offset_before"], pause["committed_offset_after"])
            lost[row["incarnation"], row["member_id"]].append(handover)
    return lost


# Commits


def _rewinds(facts: GroupFacts) -> Iterator[Sighting]:
    """Rewinds of several partitions that come together are one."""
    steps = [each for each in facts.steps if _amount(each) > 0]
    steps.sort(key=lambda each: each.commit.kafka_offset)
    together: list[CommitStep] = []
    for step in steps:
        if together and _after(step).at_ms - _after(together[-1]).at_ms > REWIND_TOGETHER_MS:
            yield _rewind(facts, together)
            together = []
        together.append(step)
    if together:
        yield _rewind(facts, together)


def _after(step: CommitStep) -> Commit:
    return step.next_commit or step.commit


def _amount(step: CommitStep) -> int:
    return step.commit.offset - _after(step).offset


def _rewind(facts: GroupFacts, steps: Sequence[CommitStep]) -> Sighting:
    first = min((_after(step) for step in steps), key=lambda commit: commit.kafka_offset)
    last_ms = max(_after(step).at_ms for step in steps)
    generation = generation_at_offset(facts.generations, first.kafka_offset)
    is_reset = generation is None or not generation["member_count"]
    amount = sum(_amount(step) for step in steps)
    root = "admin_reset" if is_reset else "client_seek_or_reset"
    if any(step.is_recreated_topic for step in steps):
        root = "topic_recreated"
    return Sighting(
        OFFSET_REWIND,
        INFERRED,
        WARNING,
        CONFIDENCE[OFFSET_REWIND],
        first.at_ms,
        last_ms,
        f"{first.kafka_partition}/{first.kafka_offset}",
        tuple(_after(step).proof for step in steps),
        current_generation=None if generation is None else generation["generation"],
        incarnation=None if generation is None else generation["incarnation"],
        offsets=tuple((step.commit.place, step.commit.offset) for step in steps),
        duplicates=(None, None) if root == "topic_recreated" else (amount, amount),
        root=root,
    )


def generation_at_offset(generations: Sequence[Row], kafka_offset: int) -> Row | None:
    found = None
    for row in generations:
        is_begun = row["kafka_offset"] <= kafka_offset
        if is_begun and (row["to_offset"] is None or kafka_offset < row["to_offset"]):
            found = row
    return found


def _commit_gaps(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Of each tenure, the time for which all of its partitions that had been committed were silent."""
    tenures = {(row["incarnation"], row["member_id"]): row for row in facts.members}
    by_place: dict[Place, list[CommitStep]] = defaultdict(list)
    for step in facts.steps:
        by_place[step.commit.place].append(step)
    silent: dict[tuple[int, str], dict[Place, CommitStep]] = defaultdict(dict)
    for interval in facts.assignments:
        place = (interval["topic"], interval["partition"])
        for step in by_place[place]:
            offset = step.commit.kafka_offset
            is_owners = interval["from_offset"] < offset < (interval["to_offset"] or offset + 1)
            if is_owners and _is_gap(step, interval, facts.as_of_ms, rules):
                silent[interval["incarnation"], interval["member_id"]][place] = step
    for key, steps in silent.items():
        if key in tenures:
            yield from _commit_gap(facts, tenures[key], steps, rules)


def _end_ms(step: CommitStep, end_us: int | None, as_of_ms: int) -> int:
    """Until when its owner was silent."""
    ends = [as_of_ms if step.next_commit is None else step.next_commit.at_ms]
    return min([*ends, milliseconds(end_us)] if end_us is not None else ends)


def _is_gap(step: CommitStep, interval: Row, as_of_ms: int, rules: Rules) -> bool:
    length_ms = _end_ms(step, interval["valid_to"], as_of_ms) - step.commit.at_ms
    if step.interval_ms is None:
        return False
    return length_ms >= max(rules.commit_gap_ms, rules.commit_gap_intervals * step.interval_ms)


def _commit_gap(facts: GroupFacts, tenure: Row, steps: dict[Place, CommitStep], rules: Rules) -> Iterator[Sighting]:
    begin_ms = max(step.commit.at_ms for step in steps.values())
    end_ms = min(_end_ms(step, tenure["left_at"], facts.as_of_ms) for step in steps.values())
    owned = {
        (row["topic"], row["partition"])
        for row in facts.assignments
        if (row["incarnation"], row["member_id"]) == (tenure["incarnation"], tenure["member_id"])
        and milliseconds(row["valid_from"]) <= begin_ms
        and (row["valid_to"] is None or milliseconds(row["valid_to"]) > begin_ms)
    }
    if end_ms - begin_ms < rules.commit_gap_ms or not owned <= steps.keys():
        return
    first = min((step.commit for step in steps.values()), key=lambda commit: commit.kafka_offset)
    yield Sighting(
        COMMIT_GAP,
        INFERRED,
        INFO,
        CONFIDENCE[COMMIT_GAP],
        begin_ms,
        end_ms,
        f"{first.kafka_partition}/{first.kafka_offset}",
        tuple(step.commit.proof for step in steps.values()),
        offsets=tuple((place, None) for place in steps),
        **of_member(tenure),
    )


# Records


def _unsynced_generations(facts: GroupFacts) -> Iterator[Sighting]:
    """Normal where the next join came before the leader's assignment, and what came the records don't tell."""
    for row in facts.rebalances:
        if row["hole_cause"] != "not_synced":
            continue
        at_ms = milliseconds(row["happened_at"])
        yield Sighting(
            LEADER_NEVER_SYNCED,
            INFERRED,
            INFO,
            CONFIDENCE[LEADER_NEVER_SYNCED],
            at_ms,
            at_ms,
            f"{row['incarnation']}/{row['to_generation']}",
            (row_proof("rebalances", row, "group_id", "incarnation", "to_generation"),),
            claimed_generation=row["from_generation"],
            current_generation=row["to_generation"],
            incarnation=row["incarnation"],
        )


def _ignored_subscriptions(facts: GroupFacts) -> Iterator[Sighting]:
    """A static member that comes back with other topics keeps its assignment, and nothing rebalances (KIP-345)."""
    for row in facts.generations:
        changes = [each for each in row["changes"] or () if each["kind"] == "subscription_changed"]
        for change in changes if row["revision"] else ():
            at_ms = milliseconds(row["started_at"])
            yield Sighting(
                STATIC_SUBSCRIPTION_IGNORED,
                INFERRED,
                WARNING,
                CONFIDENCE[STATIC_SUBSCRIPTION_IGNORED],
                at_ms,
                at_ms,
                change["member_id"],
                (row_proof("generations", row, "group_id", "incarnation", "generation", "revision"),),
                change["member_id"],
                change.get("group_instance_id"),
                change.get("client_id"),
                claimed_generation=row["generation"],
                current_generation=row["generation"],
                incarnation=row["incarnation"],
            )
