"""Finds further facts about an incident, so that the clauses of its explanation (`schemas.kinds.clauses`) claim no more
than is known.

The group's type (`type_facts`) is that of the generation in force, or else its present type. A member was removed
before if its tenure had ended, or if its removal is in the same episode. A refused partition has another owner if an
owner with another member id is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.kinds.incidents import REBALANCE_STORM, REMOVALS
from groupledger.schemas.words import Evidence
from groupledger.transforms.history.rules.follow_ups import is_mere_follow_up
from groupledger.transforms.incidents.rules.facts import milliseconds
from groupledger.transforms.incidents.type_facts import facts_of_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from groupledger.transforms.incidents.rules.episodes import FoldedEpisode
    from groupledger.transforms.incidents.rules.facts import Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = Mapping[str, Any]

FACT_OF_EVIDENCE = {Evidence.INFERRED: Fact.INFERRED, Evidence.LOGGED: Fact.ONLY_LOGGED}
OF_MEMBERS = {kind.name for kind in CHANGE_KINDS if kind.is_known_from_members or kind.is_replacement}
LOG_AROUND_MS = 3_600_000  # a server log with a line about the group so near is there for the time in question


def known_facts(facts: GroupFacts, episode: FoldedEpisode, row: Row, rules: Rules) -> frozenset[str]:
    """Returns the facts about an incident of an episode, by name; `row` is its row without the explanation."""
    return frozenset(_known(facts, episode, row, rules))


def _known(facts: GroupFacts, episode: FoldedEpisode, row: Row, rules: Rules) -> Iterator[str]:
    yield from _kind_of_group(facts, milliseconds(row["first_seen_at"]))
    if row["evidence"] in FACT_OF_EVIDENCE:
        yield FACT_OF_EVIDENCE[row["evidence"]]
    if row["group_instance_id"] is not None:
        yield Fact.STATIC_MEMBER
    if _was_removed(facts, episode, row, rules):
        yield Fact.WAS_REMOVED
    owners = {each["owner_member_id"] for each in row["partitions"] if each["refused_offset"] is not None}
    if row["member_id"] is not None and owners - {None, row["member_id"]}:
        yield Fact.NEW_OWNER
    if _has_log(facts, episode):
        yield Fact.LOG_IMPORTED
    if row["kind"] == REBALANCE_STORM.name and _are_follow_ups(facts, row):
        yield Fact.FOLLOW_UPS
    if row["kind"] == REBALANCE_STORM.name and _stay_the_same(facts, row):
        yield Fact.SAME_MEMBERS
    for sighting in episode.sightings:
        if sighting.kind.name == row["kind"]:
            yield from sighting.known


def _kind_of_group(facts: GroupFacts, at_ms: int) -> Iterator[str]:
    last = facts.lookups.newest_generation(at_ms)
    of_generation = None if last is None else last.get("group_type")
    of_group = facts.groups[0].get("group_type") if facts.groups else None
    yield from facts_of_type(of_generation or of_group, last or {})


def _was_removed(facts: GroupFacts, episode: FoldedEpisode, row: Row, rules: Rules) -> bool:
    member_id, last_ms = row["member_id"], milliseconds(row["last_seen_at"])
    if member_id is None:
        return False
    of_log = any(each.kind in REMOVALS and each.member_id == member_id for each in episode.sightings)
    return of_log or any(
        tenure["left_at"] is not None and milliseconds(tenure["left_at"]) <= last_ms + rules.link_ms
        for tenure in facts.lookups.tenures.get(member_id, ())
    )


def _are_follow_ups(facts: GroupFacts, row: Row) -> bool:
    """Returns whether most of a storm's rebalances only follow up another one."""
    of_storm = [is_mere_follow_up({change["kind"] for change in each["changes"] or ()}) for each in _turns(facts, row)]
    return sum(of_storm) * 2 > len(of_storm)


def _stay_the_same(facts: GroupFacts, row: Row) -> bool:
    """Returns whether nobody came or went in most of a storm's rebalances."""
    of_storm = [
        each["changes"] is not None and not any(change["kind"] in OF_MEMBERS for change in each["changes"])
        for each in _turns(facts, row)
    ]
    return sum(of_storm) * 2 > len(of_storm)


def _turns(facts: GroupFacts, row: Row) -> Sequence[Row]:
    """Returns the rebalances of a storm."""
    return facts.lookups.rebalances.between(row["first_seen_at"], row["last_seen_at"])


def _has_log(facts: GroupFacts, episode: FoldedEpisode) -> bool:
    return facts.lookups.events.has_between(episode.first_ms - LOG_AROUND_MS, episode.last_ms + LOG_AROUND_MS)
