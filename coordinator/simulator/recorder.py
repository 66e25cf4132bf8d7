"""Records the truth during a simulation, from the coordinator's own events and responses, and from the clients'
requests.

The coordinator's records are not read here, except for their offsets in the log. The members of a generation are those
in the response to its leader, the owners are those in the leader's assignment, and the cause is the reason that the
coordinator gave. A failover undoes what no record has: a generation without a record, its new members, and departures.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model.groups.classic.subscription import topics_of_subscription
from groupledger.coordinator.model.log_lines import render
from groupledger.coordinator.model.messages import JoinGroupRequest, JoinGroupResponse
from groupledger.coordinator.simulator.changes import Roster, Seat, changes_between, has_added_partitions, revokers
from groupledger.coordinator.simulator.modern_recorder import PREFIXES, ModernRecorder
from groupledger.coordinator.simulator.rejections import group_of, refusal_error, rejection
from groupledger.coordinator.simulator.truth import Action, TrueCause, TrueGeneration, TrueOwner, TrueTenure, Truth
from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import POLL_TIMEOUT_REASON
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import triggers
from groupledger.schemas.kinds.changes import COOPERATIVE_FOLLOW_UP, PARTITIONS_ADDED
from groupledger.schemas.words import LeaveCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.coordinator.simulator.modern_kinds import GroupKind
    from groupledger.coordinator.simulator.network import Exchange


@dataclass(slots=True, kw_only=True)
class _Incarnation:
    """One incarnation of one group, as it is now."""

    group_id: str
    incarnation: int
    is_over: bool = False
    generation: TrueGeneration | None = None  # the current one
    recorded: TrueGeneration | None = None  # the last one with a record; it may be the current one
    roster: Roster | None = None  # of the last generation with a record
    topics: dict[str, frozenset[str]] = field(default_factory=dict)  # subscribed now, by member id
    brought: dict[str, list[TopicPartition]] = field(default_factory=dict)  # what members said they owned, by member id
    revokers: set[str] = field(default_factory=set)  # members that must give up partitions, by the last record
    cause: TrueCause | None = None  # of the rebalance that goes on, or of a generation that has no record yet
    tenures: dict[str, TrueTenure] = field(default_factory=dict)  # of members present
    gone: dict[str, TrueTenure] = field(default_factory=dict)  # of members that left after the last record
    owners: dict[TopicPartition, TrueOwner] = field(default_factory=dict)
    universe: dict[str, int] = field(default_factory=dict)  # partition count of each topic, as far as assigned

    def leave(self, member_ids: Iterable[str], now_ms: int, cause: str, reason: str | None = None) -> None:
        for member_id in member_ids:
            tenure = self.tenures.pop(member_id, None)
            if tenure is not None:
                tenure.left_at_ms, tenure.leave_cause, tenure.leave_reason = now_ms, cause, reason
                self.gone[member_id] = tenure


class _Identity(NamedTuple):
    """The identity that a member sent when it joined."""

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
    """Returns a coordinator's view of a member's identity: the client id and host of the first request, all else from
    the last."""
    client = known or request
    return _Identity(
        request.group_instance_id,
        client.client_id,
        client.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
    )


def _partitions(rows: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    return [TopicPartition(row["topic"], partition) for row in rows for partition in row["partitions"]]


class _Written(NamedTuple):
    """The offset of a group's record, and when it was appended."""

    kafka_offset: int
    recorded_at_ms: int


class _Call(NamedTuple):
    """The parts of one call of a coordinator that handlers of events need."""

    request: Any
    leaders: Mapping[str, JoinGroupResponse]  # the answers to leaders, by group
    written: Mapping[str, _Written]  # by group


class Recorder:
    def __init__(
        self,
        generation_of: Callable[[str], int | None],
        classic_group_of: Callable[[str], Group | None],
        modern_group_of: Callable[[str], Any],
        kinds: Iterable[GroupKind],
    ) -> None:
        self.truth = Truth()
        self._incarnations: dict[str, _Incarnation] = {}
        self._counts = Counter[str]()  # of the incarnations, by group
        self._identities: dict[tuple[str, str], _Identity] = {}  # by group and member id
        self._planted: dict[str, str] = {}
        self._classic_group_of = classic_group_of
        self._modern = ModernRecorder(
            *(self.truth, modern_group_of, classic_group_of, self._incarnation_of_modern), self._planted, kinds
        )
        self._generation_of = generation_of
        self._handlers: dict[str, Callable[[_Incarnation, LogEvent, _Call], None]] = {
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
        """Records that the scenario did `action` to a group, or to its client `client_id`."""
        self._planted[group_id] = action
        self.truth.actions.append(Action(now_ms, group_id, action, client_id))

    # What the coordinator did

    def observe(self, result: Result, exchanges: list[Exchange], request: Request | None) -> None:
        """Records what one call of a coordinator changed: its result, the exchanges that it answered, and the request
        that it handled (None if it handled none, as when a timer fires)."""
        written: dict[str, _Written] = {}
        call = _Call(request, self._note_answers(exchanges), written)
        self._modern.observe(result, request)
        dead = [*self._note_records(result, written)]
        for event in result.events:
            handler = self._handlers.get(event.kind)
            group = self._incarnations.get(event.fields.get("group_id", ""))
            if handler is not None and group is not None:
                handler(group, event, call)
        for group, tombstone in dead:
            group.is_over = True
            if group.generation is not None:  # it has owners and members where it becomes a group of KIP-848
                group.generation.ended_at_ms = tombstone.recorded_at_ms
                self._own(group, group.generation, {}, tombstone)
            group.leave([*group.tenures], tombstone.recorded_at_ms, LeaveCause.UPGRADED)

    def _note_records(self, result: Result, written: dict[str, _Written]) -> Iterator[tuple[_Incarnation, _Written]]:
        """Notes where the records of classic groups are, and yields the groups that end, with their tombstones."""
        for batch in result.batches:
            for offset, record in enumerate(batch.records, batch.base_offset):
                group_id = record.key["group_id"]
                is_group = record.record_type == "group_metadata"
                if record.record_type.startswith(PREFIXES) or (not is_group and self._modern.has(group_id)):
                    continue
                stayed = self._modern.take_stayed(group_id) if is_group and record.value is not None else None
                if stayed is not None:
                    written[group_id] = _Written(offset, batch.timestamp_ms)
                    self._go_on(group_id, batch.partition, written[group_id], stayed)
                elif record.value is not None:
                    self._begin_incarnation(group_id, batch, offset, is_birth=is_group)
                    if is_group:
                        written[group_id] = _Written(offset, batch.timestamp_ms)
                elif is_group:
                    yield self._incarnations[group_id], _Written(offset, batch.timestamp_ms)

    def _note_answers(self, exchanges: list[Exchange]) -> dict[str, JoinGroupResponse]:
        """Learns the members' identities, and notes refusals. Returns the answers to leaders, by group."""
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

    def _begin_incarnation(self, group_id: str, batch: Batch, offset: int, *, is_birth: bool) -> None:
        """Begins an incarnation if the group has none: with generation 0, or by a simple consumer's commit."""
        if self._is_there(group_id):
            return
        group = self._incarnations[group_id] = _Incarnation(group_id=group_id, incarnation=self._next(group_id))
        if is_birth:
            self._begin(group, batch.partition, 0, batch.timestamp_ms)
            self._record(group, _Written(offset, batch.timestamp_ms), {})

    def _is_there(self, group_id: str) -> bool:
        return group_id in self._incarnations and not self._incarnations[group_id].is_over

    def _next(self, group_id: str) -> int:
        self._counts[group_id] += 1
        return self._counts[group_id]

    def _incarnation_of_modern(self, group_id: str) -> int:
        """Returns the incarnation of a group of KIP-848 that has just begun: a classic group that is there goes on."""
        return self._counts[group_id] if self._is_there(group_id) else self._next(group_id)

    def _go_on(self, group_id: str, partition: int, written: _Written, stayed: dict[str, TrueTenure]) -> None:
        """Goes on with a group of KIP-848 that has become a classic one: its last epoch is a generation now."""
        now = self._classic_group_of(group_id)
        assert now is not None  # noqa: S101  # its record is written
        group = _Incarnation(group_id=group_id, incarnation=self._counts[group_id], tenures=stayed)
        self._incarnations[group_id] = group
        for member_id, member in now.members.items():
            group.topics[member_id] = frozenset(topics_of_subscription(member.metadata(now.protocol_name)))
            if member_id not in stayed:
                self._join(group, member_id, written.recorded_at_ms)
        generation = self._begin(group, partition, now.generation_id, written.recorded_at_ms)
        generation.protocol_type, generation.protocol = now.protocol_type or "", now.protocol_name
        generation.leader, generation.member_ids = now.leader_id, tuple(now.members)
        self._record(group, written, {member_id: member.assignment for member_id, member in now.members.items()})
        generation.revision = 1

    # Rebalances

    def _preparing(self, group: _Incarnation, event: LogEvent, _: _Call) -> None:
        reason = event.fields["reason"]
        trigger, client_reason = triggers.trigger_of(reason.kind).name, reason.fields.get("client_reason")
        members = reason.fields.get("member_ids", reason.fields.get("member_id", ()))
        member_ids = tuple(members.split(", ") if isinstance(members, str) else members)
        if trigger == triggers.LEFT.name:
            # A member that was removed by its instance id is not named here, but it is the last that left.
            tenure = group.gone.get(member_ids[0]) or next(reversed(group.gone.values()))
            trigger, client_reason = tenure.leave_cause or trigger, tenure.leave_reason
        elif trigger == triggers.SYNC_EXPIRED.name:
            group.leave(member_ids, event.happened_at_ms, trigger)
        group.cause = TrueCause(
            group_id=group.group_id,
            incarnation=group.incarnation,
            to_generation=event.fields["previous_generation"] + 1,
            from_generation=None,
            started_at_ms=event.happened_at_ms,
            trigger=trigger,
            member_ids=member_ids,
            reason=render(reason),
            client_reason=client_reason,
            planted=self._planted.get(group.group_id),
        )

    def _stabilized(self, group: _Incarnation, event: LogEvent, call: _Call) -> None:
        """Handles the end of a join phase. The members are those that the leader gets."""
        leader = call.leaders[group.group_id]
        group.topics = {
            member.member_id: frozenset(topics_of_subscription(member.metadata)) for member in leader.members
        }
        group.brought = {
            member.member_id: _partitions(decode_subscription(member.metadata).fields["owned_partitions"])
            for member in leader.members
        }
        for member in leader.members:
            if member.member_id not in group.tenures:
                self._join(group, member.member_id, event.happened_at_ms)
        generation = self._begin(group, event.partition, event.fields["generation"], event.happened_at_ms)
        generation.protocol_type = leader.protocol_type or ""
        generation.protocol = leader.protocol_name
        generation.leader = leader.leader
        generation.member_ids = tuple(member.member_id for member in leader.members)

    def _now_empty(self, group: _Incarnation, event: LogEvent, call: _Call) -> None:
        group.topics, group.brought = {}, {}
        protocol_type = group.generation.protocol_type if group.generation else ""
        generation = self._begin(group, event.partition, event.fields["generation"], event.happened_at_ms)
        generation.protocol_type = protocol_type
        self._record(group, call.written[group.group_id], {})

    def _begin(self, group: _Incarnation, partition: int, number: int, now_ms: int) -> TrueGeneration:
        """Begins a generation, without members and without a record as yet."""
        if group.generation is not None:
            group.generation.ended_at_ms = now_ms
        group.generation = TrueGeneration(
            group_id=group.group_id,
            incarnation=group.incarnation,
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
        self.truth.generations.append(group.generation)
        if group.cause is not None:
            self.truth.causes.append(group.cause)
        return group.generation

    def _assigned(self, group: _Incarnation, _: LogEvent, call: _Call) -> None:
        """Handles the leader's assignment."""
        if group.group_id in call.written:
            self._record(group, call.written[group.group_id], dict(call.request.assignments))

    def _record(self, group: _Incarnation, written: _Written, assignments: Mapping[str, bytes]) -> None:
        """Notes the record of the current generation, with its changes against the last one, and its owners."""
        generation = group.generation
        assert generation is not None  # noqa: S101  # a record is written for a generation that has begun
        generation.revision = 0
        generation.kafka_offset, generation.recorded_at_ms = written
        owned = {
            place: member_id
            for member_id, assignment in assignments.items()
            if assignment
            for place in _partitions(decode_assignment(assignment).fields["assigned_partitions"])
        }
        self._settle_cause(group, generation, owned)
        group.revokers = revokers(group.brought, owned)
        self._own(group, generation, owned, written)
        for topic, partition in owned:
            group.universe[topic] = max(group.universe.get(topic, 0), partition + 1)
        group.gone.clear()

    def _settle_cause(
        self, group: _Incarnation, generation: TrueGeneration, owned: Mapping[TopicPartition, str]
    ) -> None:
        before = group.roster
        group.roster = self._roster(group, generation)
        group.recorded = generation
        if group.cause is None:
            return
        changes = changes_between(before, group.roster)
        if has_added_partitions(owned, group.universe):
            changes.add(PARTITIONS_ADDED.name)
        if group.revokers & group.roster.seats.keys():
            changes.add(COOPERATIVE_FOLLOW_UP.name)
        group.cause.changes = tuple(sorted(changes))
        group.cause.from_generation = None if before is None else before.generation
        group.cause = None

    def _roster(self, group: _Incarnation, generation: TrueGeneration) -> Roster:
        seats = {member_id: self._identities[group.group_id, member_id].seat for member_id in generation.member_ids}
        return Roster(generation.generation, generation.protocol, generation.leader, seats, group.topics)

    def _own(
        self, group: _Incarnation, generation: TrueGeneration, owned: Mapping[TopicPartition, str], written: _Written
    ) -> None:
        for place, owner in [*group.owners.items()]:
            if owned.get(place) == owner.member_id:
                owner.to_generation = generation.generation
            else:
                owner.to_kafka_offset, owner.valid_to_ms = written
                del group.owners[place]
        for place, member_id in sorted(owned.items()):
            if place not in group.owners:
                owner = group.owners[place] = TrueOwner(
                    group_id=group.group_id,
                    incarnation=group.incarnation,
                    topic=place.topic,
                    partition=place.partition,
                    member_id=member_id,
                    client_id=self._identities[group.group_id, member_id].client_id,
                    from_generation=generation.generation,
                    to_generation=generation.generation,
                    from_kafka_offset=written.kafka_offset,
                    valid_from_ms=written.recorded_at_ms,
                )
                self.truth.owners.append(owner)

    def _replaced(self, group: _Incarnation, event: LogEvent, call: _Call) -> None:
        """Handles a static member's new id. There is a record only if no rebalance follows."""
        old, new = event.fields["previous_member_id"], event.fields["member_id"]
        known = self._identities.get((group.group_id, old))
        self._identities[group.group_id, new] = _identity(call.request, known)
        group.leave([old], event.happened_at_ms, LeaveCause.REPLACED)
        before, written = group.generation, call.written.get(group.group_id)
        if written is None or before is None or before.revision is None:
            return
        self._join(group, new, event.happened_at_ms)
        before.ended_at_ms = event.happened_at_ms
        generation = group.generation = group.recorded = replace(
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
        group.revokers.discard(old)
        del group.topics[old]
        group.topics[new] = frozenset(topics_of_subscription(dict(call.request.protocols)[before.protocol]))
        group.roster = self._roster(group, generation)
        owned = {place: new if owner.member_id == old else owner.member_id for place, owner in group.owners.items()}
        self._own(group, generation, owned, written)

    # Members

    def _join(self, group: _Incarnation, member_id: str, now_ms: int) -> None:
        identity = self._identities[group.group_id, member_id]
        group.tenures[member_id] = TrueTenure(
            group_id=group.group_id,
            incarnation=group.incarnation,
            member_id=member_id,
            joined_at_ms=now_ms,
            **identity._asdict(),
        )
        self.truth.members.append(group.tenures[member_id])

    @staticmethod
    def _left(group: _Incarnation, event: LogEvent, call: _Call) -> None:
        member_id, reason = event.fields["member_id"], event.fields["client_reason"]
        cause = triggers.LEFT_POLL_TIMEOUT if reason == POLL_TIMEOUT_REASON else triggers.LEFT
        if all(leaving.member_id != member_id for leaving in call.request.members):
            cause = triggers.ADMIN_REMOVED  # by its instance id
        group.leave([member_id], event.happened_at_ms, cause.name, reason)

    @staticmethod
    def _failed(group: _Incarnation, event: LogEvent, _: _Call) -> None:
        group.leave([event.fields["member_id"]], event.happened_at_ms, triggers.SESSION_EXPIRED.name)

    @staticmethod
    def _not_joined(group: _Incarnation, event: LogEvent, _: _Call) -> None:
        group.leave(event.fields["member_ids"], event.happened_at_ms, "failed_to_rejoin")

    # Failover

    @staticmethod
    def _loaded(group: _Incarnation, event: LogEvent, _: _Call) -> None:
        """Handles a failover. Only state with a record is left: later departures are undone, later members unknown."""
        if group.recorded is None or group.roster is None:
            return
        unknown = [member_id for member_id in group.tenures if member_id not in group.recorded.member_ids]
        group.leave(unknown, event.happened_at_ms, "coordinator_failover")
        for member_id, tenure in group.gone.items():
            if member_id in group.recorded.member_ids:
                tenure.left_at_ms = tenure.leave_cause = tenure.leave_reason = None
                group.tenures[member_id] = tenure
        group.gone.clear()
        if group.generation is not None and group.generation is not group.recorded:
            group.generation.ended_at_ms = event.happened_at_ms
            group.recorded.ended_at_ms = None
        group.generation = group.recorded
        group.topics = dict(group.roster.topics)
        group.cause = None
