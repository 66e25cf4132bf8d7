"""Provides the common parts of plays of streams groups: members and their heartbeats, the broker's targets, and topics
that change.

The broker decides which tasks a member gets: the coordinator takes the targets from the records that the broker wrote,
and checks that they are legal. The broker creates missing internal topics after its answer, so the play waits for them.
It waits for every topic that changes, too, by means of heartbeats of another group (`know_all`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.assignors import in_turn
from groupledger.coordinator.model.groups.streams.configured import StatusCode
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.groups.streams.member import Endpoint
from groupledger.coordinator.model.groups.streams.records import CURRENT, TARGET
from groupledger.coordinator.model.groups.streams.tasks import TasksByRole
from groupledger.coordinator.model.groups.streams.topology import KeyValue, Subtopology, Topology
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.messages import DeleteGroupsRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of
from lab.kafka.connection import CLIENT_ID, Connection
from lab.kafka.consumer_differential import RACK
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS
from lab.kafka.group_messages import from_wire, to_wire
from lab.kafka.group_timers import await_until
from lab.kafka.paired_play import PairedPlay
from lab.kafka.streams_topologies import Topologies

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from groupledger.coordinator.model.groups.streams.assignors import TasksToAssign
    from groupledger.coordinator.model.groups.streams.tasks import Tasks
    from groupledger.schemas.codec.records import Record

MAX_SIZE = 5
HEARTBEAT_MS = 500
PROCESSES = ("process-1", "process-2", "process-3")
SHARE_OF_ENDPOINTS = 0.3
ROUNDS_MAX = 12  # until all members have reached their targets
INSTANCES, SHARE_OF_STATIC = ("i0", "i1", "i2", "i3"), 0.4


@dataclass
class Member:
    group_id: str
    member_id: str
    process_id: str
    topology: Topology
    instance_id: str | None = None
    epoch: int = 0
    endpoint_epoch: int = 0
    assigned: TasksByRole = field(default=TasksByRole())
    owned: TasksByRole = field(default=TasksByRole())


class StreamsPlay(PairedPlay):
    def __init__(
        self, connection: Connection, topics: list[Topic], name: str, dice: random.Random, **settings: Any
    ) -> None:
        settings = {
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_heartbeat_interval_ms": HEARTBEAT_MS,
            **settings,
        }
        config = Config(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_streams_max_size=MAX_SIZE,
            **settings,
        )
        super().__init__(
            connection, topics, (f"{name}-a", f"{name}-b"), dice, config, streams_assignor=self._as_the_broker
        )
        self.name = name
        self.members: list[Member] = []
        self.away: list[Member] = []
        self.own_topic = f"{name}-topic"
        self._written: list[Record] = []
        self.topologies = Topologies(dice, self.own_topic, name)
        self.topology_of = {group_id: self.topologies.draw() for group_id in self.group_ids}

    # The broker's targets

    def read(self) -> list[Record]:
        found, self._written = [*self._written, *super().read()], []
        return found

    def seen(self) -> list[Record]:
        """Returns the broker's records that `read` has not returned yet. The next `read` returns them, too."""
        self._written = self.read()
        return self._written

    def _as_the_broker(self, asked: TasksToAssign) -> Mapping[str, Tasks]:
        """Returns the targets that the broker has just written, over the former ones."""
        if asked.group_id not in self.group_ids:
            return in_turn(asked)
        newest = StreamsGroup(asked.group_id)
        newest.target.update({name: tasks for name, tasks in asked.before.items() if name in asked.processes})
        for record in self.seen():
            if record.record_type == TARGET and record.key["group_id"] == asked.group_id and record.value is not None:
                newest.apply(record)
        return newest.target

    # Members

    def beat(self, member: Member, **changes: Any) -> Error:
        answer = self.ask(replace(self.request(member), **changes))
        if answer.error is Error.NONE:
            member.epoch, member.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
            for status in answer.status:
                self.compared[f"status {StatusCode(status.code).name}"] += 1
        if answer.assignment is not None:
            member.assigned = answer.assignment
            if self.dice.random() < 0.7:
                member.owned = member.assigned  # it gives up at once
        if any(status.code == StatusCode.MISSING_INTERNAL_TOPICS for status in answer.status):
            self._await_internal_topics(member.group_id)
        error: Error = answer.error
        return error

    def request(self, member: Member) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            next(self.requests),
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            endpoint_information_epoch=member.endpoint_epoch,
            instance_id=member.instance_id,
            client_id=CLIENT_ID,
        )

    def joining(self, member: Member) -> dict[str, Any]:
        endpoint = Endpoint(member.process_id, 8080) if self.dice.random() < SHARE_OF_ENDPOINTS else None
        return {
            "member_epoch": 0,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "topology": member.topology,
            **task_fields(TasksByRole()),
            "process_id": member.process_id,
            "rack_id": self.dice.choice([None, None, RACK]),
            "client_tags": self.dice.choice([None, (), (KeyValue("zone", "z1"), KeyValue("cluster", "c1"))]),
            "user_endpoint": endpoint,
        }

    def new_member(self) -> Member:
        group_id = self.dice.choices(self.group_ids, (3, 1))[0]
        member_id = str(UUID(int=self.dice.getrandbits(128), version=4))
        member = Member(group_id, member_id, self.dice.choice(PROCESSES), self.topology_of[group_id])
        if self.model.config.is_4_4 and self.dice.random() < SHARE_OF_STATIC:
            member.instance_id = self.dice.choice(INSTANCES)
        return member

    def joins(self, member: Member) -> bool:
        """Lets a member join, instead of a static one that is away and has its instance id. Returns whether it was let
        in."""
        is_in = self.beat(member, **self.joining(member)) is Error.NONE
        if is_in:
            own = member.group_id, member.instance_id
            self.away = [each for each in self.away if (each.group_id, each.instance_id) != own]
            self.members.append(member)
        return is_in

    def goes_away(self, member: Member) -> None:
        if self.beat(member, member_epoch=AWAY) is Error.NONE:
            self.members.remove(member)
            self.away.append(member)

    def leave_all(self) -> None:
        """Removes all members: a session that ends later would be written, and a broker's descriptions change with
        every record."""
        for group_id in self.group_ids:
            group = self.model.streams_group(group_id)
            for member_id in () if group is None else [*group.members]:
                leaving: dict[str, Any] = {"group_id": group_id, "member_id": member_id, "member_epoch": LEFT}
                self.ask(StreamsGroupHeartbeatRequest(next(self.requests), **leaving))

    def settle(self) -> None:
        """Lets all members send heartbeats until they have reached their targets."""
        for _ in range(ROUNDS_MAX):
            before = self.compared["record " + CURRENT]
            for member in self.members:
                self.beat(member, **task_fields(member.assigned))
            if self.compared["record " + CURRENT] == before:
                return

    # Static members, which 4.2 brokers refuse

    def go_away(self) -> None:
        static = [member for member in self.members if member.instance_id is not None]
        if static:
            self.goes_away(self.dice.choice(static))

    def come_back(self) -> None:
        """Lets a static member come back, in the same process or another one, mostly under a new id."""
        if self.away:
            new = self.new_member()
            back = replace(self.dice.choice(self.away), epoch=0, endpoint_epoch=0, owned=TasksByRole())
            back.member_id = self.dice.choice([back.member_id, new.member_id, new.member_id, new.member_id])
            back.process_id = self.dice.choice([back.process_id, back.process_id, new.process_id])
            if self.joins(back):
                self.compared["static members that came back"] += 1

    def usurp(self) -> None:
        """Uses the instance id of a member that may be away."""
        static = [member for member in (*self.members, *self.away) if member.instance_id is not None]
        if static:
            stranger = replace(self.dice.choice(static), member_id=self.new_member().member_id)
            epochs = [stranger.epoch, LEFT, AWAY]
            if self.dice.random() < 0.4:
                self.joins(stranger)
            else:
                self.beat(stranger, member_epoch=self.dice.choice(epochs))

    # Topics

    def _await_internal_topics(self, group_id: str) -> None:
        """Waits for the internal topics that the broker creates by itself."""
        group = self.model.streams_group(group_id)
        topology = None if group is None else group.topology
        required = () if topology is None else topology.required_topics()
        names = [name for name in required if name not in self.model.topics]
        if not names:
            return
        found: list[Topic] = []

        def are_there() -> bool:
            kind = MetadataRequest.MetadataRequestTopic
            asked = MetadataRequest(
                version=12,
                topics=[kind(name=name, topic_id=UUID(int=0)) for name in names],
                allow_auto_topic_creation=False,
            )
            answer = self.connection.call(asked)
            found[:] = [
                topic_of(topic.name, kafka_id_of(topic.topic_id), len(topic.partitions))
                for topic in answer.topics
                if not topic.error_code and topic.partitions
            ]
            return len(found) == len(names)

        await_until(are_there)
        self.compared["internal topics created"] += len(found)
        self.know_all(found)

    def know_all(self, topics: list[Topic]) -> None:
        self.model.topics.update({topic.name: topic for topic in topics})
        self._probe(topics)

    def _probe(self, topics: list[Topic]) -> None:
        """Waits until a member of another group is given all partitions of these topics. The coordinator plays that
        group, too, since what is written lets descriptions show what was configured before."""
        subtopologies = (
            Subtopology(subtopology_id=str(number), source_topics=(topic.name,)) for number, topic in enumerate(topics)
        )
        member = Member(f"{self.name}-probe", "probe", PROCESSES[0], Topology(1, tuple(subtopologies)))
        count = sum(topic.partition_count for topic in topics)

        def is_known() -> bool:
            request = replace(self.request(member), **self.joining(member))
            answer: Any = from_wire(self.connection.call(to_wire(request)), request)
            given = sum(len(numbers) for _, numbers in (answer.assignment or TasksByRole()).active)
            leaving = replace(request, member_epoch=LEFT, topology=None)
            self.connection.call(to_wire(leaving))
            self.connection.call(to_wire(DeleteGroupsRequest(next(self.requests), (member.group_id,))))
            return given == count

        await_until(is_known)
        request = replace(self.request(member), **self.joining(member))
        for each in (request, replace(request, member_epoch=LEFT, topology=None)):
            self.model.handle(each, now_ms=self.now_ms)
        self.model.handle(DeleteGroupsRequest(next(self.requests), (member.group_id,)), now_ms=self.now_ms)


def task_fields(tasks: TasksByRole) -> dict[str, Any]:
    return {"active_tasks": tasks.active, "standby_tasks": tasks.standby, "warmup_tasks": tasks.warmup}


def topic_of(name: str, topic_id: str, partitions: int) -> Topic:
    return Topic(name, topic_id, partitions, ((RACK,),) * partitions)


def create_topics(connection: Connection, topics: Mapping[str, int]) -> dict[str, str]:
    """Creates topics, given with their numbers of partitions, and returns their ids by name."""
    kind = CreateTopicsRequest.CreatableTopic
    asked = [kind(name=name, num_partitions=number, replication_factor=1) for name, number in topics.items()]
    created = connection.call(CreateTopicsRequest(version=7, topics=asked, timeout_ms=30_000))
    return {topic.name: kafka_id_of(topic.topic_id) for topic in created.topics}
