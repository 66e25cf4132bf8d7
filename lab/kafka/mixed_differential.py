"""Plays random requests of classic and KIP-848 members of one group on a broker and on the coordinator.

In addition to the requests of `consumer_differential` there are members of the classic protocol, dynamic and static, in
the same group. They join, sync, heartbeat, leave and commit, with right and wrong generations, with subscriptions of
every version, and report the partitions that they own, or fewer or more. Leaders assign well or badly. So the group
changes its protocol in both directions, with members and without, in every state, and static members change theirs,
too. `group.consumer.migration.policy` is a setting of a broker, so each of its four values has a broker of its own.

The next request depends on what the coordinator knows. A request that is answered later keeps its connection until
then, and a fence after it makes sure that the broker has taken it (`broker_driver`).
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import MIGRATION_POLICIES
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.groups.classic.subscription import (
    OWNED_SINCE,
    UnreadableSubscriptionError,
    read_assignment,
)
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    SyncGroupRequest,
)
from groupledger.schemas.codec.consumer_protocol import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.kafka.errors import Error
from lab.kafka.connection import ANSWER_SECONDS_MAX, CLIENT_ID, Connection
from lab.kafka.consumer_differential import PROPERTIES as OF_CONSUMERS
from lab.kafka.consumer_differential import RACK, ConsumerPlay
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS, TOPICS
from lab.kafka.group_messages import comparable_response, from_wire, to_wire
from lab.kafka.paired_play import UNKNOWN_ID, DifferenceError, Outcome, in_order, play_each
from lab.kafka.topic_order import answer_by_topic, comparable_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from random import Random

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.messages import Protocols, Request

STEPS_MAX = 40
SESSION_TIMEOUT_MS = 600_000
INSTANCES = ("i0", "i1", "i2")
UNREADABLE = (b"", b"\0", b"\0\1\0\0", b"\0\0\x7f\0\0\0", b"\xff\xff")
NAMES = ("range", "roundrobin", "cooperative-sticky")


def properties(policy: str) -> dict[str, str]:
    return {**OF_CONSUMERS, "group.consumer.migration.policy": policy}


@dataclass
class _Waiting:
    request: Request
    connection: Connection
    expected: Any = None


@dataclass(frozen=True)
class _Classic:
    """A classic member as the coordinator knows it. `owned` are partitions by topic name."""

    member_id: str
    instance_id: str | None
    generation: int
    protocols: Protocols
    owned: dict[str, tuple[int, ...]]


class MixedPlay(ConsumerPlay):
    def __init__(
        self,
        bootstrap_servers: str,
        rack: str | None,
        group_id: str,
        dice: Random,
        policy: str,
        server_log: Path | None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._free: list[Connection] = []
        self._waiting: list[_Waiting] = []
        self._policy = policy
        super().__init__(Connection(bootstrap_servers), rack, group_id, dice, server_log)

    def _config(self) -> Config:
        return changed(super()._config(), group_consumer_migration_policy=self._policy)

    def close(self) -> None:
        for connection in (self.connection, *self._free, *(each.connection for each in self._waiting)):
            connection.close()

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((2, self._join), (7, self._heartbeat), (1, self._subscribe), (3, self._leave), (1, self._go_away)),
            *((1, self._come_back), (1, self._wrong_epoch), (1, self._commit), (1, self._fetch), (1, self._nonsense)),
            *((1, self._delete_offsets), (1, self._delete_group), (1, self._take_instance)),
            *((5, self._join_classic), (8, self._beat_classic), (5, self._rejoin), (5, self._sync), (2, self._quit)),
            *((4, self._settle_down), (1, self._commit_classic), (1, self._strange_join), (1, self._list)),
        ]
        for _ in range(self.dice.randint(5, STEPS_MAX)):
            self.choose(actions)
            self.ask(ConsumerGroupDescribeRequest(next(self.requests), group_ids=(self._group_id,)))
            self.ask(DescribeGroupsRequest(next(self.requests), (self._group_id,)))

    def load(self, restart: Callable[[], None]) -> None:
        if self._waiting:  # answers on their way would be lost
            self.loads_before = 1
            return
        while self._free:
            self._free.pop().close()
        super().load(restart)

    # Requests that may wait

    def ask(self, request: Request) -> Any:
        """Sends a request to broker and coordinator, and compares all answers that are due and all records. Returns the
        answer to this request, or None if it is answered later."""
        self.may_load()
        self.now_ms += 1
        connection = self._free.pop() if self._free else Connection(self._bootstrap_servers)
        connection.send(to_wire(request))
        if isinstance(request, JoinGroupRequest) and not request.member_id:
            request = self._with_drawn_id(request, connection)
        result = self.model.handle(request, now_ms=self.now_ms)
        late = self.model.advance(self.now_ms)
        self._waiting.append(_Waiting(request, connection))
        responses = {each.request_id: each for each in (*result.responses, *late.responses)}
        for waiting in self._waiting:
            waiting.expected = responses.get(waiting.request.request_id)
        if request.request_id not in responses:
            self._describe()  # the fence
        answer = self._settle(request)
        self._events += [*result.events, *late.events]
        records = [*result.records, *late.records]
        written = self.read_at_least(len(records))
        self.compare(request, [*map(comparable_by_topic, records)], [*map(comparable_by_topic, written)])
        self.compared.update(f"record {each.record_type}" for each in written)
        return answer

    def _settle(self, request: Request) -> Any:
        """Takes the answers that are due according to the coordinator, and no others."""
        own = None
        for waiting in tuple(self._waiting):
            if waiting.expected is None:
                continue
            answer = comparable_response(from_wire(waiting.connection.receive(), waiting.request), waiting.request)
            answer = self._of_this_group(answer)
            expected = in_order(answer_by_topic(comparable_response(waiting.expected, waiting.request)))
            self.compare(waiting.request, expected, in_order(answer_by_topic(answer)))
            self.compared[f"{type(waiting.request).__name__} {getattr(answer, 'error', Error.NONE).name}"] += 1
            self._waiting.remove(waiting)
            self._free.append(waiting.connection)
            own = answer if waiting.request is request else own
        for waiting in self._waiting:
            if waiting.connection.is_answered():
                self.compare(waiting.request, "none yet", from_wire(waiting.connection.receive(), waiting.request))
        return own

    def _of_this_group(self, answer: Any) -> Any:
        groups = getattr(answer, "groups", ())
        return (
            changed(answer, groups=tuple(each for each in groups if each.group_id == self._group_id))
            if groups
            else answer
        )

    def _with_drawn_id(self, request: JoinGroupRequest, connection: Connection) -> JoinGroupRequest:
        """Returns the request with the id that the broker drew, which is in the answer or, while the request waits, in
        the description of the group; one that is in neither is UNKNOWN_ID."""
        group = self.model.group(self._group_id)
        known = set() if group is None else set(group.members)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        drawn, is_answered = "", False
        while not drawn and not is_answered:
            if time.monotonic() > deadline:
                raise DifferenceError(f"{request}: neither answered nor a member")
            is_answered = connection.is_answered()
            drawn = connection.peek().member_id if is_answered else ""
            for member in () if drawn else self._describe().members:
                if member.member_id not in known and member.group_instance_id == request.group_instance_id:
                    drawn = member.member_id
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        return changed(request, new_member_uuid=drawn.removeprefix(f"{prefix}-") or UNKNOWN_ID)

    def _describe(self) -> Any:
        asked = DescribeGroupsRequest(0, (self._group_id,))
        answer: Any = from_wire(self.connection.call(to_wire(asked)), asked)
        return answer.groups[0]

    # State of the coordinator

    def _classic_members(self) -> list[_Classic]:
        group, consumers = self.model.group(self._group_id), self.model.consumer_group(self._group_id)
        if consumers is not None:
            names = {topic.topic_id: name for name, topic in self.model.topics.items()}
            return [
                _Classic(
                    each.member_id,
                    each.instance_id,
                    each.epoch,
                    each.classic.protocols,
                    {names[topic_id]: numbers for topic_id, numbers in each.assigned.items()},
                )
                for each in consumers.members.values()
                if each.classic is not None
            ]
        if group is None:
            return []
        return [
            _Classic(
                each.member_id,
                each.group_instance_id,
                group.generation_id,
                each.protocols,
                _partitions(each.assignment),
            )
            for each in group.members.values()
        ]

    def _one_classic(self) -> _Classic | None:
        members = self._classic_members()
        return self.dice.choice(members) if members else None

    # Actions of classic members

    def _protocols(self, owned: dict[str, tuple[int, ...]]) -> Protocols:
        fields = {
            "topics": [*self._topics()],
            "user_data": self.dice.choice([None, None, b"", b"data"]),
            "owned_partitions": [{"topic": topic, "partitions": [*numbers]} for topic, numbers in owned.items()],
            "generation_id": -1,
            "rack_id": self.dice.choice([None, None, "", "rack-2"]),
        }
        version = self.dice.choice([0, 1, 1, 2, 3, 3])
        subscription = encode_subscription(ProtocolMessage(version, _of_version(fields, version)))
        names = self.dice.choice([NAMES[:1], NAMES[:1], NAMES[:2], NAMES[1:], NAMES])
        return tuple((name, subscription) for name in names)

    def _join_request(
        self, member_id: str, instance_id: str | None, protocols: Protocols, **more: Any
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            next(self.requests),
            group_id=self._group_id,
            member_id=member_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=self.dice.choice([REBALANCE_TIMEOUT_MS, 600_000]),
            protocol_type=more.pop("protocol_type", "consumer"),
            protocols=protocols,
            new_member_uuid="",
            group_instance_id=instance_id,
            client_id=CLIENT_ID,
            **more,
        )

    def _join_classic(self) -> None:
        instance_id = self.dice.choice(INSTANCES) if self.dice.random() < 0.3 else None
        protocols = self._protocols({})
        version = self.dice.choice([9, 9, 9, 5, 3]) if instance_id is None else 9
        answer = self.ask(self._join_request("", instance_id, protocols, api_version=version))
        if answer is not None and answer.error is Error.MEMBER_ID_REQUIRED and self.dice.random() < 0.9:
            self.ask(self._join_request(answer.member_id, None, protocols))

    def _rejoin(self) -> None:
        member = self._one_classic()
        if member is not None:
            self._join_again(member, is_same=self.dice.random() < 0.6)

    def _join_again(self, member: _Classic, *, is_same: bool) -> None:
        owned = {topic: numbers for topic, numbers in member.owned.items() if self.dice.random() < 0.9}
        protocols = self._protocols(owned)
        if is_same:
            protocols = tuple((name, _with_owned(metadata, owned)) for name, metadata in member.protocols)
        instance_id = member.instance_id
        if self.dice.random() < 0.1:
            instance_id = self.dice.choice([None, *INSTANCES])
        self.ask(self._join_request(member.member_id, instance_id, protocols))

    def _beat_classic(self) -> None:
        member = self._one_classic()
        if member is None:
            return
        instance_id = member.instance_id if self.dice.random() < 0.9 else self.dice.choice([None, *INSTANCES])
        heartbeat = HeartbeatRequest(
            next(self.requests),
            group_id=self._group_id,
            generation_id=self._generation(member),
            member_id=member.member_id,
            group_instance_id=instance_id,
        )
        answer = self.ask(heartbeat)
        if answer.error is Error.REBALANCE_IN_PROGRESS and self.dice.random() < 0.8:
            self._join_again(member, is_same=True)
            if self.model.consumer_group(self._group_id) is not None and self.dice.random() < 0.8:
                for now in self._classic_members():
                    if now.member_id == member.member_id:
                        self._sync_member(now)

    def _generation(self, member: _Classic) -> int:
        return member.generation + self.dice.choice([0, 0, 0, 0, 0, 0, 0, 0, -1, 1])

    def _sync(self) -> None:
        member = self._one_classic()
        if member is not None:
            self._sync_member(member)

    def _sync_member(self, member: _Classic) -> None:
        group = self.model.group(self._group_id)
        name = member.protocols[0][0] if group is None else group.protocol_name
        kind = "consumer"
        if self.dice.random() < 0.1:
            kind, name = self.dice.choice([("connect", name), ("consumer", "wrong")])
        instance_id = member.instance_id if self.dice.random() < 0.95 else self.dice.choice([None, *INSTANCES])
        named: dict[str, Any] = {"protocol_type": kind, "protocol_name": name, "api_version": 5}
        if self.dice.random() < 0.1 or name is None:
            named = {"api_version": 4}
        request = SyncGroupRequest(
            next(self.requests),
            group_id=self._group_id,
            generation_id=self._generation(member),
            member_id=member.member_id,
            group_instance_id=instance_id,
            assignments=self._assignments(),
            **named,
        )
        self.ask(request)

    def _assignments(self) -> tuple[tuple[str, bytes], ...]:
        """Returns what a leader gives: mostly everything, each partition once."""
        members = [member.member_id for member in self._classic_members()]
        if not members or self.dice.random() < 0.05:
            return ()
        given: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in members}
        for topic, count in TOPICS.items():
            for number in range(count):
                given[self.dice.choice(members)].setdefault(topic, []).append(number)
        if self.dice.random() < 0.03:
            topic = self.dice.choice([*TOPICS])
            for partitions in given.values():
                partitions[topic] = [0]
        if self.dice.random() < 0.05:
            given[members[0]]["seq-that-is-not-there"] = [0]
        user_data = b"data" if self.dice.random() < 0.03 else None
        assignments = {
            member_id: encode_assignment(
                ProtocolMessage(
                    self.dice.choice([0, 1, 3]),
                    {
                        "assigned_partitions": [
                            {"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()
                        ],
                        "user_data": user_data,
                    },
                )
            )
            for member_id, partitions in given.items()
        }
        if self.dice.random() < 0.04:
            assignments[self.dice.choice(members)] = self.dice.choice(UNREADABLE)
        return tuple(assignments.items())

    def _settle_down(self) -> None:
        """Lets all classic members join and sync, as well-behaved clients do."""
        group = self.model.group(self._group_id)
        if group is None:
            for member in self._classic_members():
                self._join_again(member, is_same=True)
            for member in self._classic_members():
                self._sync_member(member)
            return
        for member in self._classic_members():
            waits = group.members.get(member.member_id)
            if group.state is State.PREPARING_REBALANCE and waits is not None and waits.awaiting_join is None:
                request = self._join_request(member.member_id, member.instance_id, member.protocols)
                self.ask(request)
        if group.state is State.COMPLETING_REBALANCE:
            for member in self._classic_members():
                self._sync_member(member)

    def _quit(self) -> None:
        member = self._one_classic()
        if member is None:
            return
        leaving = LeavingMember(member.member_id, member.instance_id)
        if self.dice.random() < 0.2:
            strange = [
                LeavingMember("", member.instance_id),
                LeavingMember(member.member_id, self.dice.choice(INSTANCES)),
                LeavingMember(member.member_id),
                LeavingMember(self._new_id()),
                *(LeavingMember(each.member_id) for each in self._members[:1]),
            ]
            leaving = self.dice.choice(strange)
        self.ask(
            LeaveGroupRequest(
                next(self.requests),
                group_id=self._group_id,
                members=(leaving,),
                api_version=self.dice.choice([5, 5, 3]),
            )
        )

    def _take_instance(self) -> None:
        """Lets a member join under an instance id that may be another's, of any protocol."""
        if self.dice.random() < 0.5:
            instances = [member.instance_id for member in (*self._members, *self._away) if member.instance_id]
            instance_id = self.dice.choice([*instances, *INSTANCES])
            self.ask(self._join_request("", instance_id, self._protocols({})))
        else:
            self._join_with(self.dice.choice(INSTANCES))

    def _strange_join(self) -> None:
        """Sends a request that no client would send."""
        good = self._protocols({})
        strange: list[dict[str, Any]] = [
            {"protocols": ()},
            {"protocols": good, "protocol_type": "connect"},
            {"protocols": (("range", b"\0"),)},
            {"protocols": (("range", b"\0\0\x7f\0\0\0"),)},
            {"protocols": (("range", b"\xff\xff"),)},
            {"protocols": (("other", good[0][1]),)},
            {"protocols": good},
        ]
        chosen = self.dice.choice(strange)
        known = [*(each.member_id for each in self._members), *(each.member_id for each in self._classic_members())]
        member_id = self.dice.choice(["", self._new_id(), *known])
        instance_id = self.dice.choice([None, None, *INSTANCES])
        self.ask(self._join_request(member_id, instance_id, chosen.pop("protocols"), **chosen))

    def _commit_classic(self) -> None:
        member = self._one_classic()
        if member is None:
            return
        topic = self.dice.choice([*TOPICS])
        self.ask(
            OffsetCommitRequest(
                next(self.requests),
                group_id=self._group_id,
                offsets=(OffsetToCommit(topic=topic, partition=0, offset=self.dice.randrange(100)),),
                generation_id=self._generation(member),
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                api_version=self.dice.choice([9, 8]),
            )
        )
        asked = OffsetFetchGroup(self._group_id, None, member.member_id, self._generation(member))
        self.ask(OffsetFetchRequest(next(self.requests), (asked,)))

    def _list(self) -> None:
        self.ask(ListGroupsRequest(next(self.requests)))


def _of_version(fields: dict[str, Any], version: int) -> dict[str, Any]:
    known = ["topics", "user_data", *["owned_partitions", "generation_id", "rack_id"][:version]]
    return {name: fields[name] for name in known}


def _with_owned(metadata: bytes, owned: dict[str, tuple[int, ...]]) -> bytes:
    """Returns a subscription with other owned partitions, if its version has them."""
    with suppress(DecodeError):
        message = decode_subscription(metadata)
        if message.version >= OWNED_SINCE:
            by_topic = [{"topic": topic, "partitions": [*numbers]} for topic, numbers in owned.items()]
            return encode_subscription(changed(message, fields={**message.fields, "owned_partitions": by_topic}))
    return metadata


def _partitions(assignment: bytes) -> dict[str, tuple[int, ...]]:
    with suppress(UnreadableSubscriptionError, IllegalStateError):
        return dict(read_assignment(assignment).partitions)
    return {}


def play_all(
    bootstrap_servers: str,
    sequences: Iterable[int],
    seed: int,
    *,
    restart: Callable[[], None] | None = None,
    policy: str = MIGRATION_POLICIES[0],
    rack: str | None = RACK,
    server_log: Path | None = None,
) -> Outcome:
    return play_each(
        sequences,
        seed,
        lambda number, dice: closing(
            MixedPlay(bootstrap_servers, rack, f"mixed-{seed}-{number}", dice, policy, server_log)
        ),
        restart,
    )
