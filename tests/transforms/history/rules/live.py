"""Plays random histories: consumers with Kafka's assignors around the reference coordinator, in virtual time.

Each round one thing happens (somebody joins, leaves, dies, restarts, subscribes anew; a topic grows; the leader fails
to sync; the group is deleted), and then the members rejoin until the group is at rest, with commits in between. The
truth is the consumers' own knowledge: which partitions each owned from which record on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.assignors import ASSIGNORS, Subscription, TopicPartitions
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetToCommit,
    SyncGroupRequest,
)
from groupledger.schemas.codec.consumer_protocol import decode_subscription, encode_assignment, encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.history.rules.events import GroupTombstone, group_record
from groupledger.transforms.records.decoded_record import record_fields, record_json
from lab.scenarios.coordinator_driver import lead_all
from lab.truth.histories import GROUP, Commit, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.model.operation import Batch, Result

COOPERATIVE = "cooperative-sticky"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
STEP_MS = 1_000
ROUNDS_MAX = 8

Owners = dict[TopicPartition, str]


@dataclass
class Consumer:
    client_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    member_id: str = ""
    owned: list[TopicPartition] = field(default_factory=list)
    generation: int = -1

    def identity(self, generation: int | None = None) -> dict[str, Any]:
        """Returns the fields by which requests name a member, of its own generation unless given otherwise."""
        return {
            "generation_id": self.generation if generation is None else generation,
            "member_id": self.member_id,
            "group_instance_id": self.group_instance_id,
        }


@dataclass(frozen=True)
class Truth:
    """The true state from a record on: the group's answer to the leader's sync, or the empty group."""

    at_ms: int
    generation: int
    leader: str | None
    members: frozenset[str]
    owners: Owners


class LiveGroup:
    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.now_ms = 1_000
        self.coordinator = Coordinator(Config(offsets_topic_num_partitions=1, group_min_session_timeout_ms=1))
        self.batches: list[Batch] = []
        self.answers: dict[int, Any] = {}
        self.consumers: list[Consumer] = []
        self.topics = {"orders": 3, "payments": 2}
        self.truth: list[Truth] = []
        self.committed = 0
        self._requests = 0
        self._names = 0
        self._collect(lead_all(self.coordinator, self.now_ms))

    # The coordinator

    def _collect(self, result: Result) -> None:
        self.batches += result.batches
        self.answers.update({answer.request_id: answer for answer in result.responses})
        for batch in result.batches:
            for record in batch.records:
                if record.record_type == "group_metadata" and record.value is not None and not record.value["members"]:
                    if record.value["generation"]:
                        self._note(record.value["generation"], None, (), {}, batch.timestamp_ms)
                elif record.record_type == "group_metadata" and record.value is None:
                    self._note(-1, None, (), {}, batch.timestamp_ms)

    def _note(
        self, generation: int, leader: str | None, members: Iterable[str], owners: Owners, at_ms: int | None = None
    ) -> None:
        at_ms = self.now_ms if at_ms is None else at_ms
        self.truth.append(Truth(at_ms, generation, leader, frozenset(members), owners))

    def wait(self, milliseconds: int) -> None:
        """Time passes in steps, with the heartbeats of those who are stable."""
        for _ in range(milliseconds // STEP_MS):
            self.now_ms += STEP_MS
            self._collect(self.coordinator.advance(self.now_ms))
            for consumer in self.consumers:
                if consumer.generation >= 0:
                    self.ask(HeartbeatRequest(self.request_id(), GROUP, **consumer.identity()))

    def request_id(self) -> int:
        self._requests += 1
        return self._requests

    def ask(self, request: Any) -> Any:
        """Returns the answer, or None while the request is parked."""
        self._collect(self.coordinator.handle(request, now_ms=self.now_ms))
        return self.answers.get(request.request_id)

    # What happens

    def join(self, *, is_static: bool) -> None:
        self._names += 1
        instance_id = f"instance-{self._names}" if is_static else None
        self.consumers.append(Consumer(f"client-{self._names}", ("orders",), instance_id))

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        leaving = LeavingMember(consumer.member_id, consumer.group_instance_id)
        self.ask(LeaveGroupRequest(self.request_id(), GROUP, (leaving,)))

    def die(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self.wait(SESSION_MS + STEP_MS)

    def restart(self, consumer: Consumer) -> None:
        """A static member keeps its place, and its assignment; a dynamic one leaves and comes back."""
        if consumer.group_instance_id is None:
            self.leave(consumer)
            self.consumers.append(Consumer(consumer.client_id, consumer.topics))
            return
        old_id, consumer.member_id, consumer.owned = consumer.member_id, "", []
        answer = self.ask(self._join_request(consumer))
        if answer is None or answer.error is not Error.NONE:
            return
        consumer.member_id = answer.member_id
        last = self.truth[-1]
        leader = answer.member_id if last.leader == old_id else last.leader
        members = (last.members - {old_id}) | {answer.member_id}
        owners = {unit: answer.member_id if owner == old_id else owner for unit, owner in last.owners.items()}
        consumer.owned = [unit for unit, owner in owners.items() if owner == answer.member_id]
        self._note(last.generation, leader, members, owners)

    def delete(self) -> None:
        """Refused unless the group is empty."""
        self.ask(DeleteGroupsRequest(self.request_id(), (GROUP,)))

    def commit(self) -> None:
        """Every member commits its partitions, one after the other; a member without partitions commits nothing."""
        for consumer in self.consumers:
            self.committed += 1
            self.now_ms += 13
            offsets = tuple(
                OffsetToCommit(topic=topic, partition=number, offset=self.committed) for topic, number in consumer.owned
            )
            if offsets and consumer.generation >= 0:
                self.ask(OffsetCommitRequest(self.request_id(), GROUP, offsets=offsets, **consumer.identity()))

    # Rebalances

    def rebalance(self, *, lose_sync: bool = False) -> None:
        """Rounds until nobody has anything to give up; in a lost one the leader dies before it syncs."""
        for _ in range(ROUNDS_MAX):
            if not self.consumers or not self._round(lose_sync=lose_sync):
                return
            lose_sync = False
        raise AssertionError(f"the group is not at rest after {ROUNDS_MAX} rounds")

    def _round(self, *, lose_sync: bool) -> bool:
        """Plays one rebalance, and returns whether another one is needed."""
        self.commit()
        leader_id = self.truth[-1].leader if self.truth else None
        # Newcomers and then the leader: whoever joins after them finds a rebalance under way.
        self.consumers.sort(key=lambda consumer: (bool(consumer.member_id), consumer.member_id != leader_id))
        joins = {id(consumer): self._join_request(consumer) for consumer in self.consumers}
        for consumer in self.consumers:
            self.ask(joins[id(consumer)])
            answer = self.answers.get(joins[id(consumer)].request_id)
            if answer is not None and answer.error is Error.MEMBER_ID_REQUIRED:
                consumer.member_id = answer.member_id
                joins[id(consumer)] = self._join_request(consumer)
                self.ask(joins[id(consumer)])
            if self.protocol != COOPERATIVE:
                consumer.owned = []
            consumer.generation = -1
        while any(join.request_id not in self.answers for join in joins.values()):
            self.now_ms += STEP_MS
            self._collect(self.coordinator.advance(self.now_ms))
        answers = {id(consumer): self.answers[joins[id(consumer)].request_id] for consumer in self.consumers}
        refused = [consumer for consumer in self.consumers if answers[id(consumer)].error is not Error.NONE]
        generations = {answer.generation_id for answer in answers.values()}
        if refused or len(generations) > 1:
            for consumer in refused:
                consumer.member_id, consumer.owned = "", []
            return True
        for consumer in self.consumers:
            consumer.member_id = answers[id(consumer)].member_id
        leader = next((c for c in self.consumers if c.member_id == answers[id(c)].leader), None)
        if leader is None or not answers[id(leader)].members:
            return True  # the leader is dead, or the answer was about the generation before
        return self._lose_sync(leader, *generations) if lose_sync else self._sync(leader, answers[id(leader)])

    def _lose_sync(self, leader: Consumer, generation: int) -> bool:
        """The leader dies while the others wait for its assignment."""
        self.consumers.remove(leader)
        for consumer in self.consumers:
            self._send_sync(consumer, generation)
        self.now_ms += SESSION_MS + STEP_MS
        self._collect(self.coordinator.advance(self.now_ms))
        return True

    def _send_sync(self, consumer: Consumer, generation: int, assignments: tuple[tuple[str, bytes], ...] = ()) -> Any:
        request = SyncGroupRequest(
            self.request_id(),
            GROUP,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=assignments,
            **consumer.identity(generation),
        )
        return self.ask(request)

    def _sync(self, leader: Consumer, answer: Any) -> bool:
        members = {member.member_id: self._subscription(member) for member in answer.members}
        counts = {topic: TopicPartitions(count) for topic, count in self.topics.items()}
        assigned = ASSIGNORS[self.protocol](counts, members)
        encoded = tuple((member_id, _assignment(units)) for member_id, units in assigned.items())
        self.now_ms += 7
        followers = [consumer for consumer in self.consumers if consumer is not leader]
        for consumer in (leader, *followers):
            synced = self._send_sync(consumer, answer.generation_id, encoded if consumer is leader else ())
            assert synced.error is Error.NONE
            if consumer is leader:
                owners = {unit: member_id for member_id, units in assigned.items() for unit in units}
                self._note(answer.generation_id, leader.member_id, members, owners)
        must_rejoin = False
        for consumer in self.consumers:
            units = assigned[consumer.member_id]
            must_rejoin |= not set(consumer.owned) <= set(units)
            consumer.owned, consumer.generation = units, answer.generation_id
        return must_rejoin

    def _subscription(self, member: Any) -> Subscription:
        fields = decode_subscription(member.metadata).fields
        owned = tuple(
            TopicPartition(each["topic"], number)
            for each in fields["owned_partitions"]
            for number in each["partitions"]
        )
        return Subscription(
            topics=tuple(fields["topics"]),
            owned_partitions=owned,
            generation_id=fields["generation_id"],
            group_instance_id=member.group_instance_id,
        )

    def _join_request(self, consumer: Consumer) -> JoinGroupRequest:
        request_id = self.request_id()
        owned = _topic_partitions(consumer.owned if self.protocol == COOPERATIVE else [])
        fields = {
            "topics": sorted(consumer.topics),
            "user_data": None,
            "owned_partitions": owned,
            "generation_id": self.truth[-1].generation if owned and self.truth else -1,
            "rack_id": None,
        }
        return JoinGroupRequest(
            request_id,
            GROUP,
            member_id=consumer.member_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=((self.protocol, encode_subscription(ProtocolMessage(3, fields))),),
            new_member_uuid=f"{request_id:012x}",
            group_instance_id=consumer.group_instance_id,
            client_id=consumer.client_id,
        )

    # The log

    def log(self) -> list[Entry]:
        entries: list[Entry] = []
        for batch in self.batches:
            for offset, record in enumerate(batch.records, batch.base_offset):
                if record.record_type == "offset_commit":
                    committed = None if record.value is None else record.value["offset"]
                    place = (record.key["topic"], record.key["partition"])
                    entries.append(Commit(offset, batch.timestamp_ms, *place, committed))
                elif record.value is None:
                    entries.append(GroupTombstone(offset, batch.timestamp_ms))
                else:
                    entries.append(group_record(offset, batch.timestamp_ms, record_json(record_fields(record))))
        return entries


def _topic_partitions(units: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(units):
        by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def _assignment(units: Iterable[tuple[str, int]]) -> bytes:
    fields = {"assigned_partitions": _topic_partitions(units), "user_data": None}
    return encode_assignment(ProtocolMessage(3, fields))


ACTIONS = (
    "join",
    "join",
    "join static",
    "leave",
    "die",
    "restart",
    "subscribe",
    "grow",
    "lose sync",
    "delete",
    "nothing",
)
SUBSCRIPTIONS = (("orders",), ("payments",), ("orders", "payments"))


def play(protocol: str, actions: Iterable[tuple[str, int]]) -> LiveGroup:
    """Plays these actions, each on the consumer of that number, and returns the group."""
    group = LiveGroup(protocol)
    for action, number in actions:
        consumer = group.consumers[number % len(group.consumers)] if group.consumers else None
        if action.startswith("join"):
            group.join(is_static=action == "join static")
        elif action == "grow":
            group.topics["orders"] += 1
        elif action == "delete":
            group.delete()
        elif consumer is not None and action == "subscribe":
            consumer.topics = SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)]
        elif consumer is not None and action in ("leave", "die", "restart"):
            getattr(group, action)(consumer)
        if action != "nothing":
            group.rebalance(lose_sync=action == "lose sync")
        group.wait(3 * STEP_MS)
        group.commit()
        group.wait(2 * STEP_MS)
    return group
