"""Finds what is known of an incident beside its row, so that its clauses (`schemas.kinds.clauses`) claim no more.

The group's type is that of its generation in force, or else of the group now: advice has to fit what the group is. A
member was removed before if its tenure had ended, or if a removal of it is in the same episode. The owner of a refused
partition is another one if it is known, and has another member id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.kinds.incidents import REMOVALS
from groupledger.schemas.words import Evidence, GroupType
from groupledger.transforms.incidents.rules.inferred import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from groupledger.transforms.incidents.rules.episodes import Episode
    from groupledger.transforms.incidents.rules.facts import GroupFacts, Rules

    Row = Mapping[str, Any]

FACT_OF_TYPE = {
    GroupType.CLASSIC: Fact.CLASSIC_GROUP,
    GroupType.CONSUMER: Fact.CONSUMER_GROUP,
    GroupType.SHARE: Fact.SHARE_GROUP,
    GroupType.STREAMS: Fact.STREAMS_GROUP,
}
LOG_AROUND_MS = 3_600_000  # a server log with a line about the group so near is there for the time in question


def known_facts(facts: GroupFacts, episode: Episode, row: Row, rules: Rules) -> frozenset[str]:
    """Returns the facts about an incident of an episode; `row` is its row without the explanation."""
    return frozenset(_known(facts, episode, row, rules))


def _known(facts: GroupFacts, episode: Episode, row: Row, rules: Rules) -> Iterator[str]:
    group_type = _group_type(facts, milliseconds(row["first_seen_at"]))
    if group_type is not None:
        yield FACT_OF_TYPE[group_type]
    if row["evidence"] == Evidence.INFERRED:
        yield Fact.INFERRED
    if row["group_instance_id"] is not None:
        yield Fact.STATIC_MEMBER
    if _was_removed(facts, episode, row, rules):
        yield Fact.WAS_REMOVED
    owners = {each["owner_member_id"] for each in row["partitions"] if each["refused_offset"] is not None}
    if row["member_id"] is not None and owners - {None, row["member_id"]}:
        yield Fact.NEW_OWNER
    if _has_log(facts, episode):
        yield Fact.LOG_IMPORTED
    for sighting in episode.sightings:
        if sighting.kind.name == row["kind"]:
            yield from sighting.known


def _group_type(facts: GroupFacts, at_ms: int) -> str | None:
    begun = [row for row in facts.generations if milliseconds(row["started_at"]) <= at_ms]
    last = max(begun, key=lambda row: row["kafka_offset"], default=None)
    of_generation = None if last is None else last.get("group_type")
    of_group = facts.groups[0].get("group_type") if facts.groups else None
    found = of_generation or of_group
    return found if found in FACT_OF_TYPE else None


def _was_removed(facts: GroupFacts, episode: Episode, row: Row, rules: Rules) -> bool:
    member_id, last_ms = row["member_id"], milliseconds(row["last_seen_at"])
    if member_id is None:
        return False
    of_log = any(each.kind in REMOVALS and each.member_id == member_id for each in episode.sightings)
    return of_log or any(
        tenure["left_at"] is not None and milliseconds(tenure["left_at"]) <= last_ms + rules.link_ms
        for tenure in facts.members
        if tenure["member_id"] == member_id
    )


def _has_log(facts: GroupFacts, episode: Episode) -> bool:
    first_ms, last_ms = episode.first_ms - LOG_AROUND_MS, episode.last_ms + LOG_AROUND_MS
    return any(first_ms <= event.logged_at_ms <= last_ms for event in facts.events)
