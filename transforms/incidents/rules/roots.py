"""Determines the probable root of an episode, which is what began it.

A client that exceeds its poll interval leaves by itself: Java's client gives the reason; librdkafka gives none, but
continues to commit as the member that has just left. A client that closes for good sends no further requests. A member
that did not leave and is unknown has either run out its session, or its coordinator has lost it. A failover loses all
state that has no record, so it is the root if the coordinator was away shortly before and no session is known to have
run out. A static member that is fenced then, though nobody joined under its instance id, is known to the new
coordinator by an older id. Several members at different addresses that expire at once were cut off, rather than all
paused at the same moment. A classic group counts no join as a heartbeat while it waits for its leader's assignment: a
member that joined again in the later half of that wait, and was then removed for its silence, was not silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kinds import roots
from groupledger.schemas.kinds.incidents import (
    FENCED_INSTANCE,
    FENCED_MEMBER_EPOCH,
    ILLEGAL_GENERATION,
    INCIDENT_KINDS,
    LEADER_NEVER_SYNCED,
    POLL_TIMEOUT,
    REBALANCE_TIMEOUT_FENCED,
    REFUSALS,
    SESSION_EXPIRED,
    UNKNOWN_MEMBER,
)
from groupledger.transforms.incidents.rules.facts import milliseconds

if TYPE_CHECKING:
    from groupledger.schemas.kinds.roots import Root
    from groupledger.transforms.incidents.rules.episodes import FoldedEpisode
    from groupledger.transforms.incidents.rules.facts import Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.incidents.rules.sighting import Sighting
    from groupledger.transforms.lookups import InOrder

AT_ONCE_MS = 5_000


def probable_root(episode: FoldedEpisode, facts: GroupFacts, rules: Rules, expired: InOrder[Sighting]) -> Root:
    """Returns the probable root of an episode; `expired` are all sightings of expired sessions in the group, by their
    beginnings."""
    kinds = episode.kinds
    if kinds & {POLL_TIMEOUT, REBALANCE_TIMEOUT_FENCED}:
        return roots.POLL_TIMEOUT_EXCEEDED
    if FENCED_INSTANCE in kinds:
        is_old = _coordinator_was_away(episode, facts, rules) and not _joined_again(episode, facts, rules)
        return roots.COORDINATOR_FAILOVER if is_old else roots.INSTANCE_STARTED_TWICE
    if SESSION_EXPIRED in kinds and _kept_joining(episode, facts):
        return roots.LEADER_SENDS_NO_ASSIGNMENT
    if SESSION_EXPIRED in kinds:
        return roots.NETWORK if _were_cut_off(episode, expired) else roots.SESSION_EXPIRED
    if kinds & {UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED_MEMBER_EPOCH}:
        return _of_refusals(episode, facts, rules)
    stated = (sighting.root for sighting in episode.sightings if sighting.root is not None)
    by_kind = (kind.root for kind in INCIDENT_KINDS if kind in kinds and kind.root is not None)
    return next(stated, None) or next(by_kind, roots.UNKNOWN)


def _kept_joining(episode: FoldedEpisode, facts: GroupFacts) -> bool:
    """Returns whether most of the members whose session ran out joined again while the group waited for its leader's
    assignment, also in the later half of that wait."""
    expired = {each.member_id for each in episode.sightings if each.kind == SESSION_EXPIRED}
    waits = [each for each in episode.sightings if each.kind == LEADER_NEVER_SYNCED and each.member_id in expired]
    joins = facts.lookups.joins
    spoke = {
        wait.member_id
        for wait in waits
        if wait.member_id in joins
        and joins[wait.member_id].has_between((wait.first_ms + wait.last_ms) // 2, wait.last_ms)
    }
    return 2 * len(spoke) > len(expired)


def _were_cut_off(episode: FoldedEpisode, expired: InOrder[Sighting]) -> bool:
    mine = [each for each in episode.sightings if each.kind == SESSION_EXPIRED]
    return any(
        other.client_host != each.client_host
        for each in mine
        for other in expired.between(each.first_ms - AT_ONCE_MS, each.first_ms + AT_ONCE_MS)
        if each.client_host is not None and other.client_host is not None and other.evidence == each.evidence
    )


def _of_refusals(episode: FoldedEpisode, facts: GroupFacts, rules: Rules) -> Root:
    if _left_by_itself(episode, facts):
        return roots.POLL_TIMEOUT_EXCEEDED
    if _coordinator_was_away(episode, facts, rules):
        return roots.COORDINATOR_FAILOVER
    return roots.UNKNOWN if UNKNOWN_MEMBER in episode.kinds else roots.STALE_GENERATION_KEPT


def _coordinator_was_away(episode: FoldedEpisode, facts: GroupFacts, rules: Rules) -> bool:
    """Returns whether the coordinator was away or moved shortly before, while the refused members were there."""
    since_ms = max(episode.first_ms - rules.link_ms, _first_joined_ms(episode, facts))
    last_ms, lookups = episode.last_ms, facts.lookups
    return lookups.away.has_between(since_ms, last_ms) or lookups.moves.has_between(since_ms, last_ms)


def _first_joined_ms(episode: FoldedEpisode, facts: GroupFacts) -> int:
    """Returns when the first of the refused members joined, or 0 if that is not known. An absence of the coordinator
    before that has lost nothing of theirs: a broker that has just started is no failover."""
    refused = {each.member_id for each in episode.sightings if each.kind in REFUSALS}
    theirs = [row for member_id in refused for row in facts.lookups.tenures.get(member_id, ())]
    is_known = {row["member_id"] for row in theirs} == refused and all(row["is_start_known"] for row in theirs)
    return min((milliseconds(row["joined_at"]) for row in theirs), default=0) if is_known else 0


def _joined_again(episode: FoldedEpisode, facts: GroupFacts, rules: Rules) -> bool:
    """Returns whether somebody is known to have joined under the instance id of one that was fenced."""
    fenced = {each.group_instance_id for each in episode.sightings if each.kind == FENCED_INSTANCE}
    since_ms, joins = episode.first_ms - rules.link_ms, facts.lookups.instance_joins
    return any(joins[name].has_between(since_ms, episode.last_ms) for name in fenced if name in joins)


def _left_by_itself(episode: FoldedEpisode, facts: GroupFacts) -> bool:
    members = {each.member_id for each in episode.sightings if each.kind == UNKNOWN_MEMBER}
    return any(
        request.happened_at_ms <= episode.first_ms
        for member_id in members - {None}
        for request, _ in facts.lookups.leaves.get(member_id, ())
    )
