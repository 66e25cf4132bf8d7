"""Finds records that wait although no consumer is at fault, or because the group has no consumer.

- A group had no members while records waited. Its empty generations show since when, samples of its partitions' ends
  show how many records, and the tenures that ended shortly before show who was the last member. A log says how a member
  left, or else the history does, unless it only guesses. Consumers that left by themselves were stopped, which raises
  no alarm; a session that ran out, or a member that did not poll, does. A group that is regularly empty for as long is
  a job, and the time between its runs is not an incident.
- A transaction is open in a topic, and a group has read all that lies before it (`lag.status`, which knows markers).
  Its consumers work correctly. A transaction that does not end raises an alarm, unless earlier transactions took about
  as long: a producer may commit only every ten minutes.
- A commit lies beyond the end of the log, in two rounds at least. A running consumer would leave such an offset at
  once.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.names import is_made_for_one_use
from groupledger.schemas.kinds import triggers
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.kinds.incidents import COMMIT_AHEAD_OF_END, GROUP_WITHOUT_MEMBERS, OPEN_TRANSACTION_IN_TOPIC
from groupledger.schemas.words import (
    CoordinatorEventKind,
    Evidence,
    GroupType,
    LagStatus,
    LeaveCause,
    Severity,
    words_of,
)
from groupledger.transforms.incidents.rules.facts import SET_BACK_MS_MAX, milliseconds
from groupledger.transforms.incidents.rules.inferred import DOUBTFUL, of_member, row_proof
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.incidents.rules.sighting import Sighting
from groupledger.transforms.lookups import InOrder, Spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules.facts import CommitStep, LagStretch, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

TOGETHER_MS = 60_000  # stretches of a group's partitions that begin this close together are one occurrence
AHEAD_MS = 30_000  # a consumer that finds its offset out of range has gone elsewhere by then
USUAL_TIMES = 2  # if a third as long was usual before, the group works like that
USUAL_PART = 3
IN_ORDER = frozenset({triggers.LEFT.name, triggers.ADMIN_REMOVED.name})
UNPOLLED = frozenset({triggers.LEFT_POLL_TIMEOUT.name, triggers.REBALANCE_TIMEOUT.name})


def waiting(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    absences = list(_absences(facts))
    if not is_made_for_one_use(facts.group_id):
        yield from _without_members(facts, absences, rules)
    yield from _open_transactions(facts, absences, rules)
    yield from _ahead(facts)


class _Lengths:
    """The lengths of things that come again and again."""

    def __init__(self, lengths_ms: Iterable[int]) -> None:
        self._longest_ms = nlargest(USUAL_TIMES + 1, lengths_ms)

    def is_usual(self, length_ms: int, *, is_one_of_them: bool) -> bool:
        """Returns whether others were about as long, or longer."""
        found = sum(USUAL_PART * each >= length_ms for each in self._longest_ms)
        return found - is_one_of_them >= USUAL_TIMES


# No members


@dataclass(frozen=True, slots=True)
class Absence:
    """Holds a time in which a group had no members. `begin` is its first empty generation."""

    begin: Row
    from_ms: int
    until_ms: int
    is_over: bool

    @property
    def length_ms(self) -> int:
        return self.until_ms - self.from_ms


def _absences(facts: GroupFacts) -> Iterator[Absence]:
    """Yields them in the order of the log; generations with something unseen in between are not one. One ends where the
    server log has a generation with members, of which there may be no record."""
    stabilized = (event for event in facts.spoken if event.kind == CoordinatorEventKind.STABILIZED)
    formed = InOrder(stabilized, attrgetter("logged_at_ms"))
    rows = sorted(facts.generations, key=lambda row: (row["kafka_offset"], row["revision"]))
    begin = None
    for row, following in pairwise([*rows, None]):
        if row is None or row["member_count"] != 0:
            continue
        begin = begin or row
        goes_on = following is not None and following["kafka_offset"] == row["to_offset"]
        if goes_on and following is not None and following["member_count"] == 0:
            continue
        is_over = row["to_offset"] is not None
        from_ms = milliseconds(begin["started_at"])
        until_ms = milliseconds(row["ended_at"]) if is_over else facts.silent_until_ms
        later = (each for each in formed.between(from_ms, until_ms - 1) if (each.generation or 0) > begin["generation"])
        next_ms = next((event.logged_at_ms for event in later), None)
        yield Absence(begin, from_ms, until_ms if next_ms is None else next_ms, is_over or next_ms is not None)
        begin = None


def _without_members(facts: GroupFacts, absences: Sequence[Absence], rules: Rules) -> Iterator[Sighting]:
    lengths = _Lengths(each.length_ms for each in absences if each.is_over)
    ended = InOrder((row for row in facts.members if row["left_at"] is not None), itemgetter("left_at"))
    for absence in absences:
        waiting = facts.lookups.steps_waiting(absence.from_ms, absence.until_ms)
        waited = [(step, _waited_from_ms(step, absence, rules)) for step in waiting]
        steps = [step for step, from_ms in waited if from_ms is not None]
        if not steps:
            continue
        is_usual = lengths.is_usual(absence.length_ms, is_one_of_them=absence.is_over)
        last = _last_members(ended, absence, rules)
        known = _how_they_went(facts, last, rules)
        is_harm = bool(known & {Fact.LEFT_WITHOUT_A_WORD, Fact.LEFT_UNPOLLED})
        if is_usual and not is_harm:
            continue
        yield Sighting(
            kind=GROUP_WITHOUT_MEMBERS,
            evidence=Evidence.INFERRED,
            severity=GROUP_WITHOUT_MEMBERS.severity if is_harm and not is_usual else Severity.INFO,
            confidence=GROUP_WITHOUT_MEMBERS.confidence,
            first_ms=min(from_ms for _, from_ms in waited if from_ms is not None),
            last_ms=absence.until_ms,
            happening=f"{absence.begin['incarnation']}/{absence.begin['kafka_offset']}",
            proofs=(
                row_proof("generations", absence.begin, "group_id", "incarnation", "generation", "revision"),
                *(row_proof("members", row, "group_id", "incarnation", "member_id") for row in last),
                *(step.commit.proof for step in steps),
            ),
            offsets=tuple((step.commit.place, None) for step in steps),
            detail=f"{sum(_unread(step) for step in steps):,}",
            known=tuple(sorted(known)),
            **(of_member(last[-1]) if last else {"incarnation": absence.begin["incarnation"]}),
        )


def _waited_from_ms(step: CommitStep, absence: Absence, rules: Rules) -> int | None:
    """Returns since when records waited after a commit and nobody was there; None if that was not for long."""
    if step.waiting_from_ms is None:
        return None
    from_ms = max(step.waiting_from_ms, absence.from_ms)
    until_ms = absence.until_ms if step.next_commit is None else min(step.next_commit.at_ms, absence.until_ms)
    return from_ms if until_ms - from_ms >= rules.commit_gap_ms else None


def _unread(step: CommitStep) -> int:
    return (step.high_watermark or step.commit.offset) - step.commit.offset


def _last_members(ended: InOrder[Row], absence: Absence, rules: Rules) -> list[Row]:
    """Returns the tenures that ended shortly before an absence, the last one last. `ended` are all of them, by their
    ends in microseconds."""
    first_us, last_us = ((absence.from_ms + each) * 1_000 for each in (-rules.link_ms, SET_BACK_MS_MAX))
    found = [
        row
        for row in ended.between(first_us, last_us)
        if row["incarnation"] == absence.begin["incarnation"]
        and row["to_offset"] is not None
        and row["to_offset"] <= absence.begin["kafka_offset"]
        and row["leave_cause"] not in words_of(LeaveCause)
    ]
    return sorted(found, key=lambda row: (row["to_offset"], row["from_offset"], row["member_id"]))


def _how_they_went(facts: GroupFacts, last: Sequence[Row], rules: Rules) -> set[str]:
    """Returns the facts about the last members of a group."""
    if not last:
        return set()
    known = {Fact.LAST_MEMBER_KNOWN}
    causes = [_cause(facts, row, rules) for row in last]
    if triggers.SESSION_EXPIRED.name in causes:
        known.add(Fact.LEFT_WITHOUT_A_WORD)
    if UNPOLLED.intersection(causes):
        known.add(Fact.LEFT_UNPOLLED)
    if IN_ORDER.issuperset(causes):
        known.add(Fact.LEFT_IN_ORDER)
    return known


def _cause(facts: GroupFacts, row: Row, rules: Rules) -> str | None:
    """Returns why a tenure ended: as a log says it, or else as it was inferred; None if that is as good as a guess."""
    left_ms = milliseconds(row["left_at"])
    lines = facts.lookups.events_of.get(row["member_id"], ())
    stated = [(event.logged_at_ms, event.departure) for event in lines]
    stated += [
        (request.happened_at_ms, triggers.trigger_of_leave(each.reason))
        for request, each in facts.lookups.leaves.get(row["member_id"], ())
        if not each.error_code
    ]
    for at_ms, departure in stated:
        if departure is not None and abs(at_ms - left_ms) <= rules.link_ms:
            return departure.name
    cause: str | None = row["leave_cause"]
    is_guess = (row["leave_cause_confidence"] or 0) < DOUBTFUL
    # No record has the session timeout of a KIP-848 group, so that a short one looks like a member that left.
    is_guess |= cause == triggers.LEFT.name and row.get("group_type") not in (None, GroupType.CLASSIC)
    return None if is_guess else cause


# What the lag shows


def _open_transactions(facts: GroupFacts, absences: Sequence[Absence], rules: Rules) -> Iterator[Sighting]:
    away = Spans(absences, attrgetter("from_ms"), attrgetter("until_ms"))
    together = [
        stretches
        for stretches in _together(facts.lag_stretches, LagStatus.WAITING_FOR_TRANSACTION, is_one_each=True)
        if _length_ms(stretches) >= rules.commit_gap_ms and not _was_away(stretches, away)
    ]
    lengths = _Lengths(map(_length_ms, together))
    for stretches in together:
        length_ms = _length_ms(stretches)
        is_usual = lengths.is_usual(length_ms, is_one_of_them=True)
        is_alarming = length_ms >= rules.stalled_transaction_ms and not is_usual
        records = sum(each.high_watermark - (each.last_stable_offset or each.committed_offset) for each in stretches)
        severity = OPEN_TRANSACTION_IN_TOPIC.severity if is_alarming else Severity.INFO
        yield _of_lag(facts, OPEN_TRANSACTION_IN_TOPIC, stretches, severity, records)


def _was_away(stretches: Sequence[LagStretch], absences: Spans[Absence]) -> bool:
    """Returns whether the group had no members for most of the time: nobody waits then."""
    from_ms, until_ms = stretches[0].from_ms, max(each.until_ms for each in stretches)
    met = absences.meeting(from_ms, until_ms)
    away_ms = sum(max(min(each.until_ms, until_ms) - max(each.from_ms, from_ms), 0) for each in met)
    return 2 * away_ms > until_ms - from_ms


def _ahead(facts: GroupFacts) -> Iterator[Sighting]:
    for stretches in _together(facts.lag_stretches, LagStatus.AHEAD_OF_LOG):
        if _length_ms(stretches) >= AHEAD_MS:
            beyond = sum(each.committed_offset - each.high_watermark for each in stretches)
            yield _of_lag(facts, COMMIT_AHEAD_OF_END, stretches, COMMIT_AHEAD_OF_END.severity, beyond)


def _together(stretches: Iterable[LagStretch], status: str, *, is_one_each: bool = False) -> Iterator[list[LagStretch]]:
    """Yields lists of stretches with one status that belong together: each begins before the ones before it have ended,
    or soon after. With `is_one_each`, a list has only one stretch of each partition."""
    together: list[LagStretch] = []
    mine = (each for each in stretches if each.status == status)
    for stretch in sorted(mine, key=lambda each: (each.from_ms, each.place, each.committed_offset)):
        is_next = is_one_each and any(each.place == stretch.place for each in together)
        if together and (is_next or stretch.from_ms - max(each.until_ms for each in together) > TOGETHER_MS):
            yield together
            together = []
        together.append(stretch)
    if together:
        yield together


def _length_ms(stretches: Sequence[LagStretch]) -> int:
    """Returns how long the longest of them was."""
    return max(each.length_ms for each in stretches)


def _of_lag(
    facts: GroupFacts, kind: IncidentKind, stretches: Sequence[LagStretch], severity: str, amount: int
) -> Sighting:
    first = stretches[0]
    times = [(each, at_ms) for each in stretches for at_ms in dict.fromkeys((each.from_ms, each.until_ms))]
    return Sighting(
        kind=kind,
        evidence=Evidence.INFERRED,
        severity=severity,
        confidence=kind.confidence,
        first_ms=first.from_ms,
        last_ms=max(each.until_ms for each in stretches),
        happening=f"{first.topic}/{first.partition}/{first.committed_offset}",
        proofs=tuple(Proof("lag", f"{at_ms}/{facts.group_id}/{each.topic}/{each.partition}") for each, at_ms in times),
        offsets=tuple((each.place, each.committed_offset) for each in stretches),
        detail=f"{amount:,}",
    )
