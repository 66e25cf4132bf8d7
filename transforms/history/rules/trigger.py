"""Infers what started a rebalance, from the records alone, with a confidence. A server log replaces the inferred
trigger.

The triggers are rows of `schemas.kinds.triggers`. No record distinguishes a leave from an expiry; a member's silence
does:

- A commit resets its member's session timer. A member that committed less than a session timeout before the join phase
  was complete did not expire: it left, or an administrator removed it if it is static (a static member sends no leave
  when it closes). Commits within transactions reset nothing, and a record does not show which these are; for them the
  session runs from a heartbeat, and heartbeats are at most a third of the session apart if Kafka's advice is kept.
- A member that used to commit more often than once a session, and was silent for longer, expired. If it was silent for
  longer than max.poll.interval.ms, which a consumer sends as its rebalance timeout, its own client gave up and left.
  With a single commit, the time since the member got the partition is used as the interval, which is weaker evidence.
- Every member begins a session when a join phase is complete. A member that left sooner than a session after that did
  not expire, whatever it committed.
- A silence includes the join phase, in which members do not commit. That phase began, at the latest, when the first of
  the members that stayed stopped committing to join again.

If several members have to join again after a cooperative round, any of them may be the first, the leader or another
one. Confidences are judgements, not frequencies: they order the guesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kinds import changes as kinds_of_change
from groupledger.schemas.kinds import triggers
from groupledger.transforms.history.rules.events import SESSION_DEFAULT_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.schemas.kinds.changes import ChangeKind
    from groupledger.transforms.history.rules.changes import Change, Turnover
    from groupledger.transforms.history.rules.events import MemberFacts
    from groupledger.transforms.history.rules.state import OpenGroup, OpenOwnership, Tenure

TIMING_COMMITS_MIN = 2  # one commit has no interval
HEARTBEATS_PER_SESSION = 3  # at least, as the documentation of heartbeat.interval.ms asks for
_OF_A_REPLACEMENT = {kinds_of_change.MEMBER_REPLACED, kinds_of_change.LEADER_CHANGED, kinds_of_change.PROTOCOL_CHANGED}


@dataclass(frozen=True, slots=True)
class Guess:
    cause: triggers.Trigger
    confidence: float
    explanation: str

    @property
    def trigger(self) -> str:
        return self.cause.name


@dataclass(frozen=True, slots=True)
class Silence:
    """Says how long a member had not committed. `silence_ms` is that time when the join phase was complete, and
    `quiet_ms` is at most that time when the phase began.

    The phase is taken to begin one mean interval after the last commit of the member that stayed and stopped committing
    first, in order to join again. `cadence_ms` is the mean interval between commits in the member's busiest partition;
    None if unknown. `first_ms` is the shortest time from an assignment to the first commit, in partitions with a single
    commit.
    """

    silence_ms: int
    quiet_ms: float
    cadence_ms: float | None
    first_ms: int | None = None


def silences(group: OpenGroup, gone: Iterable[Tenure], moment_ms: int) -> dict[str, Silence | None]:
    """Returns, by member id, how long each member in `gone` had been silent when the join phase was complete, at
    `moment_ms`; None for a member that never committed.

    Reads the group's ownership only once, for all members.
    """
    found: dict[str, Silence | None] = {tenure.facts.member_id: None for tenure in gone}
    if not found:
        return {}
    times_ms: dict[str, int] = {}
    cadences: dict[str, float] = {}
    firsts: dict[str, int] = {}
    for owner, unit, interval in _owned(group.owners):
        committed = group.commits.get(unit)
        if committed is None or committed.last_ms is None or not committed.owner_commits:
            continue
        times_ms[owner] = max(committed.last_ms, times_ms.get(owner, 0))
        if committed.owner_commits >= TIMING_COMMITS_MIN:
            cadence_ms = (committed.last_ms - committed.owner_first_ms) / (committed.owner_commits - 1)
            cadences[owner] = min(cadence_ms, cadences.get(owner, cadence_ms))
        elif interval.is_start_known:
            first_ms = committed.last_ms - interval.valid_from_ms
            firsts[owner] = min(first_ms, firsts.get(owner, first_ms))
    stayed = [(times_ms[owner], cadence_ms) for owner, cadence_ms in cadences.items() if owner not in found]
    for owner in times_ms.keys() & found.keys():
        last_ms = times_ms[owner]
        silence_ms = max(0, moment_ms - last_ms)
        # A member that was silent before was idle, so its silence says nothing.
        begun_ms = (time_ms + rhythm_ms - last_ms for time_ms, rhythm_ms in stayed if time_ms > last_ms)
        quiet_ms = min((silence_ms, *begun_ms))
        found[owner] = Silence(silence_ms, quiet_ms, cadences.get(owner), firsts.get(owner))
    return found


def _owned(owners: Mapping[TopicPartition, OpenOwnership]) -> Iterable[tuple[str, TopicPartition, OpenOwnership]]:
    return ((owner, unit, interval) for unit, interval in owners.items() for owner in interval.owners)


def departure(facts: MemberFacts, silence: Silence | None, since_join_ms: int | None) -> Guess:
    """Returns the guess of why a member left. `silence` is None if it never committed. `since_join_ms` is the time from
    the end of the last join phase with the member to that of the first without it; None if unknown."""
    is_static = facts.group_instance_id is not None
    session_ms = _session_ms(facts)
    is_silent = silence is None or silence.silence_ms >= session_ms
    if is_silent and since_join_ms is not None and since_join_ms < _patience_ms(facts):
        explanation = f"last join {since_join_ms} ms before, session timeout {session_ms} ms"
        return Guess(triggers.ADMIN_REMOVED, 0.7, explanation) if is_static else Guess(triggers.LEFT, 0.9, explanation)
    if silence is None:
        if is_static:
            return Guess(
                triggers.SESSION_EXPIRED, 0.6, "a static member never committed; it does not leave when it closes"
            )
        return Guess(triggers.LEFT, 0.5, "the member never committed")
    explanation = f"last commit {silence.silence_ms} ms before, session timeout {session_ms} ms"
    if silence.cadence_ms is not None:
        explanation += f", mean interval of its commits {silence.cadence_ms:.0f} ms"
    if silence.silence_ms < session_ms:
        return _within_a_session(facts, silence, explanation)
    return _beyond_a_session(facts, silence, explanation)


def _session_ms(facts: MemberFacts) -> int:
    return SESSION_DEFAULT_MS if facts.session_timeout_ms is None else facts.session_timeout_ms


def _patience_ms(facts: MemberFacts) -> int:
    """Returns for how long after a join phase the coordinator removes no member that it does not hear."""
    timeout_ms = facts.rebalance_timeout_ms
    return min(_session_ms(facts), timeout_ms) if timeout_ms is not None and timeout_ms > 0 else _session_ms(facts)


def _beyond_a_session(facts: MemberFacts, silence: Silence, explanation: str) -> Guess:
    is_static = facts.group_instance_id is not None
    session_ms, poll_ms = _session_ms(facts), facts.rebalance_timeout_ms
    is_regular = silence.cadence_ms is not None and silence.cadence_ms <= session_ms
    if not is_regular:
        is_quick = silence.cadence_ms is None and silence.first_ms is not None and silence.first_ms <= session_ms
        if is_static or not is_quick:
            explanation += ", no faster rhythm of commits known"
            cause, confidence = (triggers.SESSION_EXPIRED, 0.7) if is_static else (triggers.LEFT, 0.5)
            return Guess(cause, confidence, explanation)
        explanation += f", its only commit {silence.first_ms} ms after the assignment"
    if not is_static and poll_ms is not None and session_ms < poll_ms <= silence.silence_ms:
        explanation += f", rebalance timeout {poll_ms} ms"
        return Guess(triggers.LEFT_POLL_TIMEOUT, 0.7 if is_regular else 0.5, explanation)
    return Guess(triggers.SESSION_EXPIRED, 0.85 if is_regular else 0.6, explanation)


def _within_a_session(facts: MemberFacts, silence: Silence, explanation: str) -> Guess:
    heartbeat_ms = _session_ms(facts) / HEARTBEATS_PER_SESSION
    is_regular = silence.cadence_ms is not None and silence.cadence_ms <= heartbeat_ms
    if is_regular and silence.quiet_ms >= _session_ms(facts) - heartbeat_ms:
        return Guess(triggers.SESSION_EXPIRED, 0.6, f"{explanation}; commits in transactions do not reset it")
    if facts.group_instance_id is not None:
        return Guess(triggers.ADMIN_REMOVED, 0.7, explanation)
    return Guess(triggers.LEFT, 0.95, explanation)


def infer(
    changes: Sequence[Change], members: Turnover, departures: Mapping[str, Guess], revokers: Sequence[str], leader: str
) -> Guess:
    """Returns the guess of what started a rebalance. `leader` and `revokers` are those of the previous generation, and
    `departures` has, by member id, why each member left."""
    kinds = {kinds_of_change.CHANGE_NAMED[change["kind"]] for change in changes}
    if kinds_of_change.GROUP_STARTED in kinds:
        return Guess(triggers.JOINED, 0.95, "the group's first members")
    if kinds_of_change.COOPERATIVE_FOLLOW_UP in kinds:
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
        return Guess(triggers.METADATA_CHANGED, certainty, explanation)
    if len(revokers) == 1:
        return Guess(triggers.LEADER_REJOINED, certainty, explanation)
    others = (len(revokers) - 1) / len(revokers)
    return Guess(triggers.METADATA_CHANGED, certainty * others, f"{explanation}, the leader among them")


def _by_membership(members: Turnover, departures: Mapping[str, Guess]) -> Guess:
    """Guesses by the departure that is known best; a member that came while another was silent came first."""
    gone = [departures[tenure.facts.member_id] for tenure in members.gone]
    came = len(members.joined) + len(members.restarted)
    if not gone:
        return Guess(triggers.JOINED, 0.9, f"members that joined: {came}; nobody went")
    best = max(gone, key=lambda guess: guess.confidence)
    numbers = f"members that went: {len(gone)}, that came: {came}; {best.explanation}"
    if came and best.cause == triggers.SESSION_EXPIRED:
        return Guess(triggers.JOINED, 0.6, numbers)
    is_mixed = bool(came) or len({guess.cause for guess in gone}) > 1
    return Guess(best.cause, 0.6 * best.confidence if is_mixed else best.confidence, numbers)


def _by_replacement(kinds: AbstractSet[ChangeKind]) -> Guess:
    """Guesses where members were only replaced: a static member comes back without a rebalance, unless the protocol
    changes with it."""
    if kinds_of_change.PROTOCOL_CHANGED in kinds:
        return Guess(triggers.PROTOCOL_CHANGED, 0.7, "a static member came back with other protocols")
    return Guess(
        triggers.ADMIN_REMOVED, 0.5, "a static member came back under a new id, and that alone starts no rebalance"
    )


def _by_metadata(changes: Sequence[Change], kinds: AbstractSet[ChangeKind], leader: str) -> Guess:
    """Guesses where no dynamic member came or went."""
    if kinds_of_change.SUBSCRIPTION_CHANGED in kinds:
        resubscribed = kinds_of_change.SUBSCRIPTION_CHANGED.name
        changed = [change["member_id"] for change in changes if change["kind"] == resubscribed]
        cause = triggers.LEADER_REJOINED if changed == [leader] else triggers.METADATA_CHANGED
        return Guess(cause, 0.8 if len(changed) == 1 else 0.5, f"subscriptions that changed: {len(changed)}")
    if kinds & {kinds_of_change.PARTITIONS_ADDED, kinds_of_change.TOPIC_DELETED}:
        return Guess(triggers.LEADER_REJOINED, 0.9, "the topics' partitions changed, which only the leader looks at")
    if kinds_of_change.PROTOCOL_CHANGED in kinds:
        return Guess(triggers.METADATA_CHANGED, 0.5, "the members chose another protocol")
    return Guess(triggers.LEADER_REJOINED, 0.5, "nobody came or went, and no subscription changed")
