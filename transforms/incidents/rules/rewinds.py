"""Finds committed offsets that went back: a reset, a reader that went back, or two committers that take turns.

If the group has no members, a rewind is a reset by an administrator; if it has members, it is a seek or a reset by the
client. If the partition changed owners between the two commits, the new owner began too early, and no client called
seek.

A topic that was created again begins at offset 0 again: its commits have another topic id or, if they have none,
samples show an end below the earlier commit. This does not count as a rewind, since nothing is read twice. Two
committers that take turns are a finding of their own (`transforms.offsets.rules.read_again`): one of them does not own
the partition, or owns it no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds import roots
from groupledger.schemas.kinds.incidents import OFFSET_REWIND, TWO_COMMITTERS
from groupledger.schemas.words import Evidence
from groupledger.transforms.incidents.rules.inferred import had_no_members
from groupledger.transforms.incidents.rules.sighting import Sighting
from groupledger.transforms.offsets.rules.read_again import Move, read_again, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules.facts import Commit, CommitStep
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.offsets.rules.read_again import ReadAgain

TOGETHER_MS = 60_000  # rewinds of a group that lie no further apart are one


def rewinds(facts: GroupFacts) -> Iterator[Sighting]:
    """Yields one sighting for rewinds of several partitions within a minute of each other, and one for committers that
    take turns."""
    steps = {_move(step).kafka_offset: step for step in facts.steps if _is_rewind(step)}
    counted = read_again(map(_move, steps.values()))
    for sight, of_kind in ((_rewind, False), (_two_committers, True)):
        for together in _together(each for each in counted if each.is_turn == of_kind):
            yield sight(facts, together, [steps[each.move.kafka_offset] for each in together])


def _is_rewind(step: CommitStep) -> bool:
    if step.next_commit is None or step.next_commit.offset >= step.commit.offset or step.is_recreated_topic:
        return False
    return step.high_watermark is None or step.high_watermark >= step.commit.offset


def _move(step: CommitStep) -> Move:
    after = step.next_commit or step.commit
    return Move(after.place, after.kafka_offset, after.at_ms, step.commit.offset, after.offset)


def _together(counted: Iterable[ReadAgain]) -> Iterator[list[ReadAgain]]:
    together: list[ReadAgain] = []
    for each in counted:
        if together and each.move.at_ms - together[-1].move.at_ms > TOGETHER_MS:
            yield together
            together = []
        together.append(each)
    if together:
        yield together


def _rewind(facts: GroupFacts, counted: Sequence[ReadAgain], steps: Sequence[CommitStep]) -> Sighting:
    is_reset = had_no_members(facts, counted[0].move.kafka_offset)
    is_handover = all(_is_handover(facts, step) for step in steps)
    low, high = total(counted) or (0, 0)
    return _sighting(
        facts,
        OFFSET_REWIND,
        counted,
        steps,
        duplicates=(0 if is_reset and not _had_members_later(facts, counted[0].move) else low, high),
        root=roots.ADMIN_RESET if is_reset else roots.HANDOVER if is_handover else roots.CLIENT_SEEK_OR_RESET,
    )


def _is_handover(facts: GroupFacts, step: CommitStep) -> bool:
    """Returns whether another member owned the partition when the lower offset was committed."""
    owners = [_owner(facts, commit) for commit in (step.commit, step.next_commit or step.commit)]
    return None not in owners and owners[0] != owners[1]


def _owner(facts: GroupFacts, commit: Commit) -> str | None:
    row = facts.lookups.owner_at(commit.place, commit.kafka_offset)
    return None if row is None else str(row["member_id"])


def _had_members_later(facts: GroupFacts, move: Move) -> bool:
    """Returns whether somebody may have read since a reset."""
    return facts.lookups.last_offset_with_members > move.kafka_offset


def _two_committers(facts: GroupFacts, counted: Sequence[ReadAgain], steps: Sequence[CommitStep]) -> Sighting:
    return _sighting(
        facts,
        TWO_COMMITTERS,
        counted,
        steps,
        duplicates=total(counted) or (None, None),
        detail=f"{len(counted):,}",
    )


def _sighting(
    facts: GroupFacts,
    kind: IncidentKind,
    counted: Sequence[ReadAgain],
    steps: Sequence[CommitStep],
    **fields: Any,
) -> Sighting:
    first, last = counted[0].move, counted[-1].move
    generation = facts.lookups.generation_at(first.kafka_offset)
    commits = [step.next_commit or step.commit for step in steps]
    return Sighting(
        kind=kind,
        evidence=Evidence.INFERRED,
        severity=kind.severity,
        confidence=kind.confidence,
        first_ms=first.at_ms,
        last_ms=last.at_ms,
        happening=f"{commits[0].kafka_partition}/{first.kafka_offset}",
        proofs=tuple(commit.proof for commit in commits),
        current_generation=None if generation is None else generation["generation"],
        incarnation=None if generation is None else generation["incarnation"],
        offsets=tuple((step.commit.place, step.commit.offset) for step in steps),
        **fields,
    )
