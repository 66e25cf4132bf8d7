"""What probably began an episode.

Past the poll interval a client leaves by itself: Java's says why, librdkafka's says nothing, but goes on to commit as
the member that it has just declared gone. Who closes for good asks nothing more. A member that did not leave and is
unknown has run out its session, or its coordinator has lost it: a failover takes back what no record holds, so it
counts if the coordinator was away shortly before, and no session is known to have run out. Several members at different
addresses that expire at once were cut off, rather than paused, all at the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.transforms.incidents.rules.sighting import (
    COMMIT_GAP,
    COORDINATOR_AWAY,
    FENCED_INSTANCE,
    FENCED_MEMBER_EPOCH,
    ILLEGAL_GENERATION,
    LEADER_NEVER_SYNCED,
    MEMBER_FLAPPING,
    POLL_TIMEOUT,
    REBALANCE_IN_PROGRESS_COMMIT,
    REBALANCE_STORM,
    STALE_MEMBER_EPOCH,
    STALLED_TRANSACTION,
    STATIC_SUBSCRIPTION_IGNORED,
    UNKNOWN_MEMBER,
)

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules.episodes import Episode
    from groupledger.transforms.incidents.rules.facts import GroupFacts, Rules
    from groupledger.transforms.incidents.rules.sighting import Sighting

POLL_TIMEOUT_EXCEEDED = "poll_timeout_exceeded"
SESSION_EXPIRED = "session_expired"
NETWORK = "network"
RESTART = "restart"
COORDINATOR_FAILOVER = "coordinator_failover"
INSTANCE_STARTED_TWICE = "instance_started_twice"
STALE_GENERATION_KEPT = "stale_generation_kept"
REBALANCE = "rebalance"
UNKNOWN = "unknown"

AT_ONCE_MS = 5_000

# Where the kind itself says it, in the order in which an episode is asked.
_ROOT_OF_KIND = (
    (STALE_MEMBER_EPOCH, STALE_GENERATION_KEPT),
    (STATIC_SUBSCRIPTION_IGNORED, RESTART),
    (REBALANCE_STORM, REBALANCE),
    (MEMBER_FLAPPING, RESTART),
    (LEADER_NEVER_SYNCED, REBALANCE),
    (STALLED_TRANSACTION, "transaction_not_ended"),
    (REBALANCE_IN_PROGRESS_COMMIT, REBALANCE),
    (COMMIT_GAP, "commits_stopped"),
)


def probable_root(episode: Episode, facts: GroupFacts, rules: Rules, expired: list[Sighting]) -> str:
    """`expired` are all sightings of expired sessions in the group."""
    kinds = episode.kinds
    if POLL_TIMEOUT in kinds:
        return POLL_TIMEOUT_EXCEEDED
    if FENCED_INSTANCE in kinds:
        return INSTANCE_STARTED_TWICE
    if SESSION_EXPIRED in kinds:
        return NETWORK if _were_cut_off(episode, expired) else SESSION_EXPIRED
    if kinds & {UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED_MEMBER_EPOCH}:
        return _of_refusals(episode, facts, rules)
    stated = (sighting.root for sighting in episode.sightings if sighting.root is not None)
    by_kind = (root for kind, root in _ROOT_OF_KIND if kind in kinds)
    return next(stated, None) or next(by_kind, UNKNOWN)


def _were_cut_off(episode: Episode, expired: list[Sighting]) -> bool:
    mine = [each for each in episode.sightings if each.kind == SESSION_EXPIRED]
    return any(
        other.client_host != each.client_host and abs(other.first_ms - each.first_ms) <= AT_ONCE_MS
        for each in mine
        for other in expired
        if each.client_host is not None and other.client_host is not None and other.evidence == each.evidence
    )


def _of_refusals(episode: Episode, facts: GroupFacts, rules: Rules) -> str:
    if _left_by_itself(episode, facts):
        return POLL_TIMEOUT_EXCEEDED
    since_ms = episode.first_ms - rules.link_ms
    was_away = any(
        request.error_code in COORDINATOR_AWAY and since_ms <= request.happened_at_ms <= episode.last_ms
        for request in facts.requests
    )
    was_loaded = any(
        event.kind in ("group_loaded", "group_unloaded") and since_ms <= event.logged_at_ms <= episode.last_ms
        for event in facts.events
    )
    if was_away or was_loaded:
        return COORDINATOR_FAILOVER
    return UNKNOWN if UNKNOWN_MEMBER in episode.kinds else STALE_GENERATION_KEPT


def _left_by_itself(episode: Episode, facts: GroupFacts) -> bool:
    members = {each.member_id for each in episode.sightings if each.kind == UNKNOWN_MEMBER}
    return any(
        leaving.member_id in members and request.happened_at_ms <= episode.first_ms
        for request in facts.requests
        for leaving in request.leaving
    )
