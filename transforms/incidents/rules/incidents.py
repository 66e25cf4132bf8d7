"""Turns the facts of a group into rows of `incidents`: dicts by column, without `cluster`, instants in microseconds.
Calls all rules and joins their results."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.incidents import (
    COMMITS,
    LEADER_NEVER_SYNCED,
    REBALANCE_IN_PROGRESS_COMMIT,
    REBALANCE_TIMEOUT_FENCED,
    REMOVALS,
    SESSION_EXPIRED,
    ZOMBIE_COMMIT_SUSPECTED,
)
from groupledger.schemas.kinds.triggers import LEFT
from groupledger.schemas.words import Evidence, Severity, words_of
from groupledger.transforms.incidents.rules.blameless import of_cluster, without_blame
from groupledger.transforms.incidents.rules.context import Context
from groupledger.transforms.incidents.rules.episodes import FoldedEpisode, episode_id, episodes, incident_id
from groupledger.transforms.incidents.rules.explain import explanation, setting_to_change
from groupledger.transforms.incidents.rules.inferred import closed_static_members, inferred
from groupledger.transforms.incidents.rules.known_facts import known_facts
from groupledger.transforms.incidents.rules.new_partitions import new_partitions
from groupledger.transforms.incidents.rules.observed import lasting_refusals, observed
from groupledger.transforms.incidents.rules.offset_losses import offset_losses
from groupledger.transforms.incidents.rules.patterns import patterns
from groupledger.transforms.incidents.rules.replayed import replayed
from groupledger.transforms.incidents.rules.retention_ahead import retention_ahead
from groupledger.transforms.incidents.rules.rewinds import rewinds
from groupledger.transforms.incidents.rules.roots import probable_root
from groupledger.transforms.incidents.rules.waiting import waiting
from groupledger.transforms.lookups import InOrder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.schemas.kinds.roots import Root
    from groupledger.transforms.incidents.rules.facts import Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.incidents.rules.sighting import Sighting

    Row = dict[str, Any]

_NO_LEAVES = (SESSION_EXPIRED, REBALANCE_TIMEOUT_FENCED, ZOMBIE_COMMIT_SUSPECTED)
PROOFS_MAX = 100  # a client that is refused all night has a hundred thousand


def incidents(facts: GroupFacts, rules: Rules) -> list[Row]:
    """Returns the rows of a group, in order of their episodes."""
    context = Context(facts)
    seen = [*observed(facts), *lasting_refusals(facts.requests, rules)]
    found = [*seen, *replayed(facts), *inferred(facts, rules), *patterns(facts, rules), *offset_losses(facts, rules)]
    found += [*rewinds(facts), *waiting(facts, rules), *new_partitions(facts), *retention_ahead(facts, rules)]
    kept = _without_refuted(found, facts, rules)
    blamed = [*without_blame(kept, facts), *of_cluster(facts)]
    sightings = _severities([context.completed(sighting) for sighting in blamed], facts, rules)
    expired = InOrder((each for each in sightings if each.kind == SESSION_EXPIRED), attrgetter("first_ms"))
    rows = []
    for episode in episodes(sightings, rules):
        root = probable_root(episode, facts, rules, expired)
        for kind, of_kind in episode.by_kind():
            rows.append(_incident(context, episode, kind, of_kind, root, rules))
    return rows


def _leaves(facts: GroupFacts) -> dict[str | None, list[int]]:
    """Returns when a member left, in either log; the id of a modern client comes back with it."""
    found: dict[str | None, list[int]] = defaultdict(list)
    for request in facts.requests:
        for each in request.leaving:
            if not each.error_code:
                found[each.member_id].append(request.happened_at_ms)
    for event in facts.events:
        if event.departure == LEFT:
            found[event.member_id].append(event.logged_at_ms)
    return found


def _without_refuted(sightings: Sequence[Sighting], facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Drops guesses that a log refutes.

    A removal is not guessed where a log shows another one, or that the member left; a zombie is not suspected where the
    request log has the member itself and the answer to its return, or has the group at that time: had a commit been
    refused, that would be seen.
    """
    spoke = {request.member_id for request in facts.requests}
    answered = {request.response_member_id for request in facts.requests}
    seen = {each.member_id for each in sightings if each.kind in REMOVALS and each.evidence != Evidence.INFERRED}
    leaves, refused = _leaves(facts), _refused_committers(facts)
    for sighting in sightings:
        if sighting.evidence == Evidence.INFERRED:
            if sighting.kind in REMOVALS and sighting.member_id in seen:
                continue
            left_at = () if sighting.member_id in seen else leaves.get(sighting.member_id, ())
            is_leave = any(abs(at_ms - sighting.first_ms) <= rules.link_ms for at_ms in left_at)
            if sighting.kind in _NO_LEAVES and is_leave:
                continue
            is_zombie = sighting.kind == ZOMBIE_COMMIT_SUSPECTED  # `detail` is the member that came back
            if is_zombie and sighting.member_id in spoke and sighting.detail in answered:
                continue
            is_logged = is_zombie and facts.lookups.requests.has_between(sighting.first_ms, sighting.last_ms)
            if is_logged and sighting.member_id not in refused:
                continue
        yield sighting


def _refused_committers(facts: GroupFacts) -> set[str | None]:
    """Returns the members with a commit that was refused."""
    return {each.member_id for each in facts.requests if each.api in COMMITS and each.error_code}


def _severities(sightings: Sequence[Sighting], facts: GroupFacts, rules: Rules) -> list[Sighting]:
    """Lowers the severity of an expiry to info where a static member that was closed leaves so: it alarms nobody."""
    expired = {each.member_id for each in sightings if each.kind == SESSION_EXPIRED}
    closed = closed_static_members(facts, rules, expired)
    return [
        replace(each, severity=Severity.INFO) if each.kind == SESSION_EXPIRED and each.member_id in closed else each
        for each in sightings
    ]


def _incident(
    context: Context,
    episode: FoldedEpisode,
    kind: IncidentKind,
    sightings: Sequence[Sighting],
    root: Root,
    rules: Rules,
) -> Row:
    first = sightings[0]
    last_ms = max(sighting.last_ms for sighting in sightings)
    stale_since = context.stale_since(first)
    partitions = _partitions(context, sightings, stale_since)
    low, high = first.duplicates if kind.error_code is None else _duplicates(context, kind, partitions)
    episode_key = episode_id(context.facts.group_id, episode)
    proofs = dict.fromkeys(proof for sighting in sightings for proof in sighting.proofs)
    row: Row = {
        "incident_id": incident_id(context.facts.group_id, episode, kind),
        "episode_id": episode_key,
        "kind": kind.name,
        "severity": max((sighting.severity for sighting in sightings), key=words_of(Severity).index),
        "evidence": first.evidence,
        "confidence": max(sighting.confidence for sighting in sightings),
        "is_ambiguous": any(sighting.is_ambiguous for sighting in sightings),
        "group_id": context.facts.group_id,
        "incarnation": first.incarnation,
        "claimed_generation": first.claimed_generation,
        "current_generation": first.current_generation,
        "member_id": first.member_id,
        "group_instance_id": first.group_instance_id,
        "client_id": first.client_id,
        "client_host": first.client_host,
        "partitions": partitions,
        "stale_since_generation": None if stale_since is None else stale_since["to_generation"],
        "probable_root": root.name,
        "duplicates_min": low,
        "duplicates_max": high,
        "never_read_max": first.never_read,
        "first_seen_at": first.first_ms * 1_000,
        "last_seen_at": last_ms * 1_000,
        "occurrences": len({sighting.happening for sighting in sightings}),
        "is_open": context.facts.as_of_ms - last_ms < rules.open_ms and not _is_over(context.facts, kind, sightings),
        "proofs": [{"table_name": proof.table_name, "row_key": proof.row_key} for proof in list(proofs)[:PROOFS_MAX]],
    }
    known = known_facts(context.facts, episode, row, rules)
    row["explanation"] = explanation(kind, root, row, first.detail, known)
    row["setting_to_change"] = setting_to_change(kind, root, known)
    return row


def _is_over(facts: GroupFacts, kind: IncidentKind, sightings: Sequence[Sighting]) -> bool:
    """Returns whether an incident can't go on: a generation without a record is over once a later one has a record.
    Many of them, or one that lost its leader, may go on."""
    if kind != LEADER_NEVER_SYNCED or any(sighting.severity != Severity.INFO for sighting in sightings):
        return False
    first_us = min(sighting.first_ms for sighting in sightings) * 1_000
    last = max(sighting.current_generation or 0 for sighting in sightings)
    later = facts.lookups.generations_in_time.onward(first_us)
    return any((row["generation"] or 0) >= last for row in later)


def _partitions(context: Context, sightings: Sequence[Sighting], stale_since: Row | None) -> list[Row]:
    highest: dict[TopicPartition, int | None] = {}
    for sighting in sightings:
        for place, offset in sighting.offsets:
            known = highest.get(place)
            highest[place] = offset if known is None else known if offset is None else max(known, offset)
    first = min(sightings, key=attrgetter("first_ms"))
    rows = []
    for (topic, partition), offset in sorted(highest.items()):
        place = TopicPartition(topic, partition)
        owner = context.owner(place)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "refused_offset": offset,
                "last_accepted_offset": context.accepted_before(place, first, stale_since),
                "owner_member_id": owner and owner["member_id"],
                "owner_client_id": owner and owner["client_id"],
            }
        )
    return rows


def _duplicates(context: Context, kind: IncidentKind, partitions: Sequence[Row]) -> tuple[int | None, int | None]:
    """Returns how many records were processed twice because of a refused commit, at least and at most.

    At most: the records from the last accepted commit to the refused one. At least: those that somebody else has
    committed meanwhile.
    """
    bounds = [
        (
            each["last_accepted_offset"],
            each["refused_offset"],
            context.newest_commit(TopicPartition(each["topic"], each["partition"])),
        )
        for each in partitions
        if each["last_accepted_offset"] is not None and each["refused_offset"] is not None
    ]
    if not bounds:
        return None, None
    high = sum(max(refused - accepted, 0) for accepted, refused, _ in bounds)
    if kind == REBALANCE_IN_PROGRESS_COMMIT:
        return 0, high  # the member itself may go on, and commit it
    return sum(max(min(refused, newest or 0) - accepted, 0) for accepted, refused, newest in bounds), high
