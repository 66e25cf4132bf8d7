"""Defines the open state of a group, which is stored between two batches of the fold, and its JSON form in
`open_groups`.

Its size depends on the group's size, not on the length of its history: it holds the present members, owners and
committed partitions, and the generation and the rebalance whose rows may still change.

The JSON form writes each dataclass instance as a list of its values, and once for each class the names of these values
(`names`). A field that an older version did not know takes its default, so a new field must have one. `format` changes
only when the meaning of written values changes. A format or a name that is not known here was written by a newer
version, and `load` refuses it. Format 2 had no `names`: its lists hold the fields of `_NAMES_OF_FORMAT_2` in this
order. Lists of topics and intervals that many members or partitions share are written once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.history.rules import modern_state
from groupledger.transforms.history.rules.events import SESSION_DEFAULT_MS, MemberFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.history.rules.modern_records import TopicNames

FORMAT = 3


class UnknownStateError(RuntimeError):
    """A newer version of groupledger has written the state, in a format or with fields that this one does not know.
    This concerns the whole ledger, not one group (`transforms.troubles`)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The open state of a group has {what}, which this version of groupledger does not know: use the version"
            " that wrote it, or, to stay with this one, run `groupledger history --rebuild`."
        )


@dataclass(slots=True, kw_only=True)
class OpenGeneration:
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
    member_count: int | None
    owned_count: int | None
    changes: list[dict[str, Any]] | None = None
    finding: str | None = None
    ended_by: str | None = None
    group_type: str = GroupType.CLASSIC
    targeted_at_ms: int | None = None
    converged_at_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class Tenure:
    """Holds a present member, and where its membership began. `may_have_left`: the member may have left during a hole
    in coverage, until a later record names it."""

    facts: MemberFacts
    from_generation: int
    from_offset: int
    joined_at_ms: int
    is_start_known: bool
    group_type: str = GroupType.CLASSIC
    may_have_left: bool = False


@dataclass(slots=True, kw_only=True)
class OpenOwnership:
    """An open ownership interval."""

    owners: tuple[str, ...]
    from_generation: int
    from_offset: int
    valid_from_ms: int
    is_start_known: bool


@dataclass(slots=True)
class PartitionCommits:
    """Holds the newest commit of a partition, and how often its present owner has committed it: `owner_commits` times
    since `owner_first_ms`. `last_ms` is None if a hole in coverage may hide newer commits."""

    last_ms: int | None
    committed_offset: int
    owner_first_ms: int = 0
    owner_commits: int = 0


@dataclass(slots=True)
class StoppedPartition:
    """A partition that a rebalance stopped, with the last commit before it and the first one after it."""

    last_ms: int
    committed_before: int
    first_ms: int | None = None
    committed_after: int | None = None


@dataclass(slots=True, kw_only=True)
class OpenRebalance:
    """The newest rebalance: its row without the pauses, and the commits that bound the pauses; `is_dirty` is not
    stored."""

    row: dict[str, Any]
    last_commit_ms: int | None
    watched: dict[TopicPartition, StoppedPartition]
    first_commit_ms: int | None = None
    is_dirty: bool = True  # its row must be written


@dataclass(slots=True)
class Ending:
    """The group's tombstone, kept until the next record shows whether the group was converted to another type."""

    kafka_offset: int
    kafka_timestamp_ms: int
    is_known: bool


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """Holds the state of a group in the fold. `number` is the last generation or epoch of this incarnation.
    `is_state_known` says that no record of the group was missed since its last record. `has_all_records` says that the
    present stretch of coverage is compacted but has all its records, and `is_renewed` that this stretch has had a
    record of the whole group. `record_offset` is the offset of the last group-level event. If no later record was read
    yet, the group may have ended at `ends_hidden_from` without a record of that. `pending` has the units that nobody
    owns now, each with the identity of the member that gave it up; `revokers` are the members that have to join again
    because they gave something up. `consumer_session_timeout_ms` is a setting, not a part of the state."""

    group_id: str
    kafka_partition: int
    first_kafka_offset: int | None = None
    last_kafka_offset: int = -1
    record_offset: int = -1
    coverage_offset: int = -1
    completeness: str = Completeness.UNKNOWN
    is_state_known: bool = False
    has_all_records: bool = False
    is_renewed: bool = False
    ends_hidden_from: int | None = None
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
    generation: OpenGeneration | None = None
    members: dict[str, Tenure] = field(default_factory=dict)
    owners: dict[TopicPartition, OpenOwnership] = field(default_factory=dict)
    pending: dict[TopicPartition, str] = field(default_factory=dict)
    commits: dict[TopicPartition, PartitionCommits] = field(default_factory=dict)
    rebalance: OpenRebalance | None = None
    reconciliation: modern_state.Reconciliation | None = None
    consumer_session_timeout_ms: int = SESSION_DEFAULT_MS

    @property
    def is_simple(self) -> bool:
        """Returns whether the group is alive and has only commits, and no members or generations."""
        is_alive = self.is_alive and self.ending is None
        return is_alive and self.number is None and self.group_type == GroupType.CLASSIC


_KINDS: dict[str, type[Any]] = {
    "facts": MemberFacts,
    "tenure": Tenure,
    "interval": OpenOwnership,
    "commits": PartitionCommits,
    "watch": StoppedPartition,
    "rebalance": OpenRebalance,
    "ending": Ending,
    "generation": OpenGeneration,
}
_NAMES = {kind: [each.name for each in fields(of) if each.name != "is_dirty"] for kind, of in _KINDS.items()}
_NAMES_OF_FORMAT_2 = {
    "facts": [
        *("member_id", "group_instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms"),
        *("rack_id", "topics", "subscription_error", "assignment_error"),
    ],
    "tenure": ["facts", "from_generation", "from_offset", "joined_at_ms", "is_start_known"],
    "interval": ["owners", "from_generation", "from_offset", "valid_from_ms", "is_start_known"],
    "commits": ["last_ms", "committed_offset", "owner_first_ms", "owner_commits"],
    "watch": ["last_ms", "committed_before", "first_ms", "committed_after"],
    "rebalance": ["row", "last_commit_ms", "watched", "first_commit_ms"],
    "ending": ["kafka_offset", "kafka_timestamp_ms", "is_known"],
    "generation": [
        *("generation", "revision", "protocol_type", "protocol", "leader", "kafka_offset", "started_at_ms"),
        *("current_state_timestamp_ms", "generation_gap", "is_start_known", "is_ownership_known", "member_count"),
        *("owned_count", "changes", "finding", "ended_by"),
    ],
}
_GETTERS = {of: attrgetter(*_NAMES[kind]) for kind, of in _KINDS.items()}
_RECORDS = ("ending", "generation", "members", "owners", "pending", "commits", "rebalance", "reconciliation")
_FORMER = ("upgraded_generation",)  # fields that an older version wrote, and nothing needs any more
_SETTINGS = ("consumer_session_timeout_ms",)  # given with each fold
_SCALARS = tuple(each.name for each in fields(OpenGroup) if each.name not in (*_RECORDS, *_SETTINGS))


def dump(group: OpenGroup) -> str:
    """Returns the state as JSON; equal states give equal texts."""
    topic_lists: dict[tuple[str, ...] | None, int] = {}
    members = []
    for tenure in group.members.values():
        facts = _values(tenure.facts)
        facts[_NAMES["facts"].index("topics")] = topic_lists.setdefault(tenure.facts.topics, len(topic_lists))
        members.append([facts, *_values(tenure)[1:]])
    packed = {name: getattr(group, name) for name in _SCALARS} | {
        "format": FORMAT,
        "names": _NAMES,
        "ending": group.ending and _values(group.ending),
        "generation": group.generation and _values(group.generation),
        "topic_lists": list(topic_lists),
        "members": members,
        "owners": _pack_shared((unit, tuple(_values(interval))) for unit, interval in group.owners.items()),
        "pending": _pack_shared(group.pending.items()),
        "commits": _pack(group.commits),
        "rebalance": group.rebalance and _pack_rebalance(group.rebalance),
        "reconciliation": group.reconciliation and modern_state.pack(group.reconciliation),
    }
    return json.dumps(packed, separators=(",", ":"))


def load(text: str, topic_names: TopicNames | None = None) -> OpenGroup:
    """Returns the state in a text that `dump` of this or an older version wrote. Topics that the text has by id get
    their names. Raises UnknownStateError if a newer version wrote the text."""
    packed = _parse(text)
    names = packed.pop("names")

    # There may be thousands of these, and positional arguments make them three times as fast.
    in_order = [kind for kind in ("commits", "watch") if names[kind] == _NAMES[kind]]

    def by_name(kind: str, values: Iterable[Any]) -> dict[str, Any]:
        return dict(zip(names[kind], values, strict=True))

    def make(kind: str, values: Iterable[Any]) -> Any:
        return _KINDS[kind](*values) if kind in in_order else _KINDS[kind](**by_name(kind, values))

    is_of_today = "reconciliation" in packed
    records = {name: packed.pop(name, None) for name in (*_RECORDS, "topic_lists")}
    group = OpenGroup(**packed)
    group.completeness = Completeness.today(group.completeness)
    group.ending = records["ending"] and make("ending", records["ending"])
    group.generation = records["generation"] and make("generation", records["generation"])
    topic_lists = [topics if topics is None else tuple(topics) for topics in records["topic_lists"]]
    topics_at = names["facts"].index("topics")
    for facts, *since in records["members"]:
        facts[topics_at] = topic_lists[facts[topics_at]]
        tenure = make("tenure", (make("facts", facts), *since))
        group.members[tenure.facts.member_id] = tenure
    for values, units in records["owners"]:
        interval = by_name("interval", values)
        interval["owners"] = tuple(interval["owners"])
        group.owners.update({unit: OpenOwnership(**interval) for unit in _unpack_units(units)})
    for identity, units in records["pending"]:
        group.pending.update(dict.fromkeys(_unpack_units(units), identity))
    group.commits = {unit: make("commits", values) for unit, values in _unpack(records["commits"])}
    if records["rebalance"]:
        rebalance = make("rebalance", records["rebalance"])
        rebalance.watched = {unit: make("watch", values) for unit, values in _unpack(rebalance.watched)}
        rebalance.is_dirty = False
        group.rebalance = rebalance
    is_restorable = is_of_today and (group.group_type == GroupType.CONSUMER or records["reconciliation"] is not None)
    if group.group_type != GroupType.CLASSIC and group.is_alive and not is_restorable:
        # A version that read nothing of such groups has written the state.
        unknown = modern_state.Reconciliation(is_whole=False, group_type=group.group_type)
        group.is_state_known, group.reconciliation = False, unknown
    if records["reconciliation"]:
        group.reconciliation = modern_state.unpack(records["reconciliation"])
        if topic_names:
            modern_state.rename(group.reconciliation, topic_names)
            group.owners = {
                TopicPartition(topic_names.get(topic, topic), number): interval
                for (topic, number), interval in group.owners.items()
            }
    return group


def _parse(text: str) -> dict[str, Any]:
    """Returns the JSON object with `names`, and without `format`."""
    try:
        packed: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnknownStateError("a form other than JSON") from error
    found = packed.pop("format", None)
    for name in _FORMER:
        packed.pop(name, None)
    if found not in (2, FORMAT):
        raise UnknownStateError(f"format {found}")
    unknown = packed.keys() - {*_SCALARS, *_RECORDS, "topic_lists", "names"}
    if packed.setdefault("names", _NAMES_OF_FORMAT_2) != _NAMES:
        unknown |= {
            f"{kind}.{name}" for kind in packed["names"] for name in {*packed["names"][kind]} - {*_NAMES.get(kind, ())}
        }
    if unknown:
        raise UnknownStateError(f"the fields {', '.join(sorted(unknown))}")
    return packed


def _values(record: Any) -> list[Any]:
    """Returns the fields of a record that are stored; `dataclasses.astuple` would copy what is inside them."""
    return list(_GETTERS[type(record)](record))


def _pack(by_unit: Mapping[TopicPartition, Any]) -> dict[str, list[list[Any]]]:
    """Returns by topic a list of [partition, values]; sorted, so that equal states are equal texts."""
    packed: dict[str, list[list[Any]]] = {}
    for (name, number), record in sorted(by_unit.items(), key=itemgetter(0)):
        packed.setdefault(name, []).append([number, *_values(record)])
    return packed


def _unpack(packed: Mapping[str, list[list[Any]]]) -> Iterable[tuple[TopicPartition, list[Any]]]:
    return ((TopicPartition(name, number), values) for name, rows in packed.items() for number, *values in rows)


def _pack_shared(pairs: Iterable[tuple[TopicPartition, Any]]) -> list[tuple[Any, dict[str, list[int]]]]:
    """Returns each value once, with its units by topic."""
    packed: dict[Any, dict[str, list[int]]] = {}
    for (name, number), value in sorted(pairs, key=itemgetter(0)):
        packed.setdefault(value, {}).setdefault(name, []).append(number)
    return list(packed.items())


def _unpack_units(by_topic: Mapping[str, list[int]]) -> Iterable[TopicPartition]:
    return (TopicPartition(name, number) for name, numbers in by_topic.items() for number in numbers)


def _pack_rebalance(rebalance: OpenRebalance) -> list[Any]:
    return [_pack(value) if value is rebalance.watched else value for value in _values(rebalance)]
