"""Finds the incidents that a log shows: requests that were refused, and removals that a line states.

A logged removal is what one broker believed: the records confirm it, say nothing about it, or contradict it
(`confirmation`). A broker that the records contradict was no longer the group's coordinator.

A refused commit is an error: its member processed records that somebody else will process again. A heartbeat that is
refused informs the member that it lost its partitions, unless it is the heartbeat by which a member leaves. A join or
leave that is refused costs nothing, for the client joins again. REBALANCE_IN_PROGRESS is the normal way to make a
member join again; only with a commit is it worth a row, of severity info. An error that joining again does not repair
(a wrong setting, a missing permission) has the same severity for every request that fails with it. Some refusals are
normal, and an incident only if they continue, or if the client does not recover from them (`answered`). Source: Kafka's
ClassicGroup.validateMember and validateOffsetCommit; KIP-345 (fencing).

A client that is past its poll interval leaves. Java's client says why (KIP-800); librdkafka (2.16) and kafka-python
(3.0) give no reason, as when they are closed, but join again on the same connection once they poll.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import POLL_TIMEOUT_REASONS
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import roots, triggers
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.kinds.incidents import (
    ASSIGNMENT_NOT_STORED,
    COMMIT_FROM_OUTSIDE,
    COMMITS,
    KIND_OF_LASTING_ERROR,
    LEADER_NEVER_SYNCED,
    POLL_TIMEOUT,
    UNKNOWN_MEMBER,
    ZOMBIE_COORDINATOR,
    kind_of_refusal,
)
from groupledger.schemas.words import CoordinatorEventKind, Evidence, Severity
from groupledger.transforms.incidents.rules.answered import Answered
from groupledger.transforms.incidents.rules.confirmation import Confirmation, Records
from groupledger.transforms.incidents.rules.facts import EPOCH_HEARTBEAT_NAMES
from groupledger.transforms.incidents.rules.inferred import KIND_OF_LEAVE
from groupledger.transforms.incidents.rules.sighting import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules.facts import CoordinatorEvent, Request, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

HEARTBEATS = (ApiKey.HEARTBEAT.name, *EPOCH_HEARTBEAT_NAMES)
BACK_AFTER_MS = 1_000  # a subscription that is given up and taken again is back at once
INFERRED_CONFIDENCE = 0.8
LOGGED_CONFIDENCE = 0.8  # of a line that no record confirms
_ENDS_THE_WAIT = (
    CoordinatorEventKind.ASSIGNMENT_RECEIVED,
    CoordinatorEventKind.GROUP_LOADED,
    CoordinatorEventKind.GROUP_NOW_EMPTY,
)


def observed(facts: GroupFacts) -> Iterator[Sighting]:
    """Yields a sighting for each line that shows an incident. A request log and a server log may both show the same
    occurrence."""
    joins = _joins(facts.requests)
    answered = Answered(facts.requests, facts.as_of_ms)
    for request in facts.requests:
        if request.error_code is not None and not answered.is_recovered_from(request):
            yield from refusals(request, request.error_code, Evidence.OBSERVED)
        yield from _poll_timeouts(request, joins)
    records = Records(facts)
    for event in facts.events:
        has_lost = facts.has_lost(event)
        yield from _removal(event, records, has_lost=has_lost)
        if event.trigger == triggers.ASSIGNMENT_NOT_STORED.name:
            yield _assignment_not_stored(event, has_lost=has_lost)
    yield from _unsynced_generations(facts.spoken)


def refusals(request: Request, error_code: int, evidence: str, *, is_ambiguous: bool = False) -> Iterator[Sighting]:
    """Yields a sighting for each member whose request was refused with `error_code`. Yields none if that error is not
    an incident."""
    kind = kind_of_refusal(request.api, error_code)
    if kind == UNKNOWN_MEMBER and request.api in COMMITS and not request.member_id:
        kind = COMMIT_FROM_OUTSIDE
    if kind is not None:
        yield from _refused(kind, request, error_code, evidence, is_ambiguous=is_ambiguous)


def lasting_refusals(requests: Iterable[Request], rules: Rules) -> Iterator[Sighting]:
    """Yields those refusals that are normal if they come once, but that a client got again and again for at least
    `stalled_transaction_ms`."""
    lines: dict[tuple[IncidentKind, str | None, str | None], list[Request]] = {}
    for request in requests:
        kind = KIND_OF_LASTING_ERROR.get(request.error_code or Error.NONE.value)
        if kind is not None and request.api in (kind.apis or ()):
            lines.setdefault((kind, request.client_id, request.client_host), []).append(request)
    for (kind, *_), line in lines.items():
        for run in _runs(line, kind.repeats_within_ms or 0):
            if run[-1].happened_at_ms - run[0].happened_at_ms >= rules.stalled_transaction_ms:
                for request in run:
                    yield from _refused(kind, request, request.error_code, Evidence.OBSERVED)


def _runs(requests: Iterable[Request], apart_ms: int) -> list[list[Request]]:
    """Returns requests in stretches in which each came at most so long after the one before."""
    runs: list[list[Request]] = []
    for request in sorted(requests, key=attrgetter("happened_at_us")):
        if not runs or request.happened_at_ms - runs[-1][-1].happened_at_ms > apart_ms:
            runs.append([])
        runs[-1].append(request)
    return runs


def _refused(
    kind: IncidentKind, request: Request, error_code: int | None, evidence: str, *, is_ambiguous: bool = False
) -> Iterator[Sighting]:
    who = [(request.member_id, request.group_instance_id)]
    if request.leaving:
        refused = [each for each in request.leaving if each.error_code == error_code] or request.leaving[:1]
        who = [(each.member_id, each.group_instance_id) for each in refused]
    for member_id, group_instance_id in who:
        yield Sighting(
            kind=kind,
            evidence=evidence,
            severity=_severity(kind, request),
            confidence=1.0,
            first_ms=request.happened_at_ms,
            last_ms=request.happened_at_ms,
            happening=f"{request.source_file}/{request.line_number}",
            proofs=(request.proof,),
            member_id=member_id or None,
            group_instance_id=group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            connection_id=request.connection_id,
            claimed_generation=request.generation,
            offsets=tuple(
                (TopicPartition(each.topic, each.partition), each.offset)
                for each in request.offsets
                if request.api in COMMITS and each.error_code in (error_code, None)
            ),
            detail=request.server_assignor or request.api,
            is_ambiguous=is_ambiguous,
            known=(Fact.ASSIGNOR_NAMED,) if request.server_assignor else (),
        )


def _severity(kind: IncidentKind, request: Request) -> str:
    if request.api in COMMITS or kind.apis is not None:
        return kind.severity
    is_heartbeat = request.api in HEARTBEATS and not request.leaving
    return Severity.WARNING if is_heartbeat and kind.takes_partitions else Severity.INFO


def _joins(requests: Iterable[Request]) -> dict[str, list[int]]:
    """Returns the instants of JoinGroup requests, by connection."""
    joins: dict[str, list[int]] = {}
    for request in requests:
        if request.api == ApiKey.JOIN_GROUP.name and request.connection_id is not None:
            joins.setdefault(request.connection_id, []).append(request.happened_at_ms)
    return joins


def _poll_timeouts(request: Request, joins: Mapping[str, Sequence[int]]) -> Iterator[Sighting]:
    """Yields the members that say so when they leave, and those that say nothing and are back on the same connection,
    but not at once."""
    later = joins.get(request.connection_id or "", ()) if request.leaving else ()
    back_ms = next((at_ms for at_ms in later if at_ms > request.happened_at_ms), None)
    came_back = back_ms is not None and back_ms - request.happened_at_ms >= BACK_AFTER_MS
    for member in request.leaving:
        is_given = any(reason in (member.reason or "") for reason in POLL_TIMEOUT_REASONS)
        if not member.error_code and (is_given or (member.reason is None and came_back)):
            yield Sighting(
                kind=POLL_TIMEOUT,
                evidence=Evidence.OBSERVED,
                severity=POLL_TIMEOUT.severity,
                confidence=1.0 if is_given else INFERRED_CONFIDENCE,
                first_ms=request.happened_at_ms,
                last_ms=request.happened_at_ms,
                happening=member.member_id,
                proofs=(request.proof,),
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=request.client_id,
                client_host=request.client_host,
                connection_id=request.connection_id,
            )


def _unsynced_generations(events: Iterable[CoordinatorEvent]) -> Iterator[Sighting]:
    """Yields each completed join phase that another rebalance followed before the leader's assignment came. It is
    about the member whose loss ended the wait, if there was one."""
    formed: CoordinatorEvent | None = None
    for event in events:
        if event.kind == CoordinatorEventKind.STABILIZED:
            formed = event
        elif event.kind in _ENDS_THE_WAIT:
            formed = None
        elif event.kind == CoordinatorEventKind.PREPARING_REBALANCE and formed is not None:
            was_lost = event.trigger in (triggers.SESSION_EXPIRED.name, triggers.SYNC_EXPIRED.name)
            generation = formed.generation or 0
            yield Sighting(
                kind=LEADER_NEVER_SYNCED,
                evidence=Evidence.OBSERVED,
                severity=Severity.WARNING if was_lost else LEADER_NEVER_SYNCED.severity,
                confidence=1.0,
                first_ms=formed.logged_at_ms,
                last_ms=event.logged_at_ms,
                happening=str(generation),
                proofs=(formed.proof, event.proof),
                claimed_generation=generation - 1,
                member_id=event.member_id if was_lost else None,
                current_generation=generation + 1,
            )
            formed = None


def _assignment_not_stored(event: CoordinatorEvent, *, has_lost: bool) -> Sighting:
    """Returns a sighting of a rebalance that began because an assignment could not be written. Kafka answers
    UNKNOWN_SERVER_ERROR when the record is too large, and NOT_COORDINATOR when the broker no longer leads the
    partition; its other errors are those of a topic that can't be written
    (GroupMetadataManager.appendGroupMetadataErrorToResponseError)."""
    words = (event.reason or "").split()
    error = next((each.name for each in Error if each.name in words), "of an unknown error")
    if has_lost or error == Error.NOT_COORDINATOR.name:
        known = Fact.OTHER_COORDINATOR if has_lost else Fact.NOT_COORDINATOR
        return _zombie_coordinator(event, event.member_id, (known,))
    is_named = words[1:2] != ["when"]
    place, root = f"{event.source_file}/{event.line_number}", _root_of_unstored(error, is_named=is_named)
    return replace(_of_line(event, ASSIGNMENT_NOT_STORED, place), root=root, detail=error)


def _root_of_unstored(error: str, *, is_named: bool) -> roots.Root:
    if not is_named:
        return roots.ASSIGNMENT_UNSTORED
    return roots.ASSIGNMENT_TOO_LARGE if error == Error.UNKNOWN_SERVER_ERROR.name else roots.OFFSETS_TOPIC_UNAVAILABLE


def _removal(event: CoordinatorEvent, records: Records, *, has_lost: bool) -> Iterator[Sighting]:
    """Yields the members that a line removes, but for those that the records show to have stayed, and for the lines of
    a broker that had lost the group (`has_lost`)."""
    departure = event.departure
    kind = None if departure is None else KIND_OF_LEAVE.get(departure.name)
    if kind is None:
        return
    for member_id in event.departed:
        word = records.on_departure(member_id, event.logged_at_ms)
        if has_lost or word == Confirmation.CONTRADICTED:
            yield _zombie_coordinator(event, member_id, (Fact.OTHER_COORDINATOR,) if has_lost else ())
            continue
        sighting = replace(_of_line(event, kind, member_id or ""), member_id=member_id)
        if word != Confirmation.CONFIRMED:
            sighting = replace(sighting, evidence=Evidence.LOGGED, confidence=LOGGED_CONFIDENCE)
        yield sighting


def _zombie_coordinator(event: CoordinatorEvent, member_id: str | None, known: tuple[str, ...]) -> Sighting:
    """Returns a sighting of a line in which a broker acted for a group that it did not coordinate."""
    broker = "A broker" if event.broker_id is None else f"Broker {event.broker_id}"
    return replace(_of_line(event, ZOMBIE_COORDINATOR, member_id or ""), detail=broker, known=known)


def _of_line(event: CoordinatorEvent, kind: IncidentKind, happening: str) -> Sighting:
    """Returns a sighting that one line of the server log proves."""
    return Sighting(
        kind=kind,
        evidence=Evidence.OBSERVED,
        severity=kind.severity,
        confidence=1.0,
        first_ms=event.logged_at_ms,
        last_ms=event.logged_at_ms,
        happening=happening,
        proofs=(event.proof,),
    )
