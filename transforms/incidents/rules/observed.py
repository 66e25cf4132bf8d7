"""Observed: a request that the log shows as refused, and a removal that a log line states.

A refused commit is an error: its member processed records that somebody else will process again. A heartbeat that is
refused tells the member that it lost its partitions; a join or leave that is refused costs nothing, for the client
joins anew. REBALANCE_IN_PROGRESS is the normal way to tell a member to join again; only with a commit is it worth a
row, of severity info. Source: Kafka's ClassicGroup.validateMember and validateOffsetCommit; KIP-345 (fencing).

Past its poll interval a client leaves. Java's says why (KIP-800); librdkafka (2.16) and kafka-python (3.0) say nothing,
as when they are closed, but join again on the same connection once they poll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.rebalance_reasons import POLL_TIMEOUT_REASON
from groupledger.transforms.incidents.rules.sighting import (
    ERROR,
    FENCED_INSTANCE,
    FENCED_MEMBER_EPOCH,
    INFO,
    KIND_OF_ERROR,
    LEADER_NEVER_SYNCED,
    OBSERVED,
    POLL_TIMEOUT,
    REBALANCE_IN_PROGRESS_COMMIT,
    SESSION_EXPIRED,
    UNKNOWN_MEMBER,
    WARNING,
    Sighting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.incidents.rules.facts import CoordinatorEvent, GroupFacts, Request

COMMITS = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT")
HEARTBEATS = ("HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT")
BACK_AFTER_MS = 1_000  # a subscription that is given up and taken again is back at once
UNTOLD_CONFIDENCE = 0.8


def observed(facts: GroupFacts) -> Iterator[Sighting]:
    joins = _joins(facts.requests)
    for request in facts.requests:
        if request.error_code is not None:
            yield from refusals(request, request.error_code, OBSERVED)
        yield from _poll_timeouts(request, joins)
    for event in facts.events:
        yield from _removal(event)
    yield from _unsynced_generations(facts.events)


def refusals(request: Request, error_code: int, evidence: str, *, is_ambiguous: bool = False) -> Iterator[Sighting]:
    """What it is that a request was refused with an error; nothing for an error that is no incident."""
    kind = KIND_OF_ERROR.get(error_code)
    is_commit = request.api in COMMITS
    if kind is None or (kind == REBALANCE_IN_PROGRESS_COMMIT and not is_commit):
        return
    who = [(request.member_id, request.group_instance_id)]
    if request.leaving:
        refused = [each for each in request.leaving if each.error_code == error_code] or request.leaving[:1]
        who = [(each.member_id, each.group_instance_id) for each in refused]
    for member_id, group_instance_id in who:
        yield Sighting(
            kind,
            evidence,
            _severity(kind, request.api),
            1.0,
            request.happened_at_ms,
            request.happened_at_ms,
            f"{request.source_file}/{request.line_number}",
            (request.proof,),
            member_id or None,
            group_instance_id,
            request.client_id,
            request.client_host,
            request.connection_id,
            request.generation,
            offsets=tuple(
                ((each.topic, each.partition), each.offset)
                for each in request.offsets
                if is_commit and each.error_code in (error_code, None)
            ),
            detail=request.api,
            is_ambiguous=is_ambiguous,
        )


def _severity(kind: str, api: str) -> str:
    if kind == REBALANCE_IN_PROGRESS_COMMIT:
        return INFO
    if api in COMMITS:
        return ERROR
    return WARNING if api in HEARTBEATS and kind in (UNKNOWN_MEMBER, FENCED_INSTANCE, FENCED_MEMBER_EPOCH) else INFO


def _joins(requests: Iterable[Request]) -> dict[str, list[int]]:
    """When there was a JoinGroup, by connection."""
    joins: dict[str, list[int]] = {}
    for request in requests:
        if request.api == "JOIN_GROUP" and request.connection_id is not None:
            joins.setdefault(request.connection_id, []).append(request.happened_at_ms)
    return joins


def _poll_timeouts(request: Request, joins: Mapping[str, Sequence[int]]) -> Iterator[Sighting]:
    """Who says so; and who says nothing, and is back on the same connection, but not at once."""
    later = joins.get(request.connection_id or "", ()) if request.leaving else ()
    back_ms = next((at_ms for at_ms in later if at_ms > request.happened_at_ms), None)
    came_back = back_ms is not None and back_ms - request.happened_at_ms >= BACK_AFTER_MS
    for member in request.leaving:
        is_told = POLL_TIMEOUT_REASON in (member.reason or "")
        if not member.error_code and (is_told or (member.reason is None and came_back)):
            yield Sighting(
                POLL_TIMEOUT,
                OBSERVED,
                WARNING,
                1.0 if is_told else UNTOLD_CONFIDENCE,
                request.happened_at_ms,
                request.happened_at_ms,
                member.member_id,
                (request.proof,),
                member.member_id,
                member.group_instance_id,
                request.client_id,
                request.client_host,
                request.connection_id,
            )


def _unsynced_generations(events: Iterable[CoordinatorEvent]) -> Iterator[Sighting]:
    """A join phase that was completed, and then another rebalance before the leader's assignment."""
    formed: CoordinatorEvent | None = None
    for event in events:
        if event.kind == "stabilized":
            formed = event
        elif event.kind in ("assignment_received", "group_loaded", "group_now_empty"):
            formed = None
        elif event.kind == "preparing_rebalance" and formed is not None:
            was_lost = event.trigger in ("session_expired", "sync_expired")
            generation = formed.generation or 0
            yield Sighting(
                LEADER_NEVER_SYNCED,
                OBSERVED,
                WARNING if was_lost else INFO,
                1.0,
                formed.logged_at_ms,
                event.logged_at_ms,
                str(generation),
                (formed.proof, event.proof),
                claimed_generation=generation - 1,
                current_generation=generation + 1,
            )
            formed = None


def _removal(event: CoordinatorEvent) -> Iterator[Sighting]:
    if event.kind == "member_failed":
        kind = SESSION_EXPIRED
    elif event.kind == "member_left" and POLL_TIMEOUT_REASON in (event.client_reason or ""):
        kind = POLL_TIMEOUT
    else:
        return
    yield Sighting(
        kind,
        OBSERVED,
        WARNING,
        1.0,
        event.logged_at_ms,
        event.logged_at_ms,
        event.member_id or "",
        (event.proof,),
        event.member_id,
    )
