"""Holds the facts about one group, and what several rules look up among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import CoordinatorEventKind
from groupledger.transforms.incidents.rules.coordinator_faults import Coordinators
from groupledger.transforms.incidents.rules.facts import (
    COORDINATOR_AWAY,
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupState,
    HeldPartition,
    LagRound,
    LagStretch,
    LeavingMember,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
    Request,
    identity,
    milliseconds,
)
from groupledger.transforms.lookups import InOrder, Spans, as_given, grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

    Row = dict[str, Any]

JOIN = ApiKey.JOIN_GROUP.name
MOVES = (
    CoordinatorEventKind.GROUP_LOADED,
    CoordinatorEventKind.GROUP_UNLOADED,
    CoordinatorEventKind.MODERN_GROUP_UNLOADED,
)


@dataclass
class GroupFacts:
    """Holds all facts about one group. Rows of the history tables are dicts by column, with instants in microseconds,
    as the fold writes them.

    The topic `__consumer_offsets` was read until `topic_until_ms`; None means as long as anything else is known.
    `committed` are offsets that will expire soon unless a member prevents it, with the ends of their topics' logs.
    `groups` (the group's own row) and `readers` (records of members of a modern group) show whether a member does.
    """

    group_id: str | None
    as_of_ms: int
    requests: list[Request] = field(default_factory=list)
    events: list[CoordinatorEvent] = field(default_factory=list)
    generations: list[dict[str, Any]] = field(default_factory=list)
    rebalances: list[dict[str, Any]] = field(default_factory=list)
    members: list[dict[str, Any]] = field(default_factory=list)
    assignments: list[dict[str, Any]] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    steps: list[CommitStep] = field(default_factory=list)
    records: list[GroupState] = field(default_factory=list)
    samples: list[EndSample] = field(default_factory=list)
    stretches: list[RebalanceStretch] = field(default_factory=list)
    held: list[HeldPartition] = field(default_factory=list)
    lag_stretches: list[LagStretch] = field(default_factory=list)
    lag_rounds: list[LagRound] = field(default_factory=list)
    offset_events: list[OffsetEvent] = field(default_factory=list)
    returns: list[OffsetReturn] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    committed: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    readers: list[dict[str, Any]] = field(default_factory=list)
    topic_until_ms: int | None = None
    faults: Sequence[CoordinatorFault] = ()
    coordinators: Coordinators = field(default_factory=Coordinators)

    @cached_property
    def lookups(self) -> Lookups:
        """Returns what rules look up among these facts, as they are when it is asked for first."""
        return Lookups(self)

    @cached_property
    def spoken(self) -> list[CoordinatorEvent]:
        """Returns the lines of brokers that coordinated the group as they wrote them."""
        return [each for each in self.events if not self.has_lost(each)]

    def has_lost(self, event: CoordinatorEvent) -> bool:
        """Returns whether another broker had loaded the group before the one that wrote the line wrote it."""
        return self.coordinators.has_lost(event.broker_id, event.kafka_partition, event.logged_at_ms)

    @property
    def silent_until_ms(self) -> int:
        """Returns the instant until which a group without later records is known to have written no records. Samples
        and logs may extend beyond the records that were read, and say nothing about records that nobody has read."""
        return self.as_of_ms if self.topic_until_ms is None else min(self.as_of_ms, self.topic_until_ms)


def _process(row: Row) -> tuple[Any, ...]:
    return row["incarnation"], *identity(row)


class Lookups:
    """What several rules look up among the facts of a group; each is made when it is asked for first."""

    def __init__(self, facts: GroupFacts) -> None:
        self._facts = facts

    # Generations

    @cached_property
    def _generations(self) -> Spans[Row]:
        return Spans(self._facts.generations, itemgetter("kafka_offset"), itemgetter("to_offset"))

    def generation_at(self, kafka_offset: int) -> Row | None:
        """Returns the generation in which an offset of the log lies."""
        found = self._generations.holding(kafka_offset)
        return found[-1] if found else None

    @cached_property
    def generations_begun(self) -> InOrder[Row]:
        """Returns the generations by the offsets at which they began, of several at one the first last."""
        return InOrder(reversed(self._facts.generations), itemgetter("kafka_offset"))

    def last_generation(self, kafka_offset: int) -> Row | None:
        """Returns the last generation that had begun at an offset of the log, even if it had ended."""
        return self.generations_begun.last_until(kafka_offset)

    @cached_property
    def _newest_generations(self) -> InOrder[tuple[int, Row]]:
        """Returns the instants at which generations began, each with the newest by offset that had begun by then."""
        begun = [(milliseconds(row["started_at"]), -n, row) for n, row in enumerate(self._facts.generations)]
        begun.sort(key=itemgetter(0))
        newest = accumulate(begun, lambda *two: max(two, key=lambda each: (each[2]["kafka_offset"], each[1])))
        return InOrder([(at_ms, row) for (at_ms, *_), (*_, row) in zip(begun, newest, strict=True)], itemgetter(0))

    def newest_generation(self, at_ms: int) -> Row | None:
        """Returns the newest generation that had begun at an instant, even if it had ended."""
        found = self._newest_generations.last_until(at_ms)
        return found[1] if found is not None else None

    @cached_property
    def last_offset_with_members(self) -> int:
        """Returns the offset of the last generation that may have had members; -1 if there is none."""
        return max((row["kafka_offset"] for row in self._facts.generations if row["member_count"] != 0), default=-1)

    @cached_property
    def generations_in_time(self) -> InOrder[Row]:
        """Returns the generations by the instants of their beginnings, in microseconds."""
        return InOrder(self._facts.generations, lambda row: row["started_at"] or 0)

    # Rebalances

    @cached_property
    def rebalances(self) -> InOrder[Row]:
        """Returns the rebalances by their instants, in microseconds."""
        return InOrder(self._facts.rebalances, itemgetter("happened_at"))

    # Members and what they owned

    @cached_property
    def tenures(self) -> Mapping[str | None, Sequence[Row]]:
        """Returns the rows of `members` by member id."""
        return grouped(self._facts.members, itemgetter("member_id"))

    @cached_property
    def _tenures_of_processes(self) -> Mapping[Any, InOrder[Row]]:
        of_process = grouped(self._facts.members, _process)
        return {process: InOrder(rows, itemgetter("from_offset")) for process, rows in of_process.items()}

    def later_tenures(self, tenure: Row) -> Iterator[Row]:
        """Yields the tenures of the same process that began after this one had ended, in the order of the log."""
        return self._tenures_of_processes[_process(tenure)].onward(tenure["to_offset"] + 1)

    @cached_property
    def static_members(self) -> Spans[Row]:
        """Returns the tenures of static members by their instants, in milliseconds."""
        return Spans(
            (row for row in self._facts.members if row["group_instance_id"] is not None),
            lambda row: milliseconds(row["joined_at"]),
            lambda row: None if row["left_at"] is None else milliseconds(row["left_at"]),
        )

    @cached_property
    def _owners(self) -> Mapping[TopicPartition, Spans[Row]]:
        of_place = grouped(self._facts.assignments, lambda row: TopicPartition(row["topic"], row["partition"]))
        return {
            place: Spans(rows, itemgetter("from_offset"), itemgetter("to_offset")) for place, rows in of_place.items()
        }

    def owner_at(self, place: TopicPartition, kafka_offset: int) -> Row | None:
        """Returns the interval in which a partition had an owner at an offset of the log; None also at the records that
        began or ended an interval."""
        spans = self._owners.get(place)
        held = spans.holding(kafka_offset) if spans is not None else ()
        return next((row for row in held if row["from_offset"] < kafka_offset), None)

    # Commits

    @cached_property
    def _waiting_steps(self) -> Sequence[Spans[tuple[int, CommitStep]]]:
        waiting = (each for each in enumerate(self._facts.steps) if each[1].waiting_from_ms is not None)
        return [
            Spans(
                steps,
                lambda each: each[1].waiting_from_ms or 0,
                lambda each: None if each[1].next_commit is None else each[1].next_commit.at_ms,
            )
            for steps in grouped(waiting, lambda each: each[1].commit.place).values()
        ]

    def steps_waiting(self, from_ms: int, until_ms: int) -> list[CommitStep]:
        """Returns the steps after which records waited at some instant between two."""
        return as_given(each for spans in self._waiting_steps for each in spans.meeting(from_ms, until_ms))

    # Logs

    @cached_property
    def requests(self) -> InOrder[Request]:
        return InOrder(self._facts.requests, attrgetter("happened_at_ms"))

    @cached_property
    def away(self) -> InOrder[Request]:
        """Returns the requests that a coordinator refused because it was away."""
        refused = (each for each in self._facts.requests if each.error_code in COORDINATOR_AWAY)
        return InOrder(refused, attrgetter("happened_at_ms"))

    @cached_property
    def moves(self) -> InOrder[CoordinatorEvent]:
        """Returns the lines by which brokers took the group over or gave it up."""
        return InOrder((each for each in self._facts.events if each.kind in MOVES), attrgetter("logged_at_ms"))

    @cached_property
    def joins(self) -> Mapping[str | None, InOrder[Request]]:
        """Returns the accepted JoinGroup requests by member id."""
        accepted = (each for each in self._facts.requests if each.api == JOIN and each.error_code == Error.NONE.value)
        of_member = grouped(accepted, attrgetter("member_id"))
        return {name: InOrder(joins, attrgetter("happened_at_ms")) for name, joins in of_member.items()}

    @cached_property
    def instance_joins(self) -> Mapping[str | None, InOrder[int]]:
        """Returns the instants at which somebody joined under an instance id, by requests and by records."""
        joins = [
            (request.group_instance_id, request.happened_at_ms)
            for request in self._facts.requests
            if request.api == JOIN and not request.error_code
        ]
        joins += [(row["group_instance_id"], milliseconds(row["joined_at"])) for row in self._facts.members]
        of_instance = grouped(joins, itemgetter(0))
        return {name: InOrder((at_ms for _, at_ms in each), int) for name, each in of_instance.items()}

    @cached_property
    def events(self) -> InOrder[CoordinatorEvent]:
        return InOrder(self._facts.events, attrgetter("logged_at_ms"))

    @cached_property
    def leaves(self) -> Mapping[str | None, Sequence[tuple[Request, LeavingMember]]]:
        """Returns the requests by which members left, by member id."""
        pairs = ((request, each) for request in self._facts.requests for each in request.leaving)
        return grouped(pairs, lambda pair: pair[1].member_id)

    @cached_property
    def events_of(self) -> Mapping[str | None, Sequence[CoordinatorEvent]]:
        """Returns the lines by the member that they are about."""
        return grouped(self._facts.events, attrgetter("member_id"))
