"""The open state of a group: all that the fold remembers between two batches, and its JSON form for `open_groups`.

It is as large as the group is now, never as its history is long: the present members, owners and committed partitions,
the generation and the rebalance whose rows may still change. In JSON, lists of topics and intervals that many members
or partitions share are written once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.history.rules.events import MemberFacts, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FORMAT = 2
_SCALARS = (
    "group_id",
    "kafka_partition",
    "first_kafka_offset",
    "last_kafka_offset",
    "record_offset",
    "coverage_offset",
    "completeness",
    "is_state_known",
    "incarnation",
    "is_alive",
    "group_type",
    "number",
    "first_seen_ms",
    "last_seen_ms",
    "last_commit_ms",
    "last_memberless_commit_ms",
    "universe",
    "revokers",
    "cause_generation",
)


@dataclass(slots=True)
class Generation:
    """The newest generation row; `ended_by` is None while it is open."""

    generation: int
    revision: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    kafka_offset: int
    started_at_ms: int
    current_state_timestamp_ms: int | None
    generation_gap: int | None
    is_start_known: bool
    is_ownership_known: bool
    member_count: int
    owned_count: int
    changes: list[dict[str, Any]] | None = None
    finding: str | None = None
    ended_by: str | None = None


@dataclass(slots=True)
class Tenure:
    """A present member, and since when it is one."""

    facts: MemberFacts
    from_generation: int
    from_offset: int
    joined_at_ms: int
    is_start_known: bool


@dataclass(slots=True)
class Interval:
    """An open ownership interval."""

    owners: tuple[str, ...]
    from_generation: int
    from_offset: int
    valid_from_ms: int
    is_start_known: bool


@dataclass(slots=True)
class PartitionCommits:
    """The newest commit of a partition, and how often its present owner has committed it: `owner_commits` of them
    since `owner_first_ms`. `last_ms` is None where a hole in coverage may hide newer ones."""

    last_ms: int | None
    committed_offset: int
    owner_first_ms: int = 0
    owner_commits: int = 0


@dataclass(slots=True)
class Watch:
    """A partition that a rebalance stopped: the commit before it, and the first one after."""

    last_ms: int
    committed_before: int
    first_ms: int | None = None
    committed_after: int | None = None


@dataclass(slots=True)
class OpenRebalance:
    """The newest rebalance: its row but for the pauses, and the commits that still have to bound these."""

    row: dict[str, Any]
    last_commit_ms: int | None
    watched: dict[Unit, Watch]
    first_commit_ms: int | None = None
    is_dirty: bool = True  # its row must be written; never stored


@dataclass(slots=True)
class Ending:
    """The group's tombstone, as long as the next record may show that it was a conversion to another type."""

    kafka_offset: int
    kafka_timestamp_ms: int
    is_known: bool


@dataclass(slots=True)
class OpenGroup:
    """`number` is the last generation or epoch of this life. `is_state_known`: nothing about the group was missed since
    its last record. `record_offset` is that of the last group-level event. `pending` are units that nobody owns now,
    with whom they were taken from; `revokers` the members who have to join again for it."""

    group_id: str
    kafka_partition: int
    first_kafka_offset: int | None = None
    last_kafka_offset: int = -1
    record_offset: int = -1
    coverage_offset: int = -1
    completeness: str = Completeness.UNKNOWN
    is_state_known: bool = False
    incarnation: int = 0
    is_alive: bool = False
    group_type: str = GroupType.CLASSIC
    number: int | None = None
    first_seen_ms: int | None = None
    last_seen_ms: int | None = None
    last_commit_ms: int | None = None
    last_memberless_commit_ms: int | None = None
    universe: dict[str, int] = field(default_factory=dict)
    revokers: list[str] = field(default_factory=list)
    cause_generation: int | None = None
    ending: Ending | None = None
    generation: Generation | None = None
    members: dict[str, Tenure] = field(default_factory=dict)
    owners: dict[Unit, Interval] = field(default_factory=dict)
    pending: dict[Unit, str] = field(default_factory=dict)
    commits: dict[Unit, PartitionCommits] = field(default_factory=dict)
    rebalance: OpenRebalance | None = None


def dump(group: OpenGroup) -> str:
    topic_lists: dict[tuple[str, ...] | None, int] = {}
    members = []
    for tenure in group.members.values():
        facts = _values(tenure.facts)
        facts[_TOPICS] = topic_lists.setdefault(tenure.facts.topics, len(topic_lists))
        members.append([facts, *_values(tenure)[1:]])
    packed = {name: getattr(group, name) for name in _SCALARS} | {
        "format": FORMAT,
        "ending": group.ending and _values(group.ending),
        "generation": group.generation and _values(group.generation),
        "topic_lists": list(topic_lists),
        "members": members,
        "owners": _pack_shared((unit, tuple(_values(interval))) for unit, interval in group.owners.items()),
        "pending": _pack_shared(group.pending.items()),
        "commits": _pack(group.commits),
        "rebalance": group.rebalance and _pack_rebalance(group.rebalance),
    }
    return json.dumps(packed, separators=(",", ":"))


def load(text: str) -> OpenGroup:
    packed = json.loads(text)
    if packed["format"] != FORMAT:
        raise ValueError(f"open state of format {packed['format']}, not {FORMAT}: rebuild the history tables")
    group = OpenGroup(**{name: packed[name] for name in _SCALARS})
    group.ending = packed["ending"] and Ending(*packed["ending"])
    group.generation = packed["generation"] and Generation(*packed["generation"])
    topic_lists = [topics if topics is None else tuple(topics) for topics in packed["topic_lists"]]
    for facts, *since in packed["members"]:
        facts[_TOPICS] = topic_lists[facts[_TOPICS]]
        group.members[facts[0]] = Tenure(MemberFacts(*facts), *since)
    for unit, (owners, *since) in _unpack_shared(packed["owners"]):
        group.owners[unit] = Interval(tuple(owners), *since)
    group.pending = dict(_unpack_shared(packed["pending"]))
    group.commits = {unit: PartitionCommits(*values) for unit, values in _unpack(packed["commits"])}
    group.rebalance = packed["rebalance"] and _unpack_rebalance(packed["rebalance"])
    return group


_TOPICS = [each.name for each in fields(MemberFacts)].index("topics")


def _values(record: Any) -> list[Any]:
    """The fields of a dataclass of several; `astuple` would copy what is inside."""
    return list(_GETTERS[type(record)](record))


_GETTERS: dict[type[Any], attrgetter[Any]] = {
    kind: attrgetter(*(each.name for each in fields(kind)))
    for kind in (MemberFacts, Generation, Tenure, Interval, PartitionCommits, Watch, Ending)
}


def _pack(by_unit: Mapping[Unit, Any]) -> dict[str, list[list[Any]]]:
    """By topic, a list of [partition, fields]; sorted, so that equal states are equal texts."""
    packed: dict[str, list[list[Any]]] = {}
    for (name, number), record in sorted(by_unit.items(), key=itemgetter(0)):
        packed.setdefault(name, []).append([number, *_values(record)])
    return packed


def _unpack(packed: Mapping[str, list[list[Any]]]) -> Iterable[tuple[Unit, list[Any]]]:
    return (((name, number), values) for name, rows in packed.items() for number, *values in rows)


def _pack_shared(pairs: Iterable[tuple[Unit, Any]]) -> list[tuple[Any, dict[str, list[int]]]]:
    """Each value once, with its units by topic."""
    packed: dict[Any, dict[str, list[int]]] = {}
    for (name, number), value in sorted(pairs, key=itemgetter(0)):
        packed.setdefault(value, {}).setdefault(name, []).append(number)
    return list(packed.items())


def _unpack_shared(packed: list[tuple[Any, dict[str, list[int]]]]) -> Iterable[tuple[Unit, Any]]:
    return (((name, number), value) for value, units in packed for name, numbers in units.items() for number in numbers)


def _pack_rebalance(rebalance: OpenRebalance) -> list[Any]:
    return [rebalance.row, rebalance.last_commit_ms, _pack(rebalance.watched), rebalance.first_commit_ms]


def _unpack_rebalance(packed: list[Any]) -> OpenRebalance:
    row, last_commit_ms, watched, first_commit_ms = packed
    units = {unit: Watch(*values) for unit, values in _unpack(watched)}
    return OpenRebalance(row, last_commit_ms, units, first_commit_ms, is_dirty=False)
