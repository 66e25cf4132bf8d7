"""Replaces the sightings that a coordinator's fault caused in a group with one sighting of that fault, in an episode
that all groups hit by it share.

A member that dropped out while the group's coordinator was away, or in the session after that, is not to blame, unless
a line or a request states that it left. So removals, refusals and rewinds of that time are no incidents of their own,
and neither is a group without members, unless it stays without members. A broker that died or stood still leads
partitions of topics, too, and a client that waits for it may send no heartbeat to another one: expired sessions of
other groups at that time belong to the same fault. Moves in good order are a fault only if they hit several groups at
once; otherwise a member dropped out by chance at that time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import incidents as kinds
from groupledger.schemas.kinds import roots
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.words import Evidence, LeaveCause, Severity
from groupledger.transforms.incidents.rules.facts import milliseconds
from groupledger.transforms.incidents.rules.inferred import row_proof
from groupledger.transforms.incidents.rules.sighting import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

EXPIRIES = frozenset({kinds.SESSION_EXPIRED, kinds.ZOMBIE_COMMIT_SUSPECTED, kinds.REBALANCE_TIMEOUT_FENCED})
REFUSED = frozenset(
    {kinds.UNKNOWN_MEMBER, kinds.ILLEGAL_GENERATION, kinds.FENCED_MEMBER_EPOCH, kinds.STALE_MEMBER_EPOCH}
)
OTHERS = frozenset({kinds.FAILED_TO_REJOIN, kinds.LEADER_NEVER_SYNCED, kinds.COMMIT_GAP, kinds.OFFSET_REWIND})
HOW_THEY_LEFT = {Fact.LEFT_IN_ORDER, Fact.LEFT_WITHOUT_A_WORD, Fact.LEFT_UNPOLLED}
NO_DEPARTURE = (LeaveCause.REPLACED, LeaveCause.UPGRADED)
GROUPS_OF_A_MOVE = 2
OUTAGES_NAMED = 3


def is_fault(fault: CoordinatorFault) -> bool:
    """Returns whether members dropped out during the fault: in at least one group, or in several groups if the
    coordinator only moved in good order."""
    return fault.groups >= (GROUPS_OF_A_MOVE if fault.is_clean else 1)


def partition_of(facts: GroupFacts) -> int | None:
    """Returns the partition of `__consumer_offsets` that stores the group; None if it is not known."""
    rows = chain(facts.groups, facts.generations)
    return next((row["kafka_partition"] for row in rows if row.get("kafka_partition") is not None), None)


def is_disturbed(facts: GroupFacts, at_us: int, *, by_any: bool = False) -> bool:
    """Returns whether the group's own coordinator had a fault at an instant. With `by_any`, a broker's fault that is no
    move in good order counts, too, if the broker coordinated other groups only."""
    if not facts.faults:
        return False
    partition, at_ms = partition_of(facts), milliseconds(at_us)
    return any(
        is_fault(each) and each.holds(at_ms) and (partition in each.partitions or (by_any and not each.is_clean))
        for each in facts.faults
    )


def without_blame(sightings: Iterable[Sighting], facts: GroupFacts) -> Iterator[Sighting]:
    """Yields the sightings, but for those that a coordinator's fault caused: in their place comes one sighting for each
    fault that hit the group."""
    partition, stated = partition_of(facts), stated_leaves(facts)
    of_fault: defaultdict[str, list[Sighting]] = defaultdict(list)
    faults = [each for each in facts.faults if is_fault(each)]
    latest_first = sorted(faults, key=lambda each: each.from_ms, reverse=True)
    for sighting in sightings:
        fault = next((each for each in latest_first if _comes_of(sighting, each, partition, stated)), None)
        if fault is None:
            yield _relieved(sighting, facts, partition, stated)
        elif sighting.kind == kinds.ZOMBIE_COORDINATOR:
            yield replace(sighting, shared_episode=fault.fault_id)
        else:
            of_fault[fault.fault_id].append(sighting)
    for fault in faults:
        gone = _gone(facts, fault) if partition in fault.partitions else []
        if gone or any(each.kind != kinds.LEADER_NEVER_SYNCED for each in of_fault[fault.fault_id]):
            yield _hit(fault, gone, of_fault[fault.fault_id])
        else:
            yield from of_fault[fault.fault_id]


def _relieved(sighting: Sighting, facts: GroupFacts, partition: int | None, stated: set[str | None]) -> Sighting:
    """Returns a rewind that came with a move of the coordinator as a commit that was sent again: nobody need have read
    anything again. Members that were lost to a fault and did not come back are still gone, but are not to blame."""
    of_time = [each for each in facts.faults if each.holds(sighting.first_ms)]
    own = [each for each in of_time if partition in each.partitions]
    if sighting.kind == kinds.OFFSET_REWIND and own:
        return replace(_sent_again(sighting), root=roots.COORDINATOR_FAILOVER, severity=Severity.INFO)
    if sighting.root == roots.CLIENT_SEEK_OR_RESET and not all(each.is_clean for each in of_time):
        # The coordinator may wait for the broker to copy a commit, and the client sends the commit again meanwhile.
        return replace(_sent_again(sighting), root=roots.UNKNOWN)
    is_empty = sighting.kind == kinds.GROUP_WITHOUT_MEMBERS and sighting.member_id not in stated
    if is_empty and any(map(is_fault, own)):
        known = tuple(sorted({*sighting.known} - HOW_THEY_LEFT | {Fact.COORDINATOR_FAILED}))
        return replace(sighting, root=roots.COORDINATOR_FAILOVER, known=known)
    return sighting


def _sent_again(rewind: Sighting) -> Sighting:
    high = rewind.duplicates[1]
    return replace(rewind, duplicates=(None if high is None else 0, high))


def _comes_of(sighting: Sighting, fault: CoordinatorFault, partition: int | None, stated: set[str | None]) -> bool:
    if not fault.holds(sighting.first_ms):
        return False
    if sighting.kind == kinds.GROUP_WITHOUT_MEMBERS:
        is_back = sighting.last_ms <= fault.until_ms
        return is_back and partition in fault.partitions and sighting.member_id not in stated
    if partition not in fault.partitions:
        return not fault.is_clean and sighting.kind in EXPIRIES
    is_guess = sighting.kind == kinds.POLL_TIMEOUT and sighting.evidence == Evidence.INFERRED
    return is_guess or sighting.kind in EXPIRIES | REFUSED | OTHERS | {kinds.ZOMBIE_COORDINATOR}


def _gone(facts: GroupFacts, fault: CoordinatorFault) -> list[Row]:
    """Returns the tenures that ended at that time for no reason that is known for sure."""
    stated = stated_leaves(facts)
    return [row for row in facts.members if is_unexplained(row, fault.from_ms, fault.until_ms, stated)]


def stated_leaves(facts: GroupFacts) -> set[str | None]:
    """Returns the ids of the members whose departure a line of the server log or a request states. Lines about expired
    sessions do not count."""
    by_request = {each.member_id for request in facts.requests for each in request.leaving if not each.error_code}
    return by_request | {
        member_id
        for event in facts.events
        if event.departure is not None and event.departure != kinds.SESSION_EXPIRED.trigger
        for member_id in event.departed
    }


def is_unexplained(row: Row, from_ms: int, until_ms: int, stated: set[str | None]) -> bool:
    """Returns whether the tenure in `row` ended between two instants and neither a line nor a request says why."""
    if row["left_at"] is None or row["leave_cause"] in NO_DEPARTURE or row["member_id"] in stated:
        return False
    return from_ms <= milliseconds(row["left_at"]) <= until_ms


def _hit(fault: CoordinatorFault, gone: Sequence[Row], sightings: Sequence[Sighting]) -> Sighting:
    times_ms = [*(milliseconds(row["left_at"]) for row in gone), *(each.last_ms for each in sightings)]
    proofs = [proof for each in sightings for proof in each.proofs]
    proofs += [row_proof("members", row, "group_id", "incarnation", "member_id") for row in gone]
    return _sighting(fault, max(times_ms), (*proofs, *_proofs(fault)))


def of_cluster(facts: GroupFacts) -> Iterator[Sighting]:
    """Yields one sighting for each fault of a coordinator, about all groups that it hit. Yields none if `facts` are
    those of a group."""
    for fault in facts.faults if facts.group_id is None else ():
        if is_fault(fault):
            places = tuple((TopicPartition(OFFSETS_TOPIC, partition), None) for partition in sorted(fault.partitions))
            known = (Fact.WHOLE_CLUSTER,)
            yield _sighting(fault, fault.until_ms, _proofs(fault), offsets=places, known=known)


def _proofs(fault: CoordinatorFault) -> tuple[Any, ...]:
    return tuple(proof for each in fault.outages for proof in each.proofs)


def _sighting(fault: CoordinatorFault, last_ms: int, proofs: tuple[Any, ...], **fields: Any) -> Sighting:
    details = list(dict.fromkeys(each.detail for each in fault.outages))
    named = details[:OUTAGES_NAMED] + [f"{len(details) - OUTAGES_NAMED:,} more"] * (len(details) > OUTAGES_NAMED)
    groups = "1 group was" if fault.groups == 1 else f"{fault.groups:,} groups were"
    hit = f"{groups} hit; " if fields.get("known") else ""
    return Sighting(
        kind=kinds.COORDINATOR_FAILED,
        evidence=Evidence.OBSERVED if fault.is_logged else Evidence.INFERRED,
        # A silence may also be that of clients which stopped together, as in a deployment: it wakes nobody.
        severity=kinds.COORDINATOR_FAILED.severity if fault.is_logged else Severity.INFO,
        confidence=1.0 if fault.is_logged else kinds.COORDINATOR_FAILED.confidence,
        first_ms=fault.from_ms,
        last_ms=last_ms,
        happening=fault.fault_id,
        shared_episode=fault.fault_id,
        proofs=proofs,
        detail=f"{hit}{', '.join(named)}",
        **fields,
    )
