"""What probably started a rebalance, from the records alone: a guess with a confidence, beside the server log's word.

The names are those of `rebalances.trigger`. No record tells a leave from an expiry; a member's silence does. A commit
resets its session timer, so a member that committed less than a session timeout before the join phase was complete did
not expire: it left, or an administrator removed it if it is static (a static member says nothing when it closes). But
the record of a commit does not say whether it came by a transaction, and such a commit resets nothing: then the session
runs from a heartbeat before it, and they are never further apart than a third of the session if Kafka's advice is kept.
Part of such a silence is the join phase, which began, at the latest, when the first of those who stayed fell silent to
join again.
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

    from groupledger.transforms.history.rules.changes import Change, Turnover
    from groupledger.transforms.history.rules.events import MemberFacts, Unit
    from groupledger.transforms.history.rules.state import Interval, OpenGroup, Tenure

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
    """How long a member had not committed when the join phase was complete, and how long at the most when it began: a
    rhythm after the last commit of the first of those who stayed to fall silent, and join again. The mean interval of
    its busiest partition is None where unknown."""

    silence_ms: int
    quiet_ms: float
    cadence_ms: float | None


def silences(group: OpenGroup, gone: Iterable[Tenure], moment_ms: int) -> dict[str, Silence | None]:
    """By member id, of those who went, at the moment when the join phase was complete; None of one that never
    committed. In one pass over the group's ownership."""
    found: dict[str, Silence | None] = {tenure.facts.member_id: None for tenure in gone}
    if not found:
        return {}
    times_ms: dict[str, int] = {}
    cadences: dict[str, float] = {}
    for owner, unit in _owned(group.owners):
        committed = group.commits.get(unit)
        if committed is None or committed.last_ms is None or not committed.owner_commits:
            continue
        times_ms[owner] = max(committed.last_ms, times_ms.get(owner, 0))
        if committed.owner_commits >= TIMING_COMMITS_MIN:
            cadence_ms = (committed.last_ms - committed.owner_first_ms) / (committed.owner_commits - 1)
            cadences[owner] = min(cadence_ms, cadences.get(owner, cadence_ms))
    stayed = [(times_ms[owner], cadence_ms) for owner, cadence_ms in cadences.items() if owner not in found]
    for owner in times_ms.keys() & found.keys():
        last_ms = times_ms[owner]
        silence_ms = max(0, moment_ms - last_ms)
        # One that was silent before it was idle, and tells nothing.
        begun_ms = (time_ms + rhythm_ms - last_ms for time_ms, rhythm_ms in stayed if time_ms > last_ms)
        found[owner] = Silence(silence_ms, min((silence_ms, *begun_ms)), cadences.get(owner))
    return found


def _owned(owners: Mapping[Unit, Interval]) -> Iterable[tuple[str, Unit]]:
    return ((owner, unit) for unit, interval in owners.items() for owner in interval.owners)


def departure(facts: MemberFacts, silence: Silence | None) -> Guess:
    is_static = facts.group_instance_id is not None
    if silence is None:
        if is_static:
            return Guess("session_expired", 0.6, "a static member never committed; it does not leave when it closes")
        return Guess("left", 0.5, "the member never committed")
    explanation = f"last commit {silence.silence_ms} ms before, session timeout {facts.session_timeout_ms} ms"
    if silence.cadence_ms is not None:
        explanation += f", mean interval of its commits {silence.cadence_ms:.0f} ms"
    if silence.silence_ms < facts.session_timeout_ms:
        return _within_a_session(facts, silence, explanation)
    if silence.cadence_ms is None or silence.cadence_ms > facts.session_timeout_ms:
        explanation += ", no faster rhythm of commits known"
        return Guess("session_expired", 0.7, explanation) if is_static else Guess("left", 0.5, explanation)
    poll_ms = facts.rebalance_timeout_ms
    if not is_static and facts.session_timeout_ms < poll_ms <= silence.silence_ms:
        return Guess("left_poll_timeout", 0.7, f"{explanation}, rebalance timeout {poll_ms} ms")
    return Guess("session_expired", 0.85, explanation)


def _within_a_session(facts: MemberFacts, silence: Silence, explanation: str) -> Guess:
    heartbeat_ms = facts.session_timeout_ms / HEARTBEATS_PER_SESSION
    is_regular = silence.cadence_ms is not None and silence.cadence_ms <= heartbeat_ms
    if is_regular and silence.quiet_ms >= facts.session_timeout_ms - heartbeat_ms:
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
