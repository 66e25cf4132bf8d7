"""What probably started a rebalance, from the records alone: a guess with a confidence, beside the server log's word.

The names are those of `rebalances.trigger`. No record tells a leave from an expiry; a member's silence does. A commit
resets its session timer, so a member that committed less than a session timeout before the join phase was complete did
not expire: it left, or an administrator removed it if it is static (a static member says nothing when it closes). But
the record of a commit does not say whether it came by a transaction, and such a commit resets nothing: then the session
runs from a heartbeat before it, and they are never further apart than a third of the session if Kafka's advice is kept.
One that used to commit more often than once a session, and was silent for longer, expired; if it was silent for longer
than max.poll.interval.ms, which a consumer sends as its rebalance timeout, its own client gave up polling and left.
Of several members who have to join again after a cooperative round any may be the first: the leader, or another one.
Confidences are judgements and no frequencies: they order the guesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from transforms.history.changes import Change, Turnover
    from transforms.history.events import MemberFacts, Unit
    from transforms.history.state import Interval, OpenGroup, Tenure

TIMING_COMMITS_MIN = 2  # one commit has no interval
HEARTBEATS_PER_SESSION = 3  # at least, as the documentation of heartbeat.interval.ms asks for
_OF_A_REPLACEMENT = {"member_replaced", "leader_changed", "protocol_changed"}


@dataclass(frozen=True, slots=True)
class Guess:
    trigger: str
    confidence: float
    explanation: str


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a member had not committed, and the mean interval of its busiest partition; None where unknown."""

    silence_ms: int | None
    cadence_ms: float | None


def silences(group: OpenGroup, tenures: Iterable[Tenure], moment_ms: int) -> dict[str, Silence]:
    """By member id, at the moment when the join phase was complete; in one pass over the group's ownership."""
    times_ms: dict[str, list[int]] = {tenure.facts.member_id: [] for tenure in tenures}
    cadences: dict[str, list[float]] = {member_id: [] for member_id in times_ms}
    for owner, unit in _owned(group.owners):
        committed = group.commits.get(unit)
        if owner not in times_ms or committed is None or committed.last_ms is None or not committed.owner_commits:
            continue
        times_ms[owner].append(committed.last_ms)
        if committed.owner_commits >= TIMING_COMMITS_MIN:
            cadences[owner].append((committed.last_ms - committed.owner_first_ms) / (committed.owner_commits - 1))
    return {
        owner: Silence(max(0, moment_ms - max(times)) if times else None, min(cadences[owner], default=None))
        for owner, times in times_ms.items()
    }


def _owned(owners: Mapping[Unit, Interval]) -> Iterable[tuple[str, Unit]]:
    return ((owner, unit) for unit, interval in owners.items() for owner in interval.owners)


def departure(facts: MemberFacts, silence: Silence) -> Guess:
    is_static = facts.group_instance_id is not None
    if silence.silence_ms is None:
        if is_static:
            return Guess("session_expired", 0.6, "a static member never committed; it does not leave when it closes")
        return Guess("left", 0.5, "the member never committed")
    explanation = f"last commit {silence.silence_ms} ms before, session timeout {facts.session_timeout_ms} ms"
    if silence.cadence_ms is not None:
        explanation += f", mean interval of its commits {silence.cadence_ms:.0f} ms"
    if silence.silence_ms < facts.session_timeout_ms:
        return _within_a_session(facts, silence.silence_ms, silence.cadence_ms, explanation)
    if silence.cadence_ms is None or silence.cadence_ms > facts.session_timeout_ms:
        explanation += ", no faster rhythm of commits known"
        return Guess("session_expired", 0.7, explanation) if is_static else Guess("left", 0.5, explanation)
    poll_ms = facts.rebalance_timeout_ms
    if not is_static and facts.session_timeout_ms < poll_ms <= silence.silence_ms:
        return Guess("left_poll_timeout", 0.7, f"{explanation}, rebalance timeout {poll_ms} ms")
    return Guess("session_expired", 0.85, explanation)


def _within_a_session(facts: MemberFacts, quiet_ms: int, cadence_ms: float | None, explanation: str) -> Guess:
    heartbeat_ms = facts.session_timeout_ms / HEARTBEATS_PER_SESSION
    is_regular = cadence_ms is not None and cadence_ms <= heartbeat_ms
    if is_regular and quiet_ms >= facts.session_timeout_ms - heartbeat_ms:
        return Guess("session_expired", 0.6, f"{explanation}; commits in transactions do not reset it")
    if facts.group_instance_id is not None:
        return Guess("admin_removed", 0.7, explanation)
    return Guess("left", 0.95, explanation)


def infer(
    changes: Sequence[Change], members: Turnover, departures: Mapping[str, Guess], revokers: Sequence[str], leader: str
) -> Guess:
    """`leader` and `revokers` are those of the generation before; `departures` by member id."""
    kinds = {change["kind"] for change in changes}
    if "group_started" in kinds:
        return Guess("joined", 0.95, "the group's first members")
    if "cooperative_follow_up" in kinds:
        return _follow_up(members, revokers, leader)
    if members.gone or members.joined:
        return _by_membership(members, departures)
    if members.replaced and kinds <= _OF_A_REPLACEMENT:
        return _by_replacement(kinds)
    return _by_metadata(changes, kinds, leader)


def _follow_up(members: Turnover, revokers: Sequence[str], leader: str) -> Guess:
    explanation = f"members that the round before took partitions from and that had to join again: {len(revokers)}"
    certainty = 0.5 if members.gone or members.came else 0.9
    if leader not in revokers:
        return Guess("metadata_changed", certainty, explanation)
    if len(revokers) == 1:
        return Guess("leader_rejoined", certainty, explanation)
    others = (len(revokers) - 1) / len(revokers)
    return Guess("metadata_changed", certainty * others, f"{explanation}, the leader among them")


def _by_membership(members: Turnover, departures: Mapping[str, Guess]) -> Guess:
    """Of those who went, the one that is told best; a member that came while another was silent came first."""
    gone = [departures[tenure.facts.member_id] for tenure in members.gone]
    came = len(members.joined) + len(members.restarted)
    if not gone:
        return Guess("joined", 0.9, f"members that joined: {came}; nobody went")
    best = max(gone, key=lambda guess: guess.confidence)
    numbers = f"members that went: {len(gone)}, that came: {came}; {best.explanation}"
    if came and best.trigger == "session_expired":
        return Guess("joined", 0.6, numbers)
    is_mixed = bool(came) or len({guess.trigger for guess in gone}) > 1
    return Guess(best.trigger, 0.6 * best.confidence if is_mixed else best.confidence, numbers)


def _by_replacement(kinds: AbstractSet[str]) -> Guess:
    """Nothing else happened. A static member comes back without a rebalance, unless that changes the protocol."""
    if "protocol_changed" in kinds:
        return Guess("protocol_changed", 0.7, "a static member came back with other protocols")
    return Guess("admin_removed", 0.5, "a static member came back under a new id, and that alone starts no rebalance")


def _by_metadata(changes: Sequence[Change], kinds: AbstractSet[str], leader: str) -> Guess:
    """Nobody came or went, but perhaps for static members."""
    if "subscription_changed" in kinds:
        changed = [change["member_id"] for change in changes if change["kind"] == "subscription_changed"]
        name = "leader_rejoined" if changed == [leader] else "metadata_changed"
        return Guess(name, 0.8 if len(changed) == 1 else 0.5, f"subscriptions that changed: {len(changed)}")
    if kinds & {"partitions_added", "topic_deleted"}:
        return Guess("leader_rejoined", 0.9, "the topics' partitions changed, which only the leader looks at")
    if "protocol_changed" in kinds:
        return Guess("metadata_changed", 0.5, "the members chose another protocol")
    return Guess("leader_rejoined", 0.5, "nobody came or went, and no subscription changed")
