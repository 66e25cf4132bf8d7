"""Groups sightings into episodes. An episode has the sightings that one cause brought about, and gives one incident for
each kind.

Sightings belong together if they are about

- the same member in the same generation, however far apart: a process that wakes in the morning is refused for what
  happened in the evening;
- the same member, or the same process under another member id (its instance id; or its client id and address), if they
  are at most `link_ms` apart: a woken client joins anew, and commits once more under its new id;
- a generation without a record, and a member that was removed in it;
- a storm, and a member that flapped in it;
- one fault of a coordinator, in all groups that it hit.

Only the strongest evidence for a kind counts, and only its rows are the incident's proofs. An episode's id is a hash of
what its first sighting is about, and of its time where that may come again. An incident's id is a hash of its episode's
id and its kind.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.incidents import (
    COMMIT_AHEAD_OF_END,
    LEADER_NEVER_SYNCED,
    MEMBER_FLAPPING,
    OPEN_TRANSACTION_IN_TOPIC,
    REMOVALS,
    ZOMBIE_COORDINATOR,
)
from groupledger.schemas.words import Evidence, words_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules.facts import Rules
    from groupledger.transforms.incidents.rules.sighting import Sighting

EVIDENCE_ORDER = words_of(Evidence)
COME_AGAIN = frozenset(
    {LEADER_NEVER_SYNCED, MEMBER_FLAPPING, ZOMBIE_COORDINATOR, OPEN_TRANSACTION_IN_TOPIC, COMMIT_AHEAD_OF_END}
)
"""Kinds of which a group may have the same `happening` at different times."""
_ID_CHARACTERS = 32


@dataclass(slots=True)
class FoldedEpisode:
    """The sightings of an episode, in order. `name` is what its first sighting is about, which no other episode of the
    group has."""

    sightings: list[Sighting] = field(default_factory=list)
    name: tuple[str | int | None, ...] = ()

    @property
    def first(self) -> Sighting:
        return self.sightings[0]

    @property
    def first_ms(self) -> int:
        return self.first.first_ms

    @property
    def last_ms(self) -> int:
        return max(sighting.last_ms for sighting in self.sightings)

    @property
    def shared(self) -> str | None:
        """Returns the episode's name in all groups that share it; None for an episode of one group alone."""
        return next((each.shared_episode for each in self.sightings if each.shared_episode is not None), None)

    @property
    def kinds(self) -> set[IncidentKind]:
        return {sighting.kind for sighting in self.sightings}

    def by_kind(self) -> Iterator[tuple[IncidentKind, list[Sighting]]]:
        """Yields each kind of incident in the episode with its sightings, but only those with the strongest evidence
        for the kind."""
        kinds: dict[IncidentKind, list[Sighting]] = defaultdict(list)
        for sighting in self.sightings:
            kinds[sighting.kind].append(sighting)
        for kind, sightings in kinds.items():
            best = min((sighting.evidence for sighting in sightings), key=EVIDENCE_ORDER.index)
            yield kind, [sighting for sighting in sightings if sighting.evidence == best]


class _Links:
    """Knows which sightings belong together: a forest in which each sighting points to one that it was joined to."""

    def __init__(self, sightings: Sequence[Sighting], rules: Rules) -> None:
        self.joined = list(range(len(sightings)))
        self._sightings = sightings
        self._link_ms = rules.link_ms
        self._last: dict[Hashable, int] = {}

    def root(self, number: int) -> int:
        while self.joined[number] != number:
            self.joined[number] = number = self.joined[self.joined[number]]
        return number

    def join(self, number: int, key: Hashable, *, is_timeless: bool = False) -> None:
        """Joins a sighting with the last one of the same key, if it is near enough."""
        before = self._last.get(key)
        if before is None:
            self._last[key] = number
            return
        sighting, other = self._sightings[number], self._sightings[before]
        if is_timeless or sighting.first_ms - other.last_ms <= self._link_ms:
            self.unite(number, before)
        if sighting.last_ms >= other.last_ms:
            self._last[key] = number

    def unite(self, number: int, other: int) -> None:
        self.joined[self.root(number)] = self.root(other)


def episodes(sightings: Iterable[Sighting], rules: Rules) -> list[FoldedEpisode]:
    """Returns the episodes, in order of their beginnings."""
    ordered = sorted(sightings, key=_order)
    links = _Links(ordered, rules)
    for number, sighting in enumerate(ordered):
        for key in _subjects(sighting):
            links.join(number, key, is_timeless=sighting.shared_episode is not None)
        if (
            sighting.shared_episode is None
            and sighting.member_id is not None
            and sighting.claimed_generation is not None
        ):
            links.join(number, ("member", sighting.member_id, sighting.claimed_generation), is_timeless=True)
    _join_unsynced_generations(ordered, links)
    found: dict[int, FoldedEpisode] = {}
    for number, sighting in enumerate(ordered):
        found.setdefault(links.root(number), FoldedEpisode()).sightings.append(sighting)
    in_order = sorted(found.values(), key=lambda episode: _order(episode.first))
    used: set[tuple[str | int | None, ...]] = set()
    for episode in in_order:
        episode.name = next(name for name in _names(episode.first) if name not in used)
        used.add(episode.name)
    return in_order


def _names(first: Sighting) -> Iterator[tuple[str | int | None, ...]]:
    """Yields names for the episode with this first sighting: longer ones, if an earlier episode has the one before. The
    first one can hardly be that of another episode, since the earlier episodes are not always known."""
    name: tuple[str | int | None, ...] = (first.kind.name, first.happening)
    if first.member_id is not None:
        name = ("member", first.member_id, first.claimed_generation)
        if first.claimed_generation is not None:  # else all of its episodes would have the name
            yield name
        name = (*name, first.happening)
    elif first.kind in COME_AGAIN:
        name = (*name, first.first_ms)
    yield name
    yield from ((*name, first.first_ms, number) for number in count())


def _order(sighting: Sighting) -> tuple[int, str, str, str]:
    return sighting.first_ms, sighting.kind.name, sighting.happening, sighting.evidence


def _subjects(sighting: Sighting) -> Iterator[Hashable]:
    if sighting.shared_episode is not None:
        yield "shared", sighting.shared_episode
        return
    if sighting.kind.is_pattern:
        yield "pattern"
        return
    if sighting.member_id is not None:
        yield "member", sighting.member_id
    if sighting.group_instance_id is not None:
        yield "instance", sighting.group_instance_id
    elif sighting.client_id is not None and sighting.client_host is not None:
        yield "client", sighting.client_id, sighting.client_host


def _join_unsynced_generations(ordered: Sequence[Sighting], links: _Links) -> None:
    """Joins each generation without a record to a removal from the one before: that of the leader it waited for."""
    removals: dict[tuple[int | None, int | None], int] = {
        (sighting.incarnation, sighting.claimed_generation): number
        for number, sighting in enumerate(ordered)
        if sighting.kind in REMOVALS and sighting.claimed_generation is not None
    }
    for number, sighting in enumerate(ordered):
        removal = removals.get((sighting.incarnation, sighting.claimed_generation))
        if sighting.kind == LEADER_NEVER_SYNCED and removal is not None:
            links.unite(number, removal)


def episode_id(group_id: str | None, episode: FoldedEpisode) -> str:
    if episode.shared is not None:
        return _hashed("shared", episode.shared)
    return _hashed(group_id, *episode.name)


def incident_id(group_id: str | None, episode: FoldedEpisode, kind: IncidentKind) -> str:
    shared_by = [group_id] if episode.shared is not None else []
    return _hashed(episode_id(group_id, episode), kind.name, *shared_by)


def _hashed(*parts: str | int | None) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()[:_ID_CHARACTERS]
