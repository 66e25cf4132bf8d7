"""Defines the part of the open state that only groups of KIP-848's kind have, and its JSON form.

This state is stored between two batches, since a batch may end within an operation of the coordinator. As in `state`,
each record is written by field name, and a field that an older version did not know takes its default.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.events import MemberFacts
from groupledger.transforms.history.rules.modern_records import CurrentAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.history.rules.modern_records import TopicNames, Units


Held: TypeAlias = tuple[str | int, ...]
"""What a member can hold together with other members, in the columns of its table: a topic and a partition in a share
group, a `streams_records.Task` in a streams group."""


@dataclass(slots=True, kw_only=True)
class OpenHolding:
    """An interval of ownership that has not ended."""

    from_generation: int
    from_offset: int
    valid_from_ms: int
    is_start_known: bool


Holdings: TypeAlias = dict[str, dict[Held, OpenHolding]]
"""The open intervals, by member and by what is held."""


@dataclass(slots=True, kw_only=True)
class MemberAssignment:
    """Holds a member's newest current assignment, and the record and the time from which it is in force. `waits_for`
    has the partitions of the member's target that it did not hold then, each with the member that did; None if nobody
    did. `holds` are the tasks of a streams group's member."""

    current: CurrentAssignment
    target: Units
    waits_for: list[tuple[TopicPartition, str | None]]
    targeted_at_ms: int | None
    from_offset: int
    valid_from_ms: int
    holds: tuple[Held, ...] = ()


@dataclass(slots=True, kw_only=True)
class Newcomer:
    """A member whose record was read, before the next record shows whether an epoch begins with it."""

    facts: MemberFacts
    kafka_offset: int
    at_ms: int
    is_known: bool


@dataclass(slots=True, kw_only=True)
class Departure:
    """Holds a member whose tombstone was read, with its tenure, and the cause that was inferred for its departure."""

    facts: MemberFacts
    from_generation: int
    from_offset: int
    joined_at_ms: int
    is_start_known: bool
    to_offset: int
    left_at_ms: int
    is_end_known: bool
    cause: str | None
    confidence: float | None
    explanation: str | None
    replaced_by: str | None = None


@dataclass(slots=True, kw_only=True)
class Operation:
    """The records read so far of an operation of the coordinator, before the record that shows whether it begins an
    epoch."""

    at_ms: int
    newcomers: list[Newcomer] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    causes: dict[str, list[Any]] = field(default_factory=dict)  # by the member that is about to go


@dataclass(slots=True, kw_only=True)
class Topology:
    """The topology of a `streams` group; `subtopologies` are as in `stream_topologies`."""

    epoch: int
    subtopologies: list[dict[str, Any]]
    from_offset: int
    valid_from_ms: int


@dataclass(slots=True, kw_only=True)
class Reconciliation:
    """Holds the state of a reconciliation, in which members of a KIP-848 group move towards their targets. None is
    unknown.

    `targets` are the newest targets; they belong to `target_epoch` as soon as its record is read. `targets_before` are
    the targets that were replaced since then, by member: `targets` and `targets_before` together give the targets
    before the epoch, if `is_target_known`. `is_whole`: the log has every member's newest record, so a member that is
    not here does not exist. In a `share` group `shareable` are the partitions that have a state, and `shareable_before`
    those at the last epoch. Only `streams` groups have a topology and what the last epoch said about it.
    """

    is_whole: bool
    group_type: str = GroupType.CONSUMER
    is_target_known: bool = False
    metadata_hash: int | None = None
    target_epoch: int | None = None
    targeted_at_ms: int | None = None
    targets: dict[str, Units] = field(default_factory=dict)
    targets_before: dict[str, Units] = field(default_factory=dict)
    steps: dict[str, MemberAssignment] = field(default_factory=dict)
    regexes: dict[str, list[str]] = field(default_factory=dict)
    operation: Operation | None = None
    shareable: Units | None = None
    shareable_before: Units | None = None
    topology: Topology | None = None
    is_topology_ready: bool | None = None
    assignment_configs: list[list[str]] | None = None
    holdings: Holdings = field(default_factory=dict)


def pack(state: Reconciliation) -> dict[str, Any]:
    operation = state.operation
    return {
        "is_whole": state.is_whole,
        "is_target_known": state.is_target_known,
        "metadata_hash": state.metadata_hash,
        "target_epoch": state.target_epoch,
        "targeted_at_ms": state.targeted_at_ms,
        "targets": {member_id: by_topic(units) for member_id, units in sorted(state.targets.items())},
        "targets_before": {member_id: by_topic(units) for member_id, units in sorted(state.targets_before.items())},
        "steps": {member_id: _pack_step(step) for member_id, step in sorted(state.steps.items())},
        "regexes": dict(sorted(state.regexes.items())),
        "operation": operation and asdict(operation),
    } | _pack_of_type(state)


def _pack_of_type(state: Reconciliation) -> dict[str, Any]:
    """Returns the fields that only one type of group has; nearly all groups are `consumer` groups."""
    if state.group_type == GroupType.CONSUMER:
        return {}
    return {
        "group_type": state.group_type,
        "shareable": None if state.shareable is None else by_topic(state.shareable),
        "shareable_before": None if state.shareable_before is None else by_topic(state.shareable_before),
        "topology": state.topology and asdict(state.topology),
        "is_topology_ready": state.is_topology_ready,
        "assignment_configs": state.assignment_configs,
        "holdings": _pack_holdings(state.holdings),
    }


def unpack(packed: Mapping[str, Any]) -> Reconciliation:
    names = {**packed}
    names["targets"] = {member_id: units_of(each) for member_id, each in packed["targets"].items()}
    names["targets_before"] = {member_id: units_of(each) for member_id, each in packed["targets_before"].items()}
    names["steps"] = {member_id: _unpack_step(step) for member_id, step in packed["steps"].items()}
    operation = packed["operation"]
    if operation is not None:
        newcomers = [Newcomer(**{**each, "facts": _facts(each["facts"])}) for each in operation["newcomers"]]
        departures = [Departure(**{**each, "facts": _facts(each["facts"])}) for each in operation["departures"]]
        names["operation"] = Operation(**{**operation, "newcomers": newcomers, "departures": departures})
    for name in ("shareable", "shareable_before"):
        if names.get(name) is not None:
            names[name] = units_of(names[name])
    if names.get("topology") is not None:
        names["topology"] = Topology(**names["topology"])
    names["holdings"] = _unpack_holdings(names.get("holdings", {}))
    return Reconciliation(**names)


def rename(state: Reconciliation, names: TopicNames) -> None:
    """Replaces topic ids in `state` by the topics' names, if `names` has them. The names were not known when the state
    was stored."""

    def named(units: Units) -> Units:
        return tuple(sorted(TopicPartition(names.get(topic, topic), number) for topic, number in units))

    state.shareable = state.shareable and named(state.shareable)
    state.shareable_before = state.shareable_before and named(state.shareable_before)
    if state.group_type == GroupType.SHARE:
        state.holdings = _renamed(state.holdings, names)
    state.targets = {member_id: named(units) for member_id, units in state.targets.items()}
    state.targets_before = {member_id: named(units) for member_id, units in state.targets_before.items()}
    for step in state.steps.values():
        current = step.current
        step.current = CurrentAssignment(
            current.member_epoch,
            current.previous_member_epoch,
            current.state,
            named(current.assigned),
            named(current.pending),
            current.names_assignment_epochs,
        )
        step.target = named(step.target)
        waits = ((TopicPartition(names.get(topic, topic), number), who) for (topic, number), who in step.waits_for)
        step.waits_for = sorted(waits, key=itemgetter(0))


def _renamed(holdings: Holdings, names: Mapping[str, str]) -> Holdings:
    """Returns the holdings of a share group with the names of topics that they call by their ids."""
    return {
        member_id: {(names.get(str(topic), topic), number): each for (topic, number), each in of_member.items()}
        for member_id, of_member in holdings.items()
    }


def _pack_holdings(holdings: Holdings) -> dict[str, list[list[Any]]]:
    return {
        member_id: [[list(held), asdict(holding)] for held, holding in sorted(of_member.items())]
        for member_id, of_member in sorted(holdings.items())
    }


def _unpack_holdings(packed: Mapping[str, list[list[Any]]]) -> Holdings:
    return {
        member_id: {tuple(held): OpenHolding(**holding) for held, holding in of_member}
        for member_id, of_member in packed.items()
    }


def by_topic(units: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in units:
        found.setdefault(topic, []).append(number)
    return found


def units_of(topics: Mapping[str, list[int]]) -> Units:
    return tuple(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)


def _pack_step(step: MemberAssignment) -> dict[str, Any]:
    current = step.current
    return {
        "current": [current.member_epoch, current.previous_member_epoch, current.state],
        **({"names_assignment_epochs": True} if current.names_assignment_epochs else {}),
        "assigned": by_topic(current.assigned),
        "pending": by_topic(current.pending),
        # Nearly all members are where they are to be.
        "target": None if step.target == current.assigned else by_topic(step.target),
        "waits_for": [[*unit, who] for unit, who in step.waits_for],
        "targeted_at_ms": step.targeted_at_ms,
        "from_offset": step.from_offset,
        "valid_from_ms": step.valid_from_ms,
    } | ({"holds": [list(held) for held in step.holds]} if step.holds else {})


def _unpack_step(packed: Mapping[str, Any]) -> MemberAssignment:
    names = {**packed}
    assigned, pending = units_of(names.pop("assigned")), units_of(names.pop("pending"))
    member_epoch, previous_member_epoch, state = packed["current"]
    named = names.pop("names_assignment_epochs", False)
    names["current"] = CurrentAssignment(member_epoch, previous_member_epoch, state, assigned, pending, named)
    names["target"] = assigned if packed["target"] is None else units_of(packed["target"])
    names["waits_for"] = [(TopicPartition(topic, number), who) for topic, number, who in packed["waits_for"]]
    names["holds"] = tuple(tuple(held) for held in packed.get("holds", ()))
    return MemberAssignment(**names)


def _facts(packed: Mapping[str, Any]) -> MemberFacts:
    return MemberFacts(
        **{**packed, "topics": packed["topics"] if packed["topics"] is None else tuple(packed["topics"])}
    )
