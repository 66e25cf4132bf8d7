"""Writes the truth while it happens: from the coordinator's own events and answers, and from what clients sent.

The coordinator's records are not read here, with one exception: where in the log they are. Who is in a generation is
what its leader was told, who owns what is what the leader assigned, and why is what the coordinator gave as reason.
A failover takes back what no record holds: the generation without a record, its new members, and departures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model.log_lines import render
from groupledger.coordinator.model.messages import JoinGroupRequest, JoinGroupResponse
from groupledger.coordinator.model.subscription import topics_of_subscription
from groupledger.coordinator.simulator.changes import Roster, Seat, changes_between, has_added_partitions, revokers
from groupledger.coordinator.simulator.rejections import group_of, refusal_error, rejection
from groupledger.coordinator.simulator.truth import Action, Cause, Generation, Owner, Tenure, Truth
from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import POLL_TIMEOUT_REASON, trigger_of
from groupledger.schemas.kinds import triggers
from groupledger.schemas.kinds.changes import COOPERATIVE_FOLLOW_UP, PARTITIONS_ADDED
from groupledger.schemas.words import LeaveCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request, TopicPartition
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.coordinator.simulator.network import Exchange


@dataclass(slots=True)
class _Life:
    """One incarnation of one group."""

    group_id: str
    incarnation: int
    is_over: bool = False
    generation: Generation | None = None  # the current one
    recorded: Generation | None = None  # the last with a record; the same object, if the current one has one
    roster: Roster | None = None  # of the last with a record
    topics: dict[str, frozenset[str]] = field(default_factory=dict)  # subscribed now, by member id
    brought: dict[str, list[TopicPartition]] = field(default_factory=dict)  # what members said they owned, by member id
    revokers: set[str] = field(default_factory=set)  # by the last record, members that have to give something up
    cause: Cause | None = None  # of the rebalance that goes on, or of a generation that has no record yet
    tenures: dict[str, Tenure] = field(default_factory=dict)  # of members present
    gone: dict[str, Tenure] = field(default_factory=dict)  # of those that left after the last record
    owners: dict[TopicPartition, Owner] = field(default_factory=dict)
    universe: dict[str, int] = field(default_factory=dict)  # partitions of each topic, as far as they were assigned

    def leave(self, member_ids: Iterable[str], now_ms: int, cause: str, reason: str | None = None) -> None:
        for member_id in member_ids:
            tenure = self.tenures.pop(member_id, None)
            if tenure is not None:
                tenure.left_at_ms, tenure.leave_cause, tenure.leave_reason = now_ms, cause, reason
                self.gone[member_id] = tenure


class _Identity(NamedTuple):
    """What a member said of itself when it joined."""

    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @property
    def seat(self) -> Seat:
        if self.group_instance_id is not None:
            return Seat(self.group_instance_id, "", is_static=True)
        return Seat(self.client_id, self.client_host, is_static=False)


def _identity(request: JoinGroupRequest, known: _Identity | None) -> _Identity:
    """A coordinator that knows the member takes everything from a new request but its client."""
    client = known or request
    return _Identity(
        request.group_instance_id,
        client.client_id,
        client.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
    )


def _places(rows: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    return [(row["topic"], partition) for row in rows for partition in row["partitions"]]


class _Written(NamedTuple):
    """Where and when a group's record was appended."""

    kafka_offset: int
    recorded_at_ms: int


class _Call(NamedTuple):
    """One call of a coordinator, as far as the handler of one of its events looks at it."""

    request: Any
    leaders: Mapping[str, JoinGroupResponse]  # what leaders were told, by group
    written: Mapping[str, _Written]  # by group


class Recorder:
    def __init__(self, generation_of: Callable[[str], int | None]) -> None:
        self.truth = Truth()
        self._lives: dict[str, _Life] = {}
        self._identities: dict[tuple[str, str], _Identity] = {}  # by group and member id
        self._planted: dict[str, str] = {}
        self._generation_of = generation_of
        self._handlers: dict[str, Callable[[_Life, LogEvent, _Call], None]] = {
            "preparing_rebalance": self._preparing,
            "stabilized": self._stabilized,
            "group_now_empty": self._now_empty,
            "assignment_received": self._assigned,
            "static_member_replaced": self._replaced,
            "member_left": self._left,
            "member_failed": self._failed,
            "dynamic_members_removed": self._not_joined,
            "group_loaded": self._loaded,
        }

    def act(self, now_ms: int, group_id: str, action: str, client_id: str | None) -> None:
        """The scenario does something."""
        self._planted[group_id] = action
        self.truth.actions.append(Action(now_ms, group_id, action, client_id))

    # What the coordinator did

    def observe(self, result: Result, exchanges: list[Exchange], request: Request | None) -> None:
        """One call of a coordinator: its result, the exchanges that its answers end, and the request, if it was one."""
        call = _Call(request, self._note_answers(exchanges), written := {})
        dead = []
        for batch in result.batches:
            for offset, record in enumerate(batch.records, batch.base_offset):
                group_id = record.key["group_id"]
                is_group = record.record_type == "group_metadata"
                if record.value is not None:
                    self._live(group_id, batch, offset, is_birth=is_group)
                    if is_group:
                        written[group_id] = _Written(offset, batch.timestamp_ms)
                elif is_group:
                    dead.append((self._lives[group_id], batch.timestamp_ms))
        for event in result.events:
            handler = self._handlers.get(event.kind)
            life = self._lives.get(event.fields.get("group_id", ""))
            if handler is not None and life is not None:
                handler(life, event, call)
        for life, now_ms in dead:
            life.is_over = True
            if life.generation is not None:
                life.generation.ended_at_ms = now_ms

    def _note_answers(self, exchanges: list[Exchange]) -> dict[str, JoinGroupResponse]:
        """Learn who members are, and write refusals down; gives what leaders were told, by group."""
        leaders = {}
        for exchange in exchanges:
            request, response = exchange.request, exchange.response
            if isinstance(response, JoinGroupResponse) and isinstance(request, JoinGroupRequest):
                known = self._identities.get((request.group_id, response.member_id))
                self._identities[request.group_id, response.member_id] = _identity(request, known)
                if response.members:
                    leaders[request.group_id] = response
            error = refusal_error(request, response)
            if error is not Error.NONE:
                planted = self._planted.get(group_of(request))
                self.truth.rejections.append(rejection(exchange, error, planted, self._generation_of))
        return leaders

    def _live(self, group_id: str, batch: Batch, offset: int, *, is_birth: bool) -> None:
        """A record of a group that has none: it is born, with generation 0 or by a simple consumer's commit."""
        life = self._lives.get(group_id)
        if life is not None and not life.is_over:
            return
        life = self._lives[group_id] = _Life(group_id, 1 if life is None else life.incarnation + 1)
        if is_birth:
            self._begin(life, batch.partition, 0, batch.timestamp_ms)
            self._record(life, _Written(offset, batch.timestamp_ms), {})

    # Rebalances

    def _preparing(self, life: _Life, event: LogEvent, _: _Call) -> None:
        reason = event.fields["reason"]
        trigger, client_reason = trigger_of(reason.kind), reason.fields.get("client_reason")
        members = reason.fields.get("member_ids", reason.fields.get("member_id", ()))
        member_ids = tuple(members.split(", ") if isinstance(members, str) else members)
        if trigger == triggers.LEFT.name:
            # By its instance id a member leaves without being named, but it is the one that went last.
            tenure = life.gone.get(member_ids[0]) or next(reversed(life.gone.values()))
            trigger, client_reason = tenure.leave_cause or trigger, tenure.leave_reason
        elif trigger == triggers.SYNC_EXPIRED.name:
            life.leave(member_ids, event.happened_at_ms, trigger)
        life.cause = Cause(
            group_id=life.group_id,
            incarnation=life.incarnation,
            to_generation=event.fields["previous_generation"] + 1,
            from_generation=None,
            started_at_ms=event.happened_at_ms,
            trigger=trigger,
            member_ids=member_ids,
            reason=render(reason),
            client_reason=client_reason,
            planted=self._planted.get(life.group_id),
        )

    def _stabilized(self, life: _Life, event: LogEvent, call: _Call) -> None:
        """The join phase is over: the members are those that the leader is told of."""
        told = call.leaders[life.group_id]
        life.topics = {member.member_id: frozenset(topics_of_subscription(member.metadata)) for member in told.members}
        life.brought = {
            member.member_id: _places(decode_subscription(member.metadata).fields["owned_partitions"])
            for member in told.members
        }
        for member in told.members:
            if member.member_id not in life.tenures:
                self._join(life, member.member_id, event.happened_at_ms)
        generation = self._begin(life, event.partition, event.fields["generation"], event.happened_at_ms)
        generation.protocol_type = told.protocol_type or ""
        generation.protocol = told.protocol_name
        generation.leader = told.leader
        generation.member_ids = tuple(member.member_id for member in told.members)

    def _now_empty(self, life: _Life, event: LogEvent, call: _Call) -> None:
        life.topics, life.brought = {}, {}
        protocol_type = life.generation.protocol_type if life.generation else ""
        generation = self._begin(life, event.partition, event.fields["generation"], event.happened_at_ms)
        generation.protocol_type = protocol_type
        self._record(life, call.written[life.group_id], {})

    def _begin(self, life: _Life, partition: int, number: int, now_ms: int) -> Generation:
        """A generation begins, as yet without members and without a record."""
        if life.generation is not None:
            life.generation.ended_at_ms = now_ms
        life.generation = Generation(
            group_id=life.group_id,
            incarnation=life.incarnation,
            generation=number,
            revision=None,
            protocol_type="",
            protocol=None,
            leader=None,
            member_ids=(),
            kafka_partition=partition,
            kafka_offset=None,
            started_at_ms=now_ms,
            recorded_at_ms=None,
        )
        self.truth.generations.append(life.generation)
        if life.cause is not None:
            self.truth.causes.append(life.cause)
        return life.generation

    def _assigned(self, life: _Life, _: LogEvent, call: _Call) -> None:
        """The leader has assigned."""
        if life.group_id in call.written:
            self._record(life, call.written[life.group_id], dict(call.request.assignments))

    def _record(self, life: _Life, written: _Written, assignments: Mapping[str, bytes]) -> None:
        """The current generation has its record: changes against the last one, and ownership, are settled."""
        generation = life.generation
        assert generation is not None  # noqa: S101  # a record is written for a generation that has begun
        generation.revision = 0
        generation.kafka_offset, generation.recorded_at_ms = written
        owned = {
            place: member_id
            for member_id, assignment in assignments.items()
            if assignment
            for place in _places(decode_assignment(assignment).fields["assigned_partitions"])
        }
        self._settle_cause(life, generation, owned)
        life.revokers = revokers(life.brought, owned)
        self._own(life, generation, owned, written)
        for topic, partition in owned:
            life.universe[topic] = max(life.universe.get(topic, 0), partition + 1)
        life.gone.clear()

    def _settle_cause(self, life: _Life, generation: Generation, owned: Mapping[TopicPartition, str]) -> None:
        before = life.roster
        life.roster = self._roster(life, generation)
        life.recorded = generation
        if life.cause is None:
            return
        changes = changes_between(before, life.roster)
        if has_added_partitions(owned, life.universe):
            changes.add(PARTITIONS_ADDED.name)
        if life.revokers & life.roster.seats.keys():
            changes.add(COOPERATIVE_FOLLOW_UP.name)
        life.cause.changes = tuple(sorted(changes))
        life.cause.from_generation = None if before is None else before.generation
        life.cause = None

    def _roster(self, life: _Life, generation: Generation) -> Roster:
        seats = {member_id: self._identities[life.group_id, member_id].seat for member_id in generation.member_ids}
        return Roster(generation.generation, generation.protocol, generation.leader, seats, life.topics)

    def _own(self, life: _Life, generation: Generation, owned: Mapping[TopicPartition, str], written: _Written) -> None:
        for place, owner in [*life.owners.items()]:
            if owned.get(place) == owner.member_id:
                owner.to_generation = generation.generation
            else:
                owner.to_kafka_offset, owner.valid_to_ms = written
                del life.owners[place]
        for (topic, partition), member_id in sorted(owned.items()):
            if (topic, partition) not in life.owners:
                owner = life.owners[topic, partition] = Owner(
                    group_id=life.group_id,
                    incarnation=life.incarnation,
                    topic=topic,
                    partition=partition,
                    member_id=member_id,
                    client_id=self._identities[life.group_id, member_id].client_id,
                    from_generation=generation.generation,
                    to_generation=generation.generation,
                    from_kafka_offset=written.kafka_offset,
                    valid_from_ms=written.recorded_at_ms,
                )
                self.truth.owners.append(owner)

    def _replaced(self, life: _Life, event: LogEvent, call: _Call) -> None:
        """The same instance under a new id; with a record, if the group goes on as it is."""
        old, new = event.fields["previous_member_id"], event.fields["member_id"]
        known = self._identities.get((life.group_id, old))
        self._identities[life.group_id, new] = _identity(call.request, known)
        life.leave([old], event.happened_at_ms, LeaveCause.REPLACED)
        before, written = life.generation, call.written.get(life.group_id)
        if written is None or before is None or before.revision is None:
            return
        self._join(life, new, event.happened_at_ms)
        before.ended_at_ms = event.happened_at_ms
        generation = life.generation = life.recorded = replace(
            before,
            revision=before.revision + 1,
            leader=new if before.leader == old else before.leader,
            member_ids=tuple(new if member_id == old else member_id for member_id in before.member_ids),
            kafka_offset=written.kafka_offset,
            started_at_ms=event.happened_at_ms,
            recorded_at_ms=written.recorded_at_ms,
            ended_at_ms=None,
        )
        self.truth.generations.append(generation)
        life.revokers.discard(old)
        del life.topics[old]
        life.topics[new] = frozenset(topics_of_subscription(dict(call.request.protocols)[before.protocol]))
        life.roster = self._roster(life, generation)
        owned = {place: new if owner.member_id == old else owner.member_id for place, owner in life.owners.items()}
        self._own(life, generation, owned, written)

    # Members

    def _join(self, life: _Life, member_id: str, now_ms: int) -> None:
        identity = self._identities[life.group_id, member_id]
        life.tenures[member_id] = Tenure(life.group_id, life.incarnation, member_id, *identity, joined_at_ms=now_ms)
        self.truth.members.append(life.tenures[member_id])

    @staticmethod
    def _left(life: _Life, event: LogEvent, call: _Call) -> None:
        member_id, reason = event.fields["member_id"], event.fields["client_reason"]
        cause = triggers.LEFT_POLL_TIMEOUT if reason == POLL_TIMEOUT_REASON else triggers.LEFT
        if all(leaving.member_id != member_id for leaving in call.request.members):
            cause = triggers.ADMIN_REMOVED  # by its instance id
        life.leave([member_id], event.happened_at_ms, cause.name, reason)

    @staticmethod
    def _failed(life: _Life, event: LogEvent, _: _Call) -> None:
        life.leave([event.fields["member_id"]], event.happened_at_ms, triggers.SESSION_EXPIRED.name)

    @staticmethod
    def _not_joined(life: _Life, event: LogEvent, _: _Call) -> None:
        life.leave(event.fields["member_ids"], event.happened_at_ms, "failed_to_rejoin")

    # Failover

    @staticmethod
    def _loaded(life: _Life, event: LogEvent, _: _Call) -> None:
        """Only what has a record is left: later departures are undone, later members are unknown."""
        if life.recorded is None or life.roster is None:
            return
        unknown = [member_id for member_id in life.tenures if member_id not in life.recorded.member_ids]
        life.leave(unknown, event.happened_at_ms, "coordinator_failover")
        for member_id, tenure in life.gone.items():
            if member_id in life.recorded.member_ids:
                tenure.left_at_ms = tenure.leave_cause = tenure.leave_reason = None
                life.tenures[member_id] = tenure
        life.gone.clear()
        if life.generation is not None and life.generation is not life.recorded:
            life.generation.ended_at_ms = event.happened_at_ms
            life.recorded.ended_at_ms = None
        life.generation = life.recorded
        life.topics = dict(life.roster.topics)
        life.cause = None
