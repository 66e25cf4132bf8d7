"""Plays random requests about share groups on a broker and on the coordinator, and compares answers and records.

A sequence has two groups. Members join, heartbeat, subscribe to other topics, leave, join again with the id that they
have, repeat an old epoch or make one up, until the group is full. Administrators describe and delete the groups. Other
clients use the groups' ids in requests of other group types, also before the groups exist, so that an id may become a
consumer group's or only have offsets. In some sequences a topic of their own is created or grows meanwhile. Some end
with all members silent: the broker is then configured to end their sessions soon, and the coordinator's virtual time
moves forward.

A broker answers a heartbeat before the share coordinator has initialized new partitions and the record about that is
written. So the test waits until the broker has written as many records as the coordinator; their order is compared,
their times are not. Not played: the deletion of topics, a share coordinator that fails or is slow, and topics with more
than sixteen partitions: the coordinator may assign other partitions of these than a broker does
(`groups/share/simple.py`)."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.groups.modern.epochs import LEFT
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    Request,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kafka.uuids import kafka_id_of
from lab.kafka.connection import CLIENT_ID, Connection
from lab.kafka.consumer_differential import PROPERTIES as OF_CONSUMERS
from lab.kafka.consumer_differential import RACK
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS, TOPICS
from lab.kafka.group_messages import from_wire, to_wire
from lab.kafka.group_timers import SHORT_HEARTBEAT_MS, SHORT_SESSION_MS, await_until, let_sessions_end
from lab.kafka.paired_play import Outcome, PairedPlay, known_topics, play_each

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

MAX_SIZE = 6
HEARTBEAT_MS = 500
PROPERTIES = {
    **OF_CONSUMERS,
    "group.share.max.size": str(MAX_SIZE),
    "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.share.min.heartbeat.interval.ms": str(SHORT_HEARTBEAT_MS),
    "group.share.min.session.timeout.ms": str(SHORT_SESSION_MS),
}
STEPS_MAX = 40
PARTITIONS_MAX = 16
ROUNDS_UNTIL_STABLE = 3  # something is initialized, is given, and is sent to all
SHARE_OF_OWN_TOPIC, SHARE_OF_SILENCE = 0.25, 0.06


@dataclass
class _Member:
    group_id: str
    member_id: str
    epoch: int = 0
    topics: tuple[str, ...] = field(default=())


class _Play(PairedPlay):
    def __init__(self, connection: Connection, topics: list[Topic], name: str, dice: random.Random) -> None:
        config = Config(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_share_heartbeat_interval_ms=HEARTBEAT_MS,
            group_share_max_size=MAX_SIZE,
        )
        super().__init__(connection, topics, (f"{name}-a", f"{name}-b"), dice, config)
        self._members: list[_Member] = []
        self._own_topic = f"{name}-topic" if dice.random() < SHARE_OF_OWN_TOPIC else None
        self._name = name

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((8, self._join), (14, self._heartbeat), (3, self._subscribe), (3, self._leave), (1, self._rejoin)),
            *((2, self._wrong_epoch), (1, self._nonsense), (1, self._delete_group), (1, self._of_another_type)),
        ]
        if self._own_topic is not None:
            actions.append((2, self._change_topic))
        for _ in range(self.dice.randint(5, STEPS_MAX)):
            self.choose(actions)
            self.ask(ShareGroupDescribeRequest(next(self.requests), group_ids=self.group_ids))
        if self.dice.random() < SHARE_OF_SILENCE and not any(map(self.model.consumer_group, self.group_ids)):
            self._be_silent()

    # Actions of members

    def _beat(self, member: _Member, **changes: Any) -> Error:
        answer = self.ask(replace(self._request(member), **changes))
        if answer.error is Error.NONE:
            member.epoch = answer.member_epoch
        error: Error = answer.error
        return error

    def _request(self, member: _Member) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            next(self.requests),
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            client_id=CLIENT_ID,
        )

    def _words(self, member: _Member) -> dict[str, Any]:
        return {"subscribed_topic_names": member.topics, "rack_id": self.dice.choice([None, None, RACK, "rack-2"])}

    def _topics(self) -> tuple[str, ...]:
        names = [*TOPICS, "seq-that-is-not-there", *([] if self._own_topic is None else [self._own_topic])]
        if self.dice.random() < 0.5:
            return tuple(names)
        return tuple(self.dice.sample(names, self.dice.randint(1, len(names))))

    def _new_id(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128), version=4))

    def _join(self) -> None:
        group_id = self.dice.choices(self.group_ids, (3, 1))[0]
        member = _Member(group_id, self._new_id(), topics=self._topics())
        if self._beat(member, **self._words(member)) is Error.NONE:
            self._members.append(member)

    def _heartbeat(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            words = {"subscribed_topic_names": member.topics} if self.dice.random() < 0.1 else {}
            self._beat(member, **words)

    def _subscribe(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            member.topics = self._topics() if self.dice.random() < 0.9 else ()
            self._beat(member, **self._words(member))

    def _leave(self) -> None:
        if self._members:
            member = self._members.pop(self.dice.randrange(len(self._members)))
            self._beat(member, member_epoch=LEFT)

    def _rejoin(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            member.topics = self._topics()
            self._beat(member, member_epoch=0, **self._words(member))

    def _wrong_epoch(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            self._beat(member, member_epoch=self.dice.choice([member.epoch - 1, member.epoch + 1, 1, -2]))

    def _nonsense(self) -> None:
        """Sends a request that no client would send."""
        member = self.dice.choice(self._members) if self._members else _Member(self.group_ids[0], self._new_id())
        changes: list[dict[str, Any]] = [
            *({"member_id": ""}, {"member_id": " "}, {"rack_id": " "}, {"group_id": ""}, {"member_epoch": -3}),
            *({"member_epoch": 0}, {"member_epoch": 0, "subscribed_topic_names": ()}, {"group_id": f"{self._name}-c"}),
            *({"member_id": self._new_id(), "member_epoch": epoch} for epoch in (7, LEFT)),
        ]
        self._beat(replace(member), **self.dice.choice(changes))

    # Actions of others

    def _delete_group(self) -> None:
        deleted = self.ask(DeleteGroupsRequest(next(self.requests), self.group_ids[: self.dice.randint(1, 2)]))
        gone = {each.group_id for each in deleted.results if each.error is Error.NONE}
        self._members = [member for member in self._members if member.group_id not in gone]

    def _of_another_type(self) -> None:
        """Asks with the id of a group as another type of group would. No classic member joins but where it is refused,
        since its id would be the broker's."""
        group_id = self.dice.choice(self.group_ids)
        named: dict[str, Any] = {"group_id": group_id, "member_id": self._new_id()}
        offset = OffsetToCommit(topic="seq-a", partition=0, offset=3)
        kinds: list[Callable[[int], Request]] = [
            lambda number: OffsetCommitRequest(number, group_id=group_id, offsets=(offset,)),
            lambda number: OffsetCommitRequest(number, **named, generation_id=1, offsets=(offset,)),
            lambda number: OffsetFetchRequest(number, (OffsetFetchGroup(group_id, None),)),
            lambda number: OffsetDeleteRequest(number, group_id, (TopicPartition("seq-a", 0),)),
            lambda number: HeartbeatRequest(number, **named, generation_id=1),
            lambda number: SyncGroupRequest(
                number, **named, generation_id=1, protocol_type="consumer", protocol_name="range"
            ),
            lambda number: LeaveGroupRequest(number, group_id, (LeavingMember(named["member_id"]),)),
            lambda number: join_of_consumer(number, named, epoch=0),
            lambda number: join_of_consumer(number, named, epoch=1),
        ]
        if self.model.share_group(group_id) is not None:
            kinds.append(lambda number: join_of_classic(number, named))
        self.ask(self.dice.choice(kinds)(next(self.requests)))

    def _change_topic(self) -> None:
        """Creates the sequence's own topic, or makes it grow, and waits until the broker's coordinator knows."""
        name = self._own_topic or ""
        before = self.model.topics.get(name)
        partitions = self.dice.choice([1, 2, 3, 8]) + (0 if before is None else before.partition_count)
        if partitions > PARTITIONS_MAX:
            return
        if before is None:
            kind = CreateTopicsRequest.CreatableTopic
            created = self.connection.call(
                CreateTopicsRequest(
                    version=7,
                    topics=[kind(name=name, num_partitions=partitions, replication_factor=1)],
                    timeout_ms=30_000,
                )
            )
            topic_id = kafka_id_of(created.topics[0].topic_id)
        else:
            topic_id = before.topic_id
            grown = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
            self.connection.call(CreatePartitionsRequest(version=3, topics=[grown], timeout_ms=30_000))
        self._await_topic(name, partitions)
        self.model.topics[name] = Topic(name, topic_id, partitions, ((RACK,),) * partitions)

    def _await_topic(self, name: str, partitions: int) -> None:
        """Waits until a member of another group is given all partitions of a topic."""
        member = _Member(f"{self._name}-probe", f"probe-{partitions}")
        request = replace(self._request(member), subscribed_topic_names=(name,))

        def is_known() -> bool:
            answer = from_wire(self.connection.call(to_wire(request)), request)
            assignment = getattr(answer, "assignment", None) or {}
            return sum(map(len, assignment.values())) == partitions

        await_until(is_known)
        leaving = replace(request, member_epoch=LEFT, subscribed_topic_names=None)
        self.connection.call(to_wire(leaving))

    def _be_silent(self) -> None:
        """Lets every member be heard of once more, and then never again."""
        for member in self._members * ROUNDS_UNTIL_STABLE:
            self._beat(member)
        described = ShareGroupDescribeRequest(next(self.requests), group_ids=self.group_ids)
        heartbeats = [*map(self._request, self._members)]
        let_sessions_end(self, "share", heartbeats, described, self.model.config.group_share_session_timeout_ms, {})


def join_of_consumer(number: int, named: dict[str, Any], *, epoch: int) -> Request:
    return ConsumerGroupHeartbeatRequest(
        number,
        **named,
        member_epoch=epoch,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=("seq-a",),
        owned={},
        client_id=CLIENT_ID,
    )


def join_of_classic(number: int, named: dict[str, Any]) -> JoinGroupRequest:
    return JoinGroupRequest(
        number,
        **named,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        protocol_type="consumer",
        protocols=(("range", b""),),
        new_member_uuid="",
    )


def play_all(
    bootstrap_servers: str, sequences: Iterable[int], seed: int, *, restart: Callable[[], None] | None = None
) -> Outcome:
    with closing(Connection(bootstrap_servers)) as connection:
        topics = known_topics(connection, RACK)
        return play_each(
            sequences,
            seed,
            lambda number, dice: nullcontext(_Play(connection, topics, f"share-{seed}-{number}", dice)),
            restart,
        )
