"""Compares incidents with the simulator's truth: which were right, which were missed, and how sure the rules were.

A `Judged` is an incident that the truth has, or that the rules claim, or both. The true patterns are those that a
scenario plants on purpose. In the scenario `mixed` anything may happen, so patterns are not judged there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error, error_name
from groupledger.schemas.kinds import triggers
from groupledger.schemas.kinds.incidents import (
    COMMIT_GAP,
    KIND_OF_ERROR,
    LEADER_NEVER_SYNCED,
    MEMBER_FLAPPING,
    OFFSET_REWIND,
    POLL_TIMEOUT,
    REBALANCE_STORM,
    REBALANCE_STUCK,
    REFUSALS,
    SESSION_EXPIRED,
    ZOMBIE_COMMIT_SUSPECTED,
    kind_of_refusal,
)
from groupledger.schemas.words import Severity
from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.inferred import inferred
from groupledger.transforms.incidents.rules.observed import observed
from groupledger.transforms.incidents.rules.patterns import patterns
from groupledger.transforms.incidents.rules.replayed import Replay, replayed
from groupledger.transforms.incidents.rules.rewinds import rewinds
from lab.truth.against_truth import lost_generations
from lab.truth.faults import only_topic
from lab.truth.made import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules import GroupFacts, Request
    from groupledger.transforms.incidents.rules.sighting import Sighting
    from lab.truth.faults import Played

ANYTHING_MAY_HAPPEN = "mixed"
COME_AND_GO = ("flapping-member", "job-crashes")
KIND_OF_CAUSE = {triggers.SESSION_EXPIRED.name: SESSION_EXPIRED, triggers.LEFT_POLL_TIMEOUT.name: POLL_TIMEOUT}
STOPS = (
    *("crash", "long_gc", "slow_processing", "instance_started_twice", "leader_loss", "leader_loss_in_rebalance"),
    *("freeze", "hang", "crash_before_sync", "coordinator_failover", "close", "stop", "admin_removal"),
)
MEMBERS_APIS = (ApiKey.HEARTBEAT.name, ApiKey.OFFSET_COMMIT.name)  # the requests of a member that believes it is one
STOPS_BEFORE_MS = 60_000
JOIN_PHASE_MAX_MS = 300_000  # max.poll.interval.ms of the simulator's clients


@dataclass(frozen=True)
class Judged:
    kind: str
    is_true: bool
    is_claimed: bool
    confidence: float = 0.0


# Observed


def expected_refusals(played: Played) -> Counter[Any]:
    """Returns the requests that the coordinator really refused and whose refusal is an incident, with their number."""
    return Counter(
        (row.requested_at_ms, row.api, row.error, row.client_id)
        for row in played.group.truth.rejections
        if kind_of_refusal(row.api, Error[row.error]) is not None
    )


def observed_refusals(played: Played) -> Counter[Any]:
    at = {request.proof: round(request.happened_at_us / 1_000) for request in played.facts.requests}
    return Counter(
        (at[each.proofs[0]], each.detail, error_name(each.kind.error_code), each.client_id)
        for each in observed(played.facts)
        if each.kind in REFUSALS
    )


def observed_removals(played: Played) -> tuple[Counter[Any], Counter[Any], Counter[str]]:
    """Returns the true removals, the observed removals, both as (member id, kind), and the reasons for which other
    observed ones are left out.

    A removal that is in both logs counts once. The truth only has members that a generation has counted."""
    expected = Counter(
        (row.member_id, KIND_OF_CAUSE[row.leave_cause].name)
        for row in played.group.truth.members
        if row.leave_cause in KIND_OF_CAUSE
    )
    counted = {row.member_id for row in played.group.truth.members}
    seen = {
        (each.member_id, each.kind.name): each.first_ms
        for each in observed(played.facts)
        if each.kind in KIND_OF_CAUSE.values()
    }
    apart = {}
    for key in seen.keys() - expected.keys():
        if is_lost_in_failover(played.facts, seen[key]):
            apart[key] = f"{key[1]} in the log of a coordinator that did not write it"
        elif key[0] not in counted:
            apart[key] = f"{key[1]} of a member that no generation had counted yet"
    return expected, Counter(seen.keys() - apart.keys()), Counter(apart.values())


def is_lost_in_failover(facts: GroupFacts, at_ms: int) -> bool:
    """Returns whether another coordinator loads the group soon after `at_ms`, before any record is written. Then a
    parked join, or a removal that was not written yet, was lost with the former coordinator, and is in no request
    log."""
    loads_ms = (event.logged_at_ms for event in facts.events if event.kind == "group_loaded")
    load_ms = min((each for each in loads_ms if each > at_ms), default=None)
    if load_ms is None or load_ms - at_ms > JOIN_PHASE_MAX_MS:
        return False
    return not any(at_ms <= record.at_ms < load_ms for record in facts.records)


# Replayed


def judged_replay(facts: GroupFacts, answered: GroupFacts) -> Iterator[Judged]:
    """Yields a judgement for each request that was really refused, or that the replay claims to be. `facts` has the
    requests without their answers, perhaps not all, and `answered` all requests with their answers. Claims that the
    order of arrivals makes ambiguous are left out."""
    errors = {request.proof: request.error_code for request in answered.requests}
    apis = {request.proof: request.api for request in answered.requests}
    claims = {sighting.proofs[0]: sighting for sighting in replayed(facts)}
    for request in facts.requests:
        code = errors[request.proof] or 0
        kind = kind_of_refusal(apis[request.proof], code)
        claim = claims.get(request.proof)
        if claim is not None and claim.is_ambiguous:
            continue
        if claim is not None:
            yield Judged(claim.kind.name, claim.kind == kind, is_claimed=True, confidence=claim.confidence)
        if kind is not None and (claim is None or claim.kind != kind):
            yield Judged(kind.name, is_true=True, is_claimed=False)


def replayed_answers(facts: GroupFacts, initial_rebalance_delay_ms: int = 3_000) -> list[tuple[Request, int]]:
    """Returns the requests, each with the error that the reference coordinator answers. Requests whose answer depends
    on the unknown order of arrivals are left out."""
    replay = Replay(facts, initial_rebalance_delay_ms)
    replay.run()
    return [(request, int(error)) for request, error, is_ambiguous in replay.answers if not is_ambiguous]


def is_one_sided(request: Request, error: int) -> bool:
    """Returns whether the log has an incident for the request and the replay has none, or the other way round."""
    return (error in KIND_OF_ERROR) != (request.error_code in KIND_OF_ERROR)


# Inferred


def judged_inferred(played: Played) -> list[Judged]:
    facts = only_topic(played.facts)
    by_kind: dict[IncidentKind, list[Sighting]] = defaultdict(list)
    for sighting in (*inferred(facts, RULES), *patterns(facts, RULES), *rewinds(facts)):
        by_kind[sighting.kind].append(sighting)
    judged = [*_removals(played, by_kind), *_zombies(played, by_kind[ZOMBIE_COMMIT_SUSPECTED])]
    judged += _gaps(played, by_kind[COMMIT_GAP])
    holes = len({generation for _, generation in lost_generations(played.group)})
    judged += _counted(LEADER_NEVER_SYNCED, holes, by_kind[LEADER_NEVER_SYNCED])
    if played.name != ANYTHING_MAY_HAPPEN:
        is_planted = {
            OFFSET_REWIND: played.name == "admin-reset",
            REBALANCE_STORM: played.name in COME_AND_GO,
            REBALANCE_STUCK: played.name == "rebalance-stuck",
            MEMBER_FLAPPING: played.name in COME_AND_GO,
        }
        for kind, planted in is_planted.items():
            judged += _counted(kind, int(planted), by_kind[kind])
    return judged


def _counted(kind: IncidentKind, expected: int, claims: list[Sighting]) -> Iterator[Judged]:
    for number in range(max(expected, len(claims))):
        confidence = claims[number].confidence if number < len(claims) else 0.0
        yield Judged(kind.name, number < expected, number < len(claims), confidence)


def _by_member(kind: IncidentKind, true: set[str], claims: Iterable[Sighting]) -> Iterator[Judged]:
    claimed = {sighting.member_id or "": sighting.confidence for sighting in claims}
    for member_id in true | claimed.keys():
        yield Judged(kind.name, member_id in true, member_id in claimed, claimed.get(member_id, 0.0))


def _removals(played: Played, by_kind: dict[IncidentKind, list[Sighting]]) -> Iterator[Judged]:
    """Judges the removals that a record shows, of members that records name."""
    seen = {row["member_id"] for row in played.facts.members if row["left_at"] is not None}
    for cause, kind in KIND_OF_CAUSE.items():
        true = {row.member_id for row in played.group.truth.members if row.leave_cause == cause} & seen
        yield from _by_member(kind, true, by_kind[kind])


def _zombies(played: Played, claims: list[Sighting]) -> Iterator[Judged]:
    """Judges zombies: members that were alive after their removal, since a request was refused later, or since their
    own poll timer made them leave."""
    seen = {row["member_id"] for row in played.facts.members if row["left_at"] is not None}
    refused = {
        row.member_id
        for row in played.group.truth.rejections
        if row.error == Error.UNKNOWN_MEMBER_ID.name and row.api in MEMBERS_APIS
    }
    left = {row.member_id for row in played.group.truth.members if row.leave_cause == triggers.LEFT_POLL_TIMEOUT.name}
    yield from _by_member(ZOMBIE_COMMIT_SUSPECTED, (refused | left) & seen, claims)


def _gaps(played: Played, claims: list[Sighting]) -> Iterator[Judged]:
    """Judges gaps in commits: one is right if something stopped the process then. Missed ones are not counted, since
    most stops are short."""
    stops = [action for action in played.group.truth.actions if action.action in STOPS]
    for sighting in claims:
        is_true = any(
            stop.client_id in (None, sighting.client_id)
            and sighting.first_ms - STOPS_BEFORE_MS <= stop.happened_at_ms <= sighting.last_ms
            for stop in stops
        )
        yield Judged(COMMIT_GAP.name, is_true, is_claimed=True, confidence=sighting.confidence)


# Clean


def alarms(facts: GroupFacts) -> list[str]:
    return [described(row) for row in alarming(facts)]


def alarming(facts: GroupFacts) -> list[dict[str, Any]]:
    """Returns the incidents above severity info."""
    return [row for row in incidents(facts, RULES) if row["severity"] != Severity.INFO]


def described(row: dict[str, Any]) -> str:
    return f"{row['severity']} {row['kind']} ({row['evidence']}): {row['explanation']}"
