"""Plays random requests about streams groups on a broker and on the coordinator, and compares answers and records.

A sequence has two groups, and each has a topology of its own (`streams_topologies`). Members of a few processes join,
heartbeat, give up tasks at once or later or do not report them, change their settings, leave, join again, repeat an old
epoch or make one up, ask for a shutdown, bring another topology, commit and fetch with right and older epochs, until
the group is full. On a 4.4 broker some members are static: they go away, come back in another process or under another
id, and others use their instance ids. Administrators describe and delete the groups and their offsets. Other clients
use the groups' ids in requests of other group types, so that an empty group becomes a classic group and a streams group
again, or a consumer group has the id for a while. In some sequences a topic is created or grows meanwhile, and the
broker creates missing internal topics. Some sequences end with a member that does not give up its tasks, or with all
members silent, and some begin with the initial rebalance delay.

Not played: transactions that are committed, other settings of single groups, share groups with these ids, and source
topics by regular expressions, which brokers refuse. Warm-up tasks do not occur, because no broker of 4.2 or 4.4 assigns
them.
"""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import CreatePartitionsRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest

from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
from groupledger.coordinator.model.groups.streams.member import Endpoint
from groupledger.coordinator.model.groups.streams.records import TARGET_EPOCH
from groupledger.coordinator.model.groups.streams.tasks import TasksByRole, by_role, tasks_of
from groupledger.coordinator.model.groups.streams.topology import KeyValue, Subtopology, Topology
from groupledger.coordinator.model.handlers.streams.heartbeat import STANDBYS_SETTING
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupDescribeRequest
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    Request,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.broker_driver import TRANSACTION_KEY
from lab.kafka.connection import CLIENT_ID, Connection
from lab.kafka.consumer_differential import PROPERTIES as OF_CONSUMERS
from lab.kafka.consumer_differential import RACK
from lab.kafka.consumer_sequences import TOPICS
from lab.kafka.group_messages import comparable_response, errors_of, from_wire, to_wire
from lab.kafka.group_timers import (
    SHORT_HEARTBEAT_MS,
    SHORT_SESSION_MS,
    await_short_heartbeats,
    await_until,
    let_sessions_end,
    set_for_group,
)
from lab.kafka.paired_play import (
    SHARE_OF_HOLDING,
    SHORT_REBALANCE_MS,
    Outcome,
    comparable_record,
    known_topics,
    play_each,
)
from lab.kafka.producers import IMPLICIT_SINCE, Producer, retried
from lab.kafka.share_differential import join_of_classic, join_of_consumer
from lab.kafka.streams_play import (
    HEARTBEAT_MS,
    MAX_SIZE,
    PROCESSES,
    StreamsPlay,
    create_topics,
    task_fields,
    topic_of,
)
from lab.kafka.streams_topologies import INTERNAL_TOPICS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from lab.kafka.streams_play import Member


PROPERTIES = {
    **OF_CONSUMERS,
    "group.streams.max.size": str(MAX_SIZE),
    "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.streams.min.heartbeat.interval.ms": str(SHORT_HEARTBEAT_MS),
    "group.streams.min.session.timeout.ms": str(SHORT_SESSION_MS),
}
PROPERTIES_WITH_STANDBYS = {**PROPERTIES, "group.streams.num.standby.replicas": "1"}
STEPS_MAX = 40
PARTITIONS_MAX = 8
CREATED_PARTITIONS = (1, 2, 3)
DELAY_MS = 2_000  # much longer than some members take to join
SHARE_OF_DELAYS, SHARE_OF_SILENCE = 0.03, 0.06


class _Play(StreamsPlay):
    def run(self) -> None:
        if self.model.config.group_streams_initial_rebalance_delay_ms:
            self.restart = None  # it is about real time
            self._wait_for_more()
        else:
            self._play()
            if self.dice.random() < SHARE_OF_HOLDING:
                self._hold_back()
            if self.dice.random() < SHARE_OF_SILENCE:
                self._be_silent()
        self.leave_all()

    def _play(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((8, self._join), (20, self._heartbeat), (2, self._change_words), (3, self._leave), (1, self._rejoin)),
            *((2, self._wrong_epoch), (2, self._nonsense), (1, self._delete_group), (2, self._of_another_type)),
            *((3, self._commit), (1, self._commit_in_transaction), (1, self._fetch), (2, self._other_topology)),
            *((1, self._change_topic), (1, self._shut_down), (1, self._look)),
            *((1, self._become_classic), (1, self._become_consumers)),
        ]
        if self.model.config.is_4_4:
            actions += [(3, self.go_away), (4, self.come_back), (2, self.usurp)]
        for _ in range(self.dice.randint(5, STEPS_MAX)):
            self.choose(actions)
            self.ask(StreamsGroupDescribeRequest(next(self.requests), group_ids=self.group_ids))

    # Actions of members

    def _join(self) -> None:
        member = self.new_member()
        if self.joins(member):
            return
        if self.dice.random() < 0.3 and self.model.streams_group(member.group_id) is None:
            self.topology_of[member.group_id] = self.topologies.draw()

    def _heartbeat(self) -> None:
        if self.members:
            member = self.dice.choice(self.members)
            if self.dice.random() < 0.6:
                member.owned = member.assigned
            kept = by_role(tasks_of(member.owned) & tasks_of(member.assigned))
            says = self.dice.choice([{}, task_fields(member.owned), task_fields(member.owned), task_fields(kept)])
            self.beat(member, **says)

    def _change_words(self) -> None:
        if self.members:
            member = self.dice.choice(self.members)
            changes: list[dict[str, Any]] = [
                *({"rack_id": "rack-2"}, {"process_id": self.dice.choice(PROCESSES)}, {"rebalance_timeout_ms": 60_000}),
                *({"client_tags": (KeyValue("zone", "z2"),)}, {"user_endpoint": Endpoint("host", 9)}),
            ]
            self.beat(member, **self.dice.choice(changes))

    def _leave(self) -> None:
        if self.members:
            member = self.members.pop(self.dice.randrange(len(self.members)))
            self.beat(member, member_epoch=LEFT)

    def _rejoin(self) -> None:
        if self.members:
            member = self.dice.choice(self.members)
            self.beat(member, **self.joining(member))

    def _other_topology(self) -> None:
        member = self.new_member()
        member.topology = self.topologies.changed(member.topology)
        if self.joins(member):
            group = self.model.streams_group(member.group_id)
            if group is not None and group.topology is not None:
                self.topology_of[member.group_id] = group.topology

    def _shut_down(self) -> None:
        if self.members and self.dice.random() < 0.6:
            leaving = {"member_epoch": LEFT} if self.dice.random() < 0.3 else {}
            member = self.dice.choice(self.members)
            if self.beat(member, shutdown_application=True, **leaving) is Error.NONE and leaving:
                self.members.remove(member)

    def _wrong_epoch(self) -> None:
        if self.members:
            member = self.dice.choice(self.members)
            epoch = self.dice.choice([member.epoch - 1, member.epoch - 1, member.epoch + 1, 1, -2])
            tasks = member.assigned, TasksByRole(), member.owned
            says = self.dice.choice([{}, *map(task_fields, tasks)])
            if epoch == AWAY:
                self.goes_away(member)
            else:
                self.beat(member, member_epoch=epoch, **says)

    def _nonsense(self) -> None:
        """Sends a request that no client would send."""
        member = replace(self.dice.choice(self.members)) if self.members else self.new_member()
        stranger = self.new_member().member_id
        joining = self.joining(self.new_member())
        tasks = (("0", (0, 77)),), (("no-subtopology", ()),)
        changes: list[dict[str, Any]] = [
            *({"member_id": " "}, {"rack_id": " "}, {"group_id": ""}, {"member_epoch": -3}, {"instance_id": " "}),
            *({"group_id": f"{self.name}-c"}, {"active_tasks": ()}, {"topology": member.topology}),
            *({**task_fields(TasksByRole()), "active_tasks": each} for each in tasks),
            *({"member_epoch": 0}, {**joining, "active_tasks": None}, {**joining, "topology": None}),
            *({"member_id": stranger, "member_epoch": epoch} for epoch in (7, LEFT)),
            {"instance_id": None} if self.model.config.is_4_4 else {**joining, "instance_id": "static"},
            *({"member_epoch": epoch, "instance_id": "static"} for epoch in (LEFT, AWAY)),
            {**joining, "member_id": stranger, "topology": Topology(-1, ())},
        ]
        self.beat(member, **self.dice.choice(changes))

    # Offsets

    def _commit(self) -> None:
        if self.members:
            member = self.dice.choice([*self.members, *self.away])
            words, offsets = self._words_of_commit(member), self._offsets(member)
            version = self.dice.choice([9, 9, 9, 9, 9, 8])
            request = OffsetCommitRequest(next(self.requests), **words, offsets=offsets, api_version=version)
            self._count("commit", request, member, self.ask(request))

    def _commit_in_transaction(self) -> None:
        """Commits in a transaction of its own, which is aborted, so that nothing else depends on it."""
        if not self.members:
            return
        member = self.dice.choice(self.members)
        producer = Producer(self.connection, f"{member.group_id}-{next(self.requests)}", IMPLICIT_SINCE)
        place = FindCoordinatorRequest(version=3, key=producer.transactional_id, key_type=TRANSACTION_KEY)
        retried(self.connection, place)
        producer.start()
        request = TxnOffsetCommitRequest(
            next(self.requests),
            **self._words_of_commit(member),
            offsets=self._offsets(member),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        answer = from_wire(self.connection.call(to_wire(request, producer.transactional_id)), request)
        self.now_ms += 1
        result = self.model.handle(request, now_ms=self.now_ms)
        self.compare(
            request,
            [comparable_response(each, request) for each in result.responses],
            [comparable_response(answer, request)],
        )
        written = self.read_at_least(len(result.records))
        self.compare(request, [*map(comparable_record, result.records)], [*map(comparable_record, written)])
        self._count("commit in a transaction", request, member, answer)
        marker = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        producer.end(committed=False)
        self.model.handle(
            WriteTxnMarkerRequest(next(self.requests), partition=0, **marker, committed=False), now_ms=self.now_ms
        )

    def _words_of_commit(self, member: Member) -> dict[str, Any]:
        return {
            "group_id": member.group_id,
            "member_id": self.dice.choice([*[member.member_id] * 9, "nobody", ""]),
            "generation_id": self.dice.choice([-1, *(member.epoch + step for step in (0, 0, -1, -1, -2, 1))]),
        }

    def _offsets(self, member: Member) -> tuple[OffsetToCommit, ...]:
        """Returns offsets for tasks that a member has or had, or for any partition."""
        inputs = {each.subtopology_id: each.input_topics() for each in member.topology.subtopologies}
        places = [
            (topic, number)
            for name, numbers in (*member.assigned.active, *member.owned.active)
            for topic in inputs.get(name, ())
            for number in numbers
            if topic in self.model.topics and number < self.model.topics[topic].partition_count
        ]
        chosen = self.dice.sample(places, min(len(places), self.dice.randint(1, 2)))
        if not chosen or self.dice.random() < 0.2:
            chosen.append((self.dice.choice([*TOPICS]), 0))
        return tuple(OffsetToCommit(topic=topic, partition=number, offset=7) for topic, number in sorted({*chosen}))

    def _count(self, kind: str, request: Any, member: Member, answer: Any) -> None:
        age = "older" if 0 <= request.generation_id < member.epoch else "other"
        self.compared.update(f"{kind} by an {age} epoch {error}" for error in {*errors_of(answer)})

    def _fetch(self) -> None:
        if self.members:
            member = self.dice.choice(self.members)
            asked = self.dice.choice(
                [
                    OffsetFetchGroup(member.group_id, None),
                    OffsetFetchGroup(member.group_id, None, member.member_id, member.epoch),
                    OffsetFetchGroup(member.group_id, None, member.member_id, member.epoch - 1),
                    OffsetFetchGroup(member.group_id, None, "nobody", member.epoch),
                ]
            )
            self.ask(OffsetFetchRequest(next(self.requests), (asked,)))

    # Actions of others

    def _look(self) -> None:
        self.ask(DescribeGroupsRequest(next(self.requests), self.group_ids))
        listed = ListGroupsRequest(next(self.requests), types_filter=("streams",))
        answer: Any = from_wire(self.connection.call(to_wire(listed)), listed)
        (expected,) = self.model.handle(listed, now_ms=self.now_ms).responses
        own = [
            sorted((each for each in groups if each.group_id in self.group_ids), key=lambda each: each.group_id)
            for groups in (getattr(expected, "groups", ()), answer.groups)
        ]
        self.compare(listed, *own)

    def _delete_group(self) -> None:
        deleted = self.ask(DeleteGroupsRequest(next(self.requests), self.group_ids[: self.dice.randint(1, 2)]))
        for each in deleted.results:
            if each.error is Error.NONE:
                self.topology_of[each.group_id] = self.topologies.draw()

    def _of_another_type(self) -> None:
        """Asks with the id of a group as another type of group would. No classic member joins but where it is refused,
        and no member of KIP-848 where it would make a group."""
        group_id = self.dice.choice(self.group_ids)
        named: dict[str, Any] = {"group_id": group_id, "member_id": self.new_member().member_id}
        offset = OffsetToCommit(topic="seq-a", partition=0, offset=3)
        kinds: list[Callable[[int], Request]] = [
            lambda number: OffsetCommitRequest(number, group_id=group_id, offsets=(offset,)),
            lambda number: OffsetCommitRequest(number, **named, generation_id=1, offsets=(offset,)),
            lambda number: OffsetDeleteRequest(
                number, group_id, (TopicPartition("seq-a", 0), TopicPartition("seq-b", 0))
            ),
            lambda number: HeartbeatRequest(number, **named, generation_id=1),
            lambda number: SyncGroupRequest(
                number, **named, generation_id=1, protocol_type="consumer", protocol_name="range"
            ),
            lambda number: LeaveGroupRequest(number, group_id, (LeavingMember(named["member_id"]),)),
            lambda number: join_of_consumer(number, named, epoch=1),
        ]
        group = self.model.streams_group(group_id)
        if group is not None:
            kinds += [
                lambda number: join_of_classic(number, named),
                lambda number: join_of_consumer(number, named, epoch=0),
                lambda number: ShareGroupHeartbeatRequest(
                    number, **named, member_epoch=0, subscribed_topic_names=("a",)
                ),
            ]
        self.ask(self.dice.choice(kinds)(next(self.requests)))

    def _become_classic(self) -> None:
        """Lets a classic member ask for an empty group, which is a classic one then; it never joins with the id that
        the broker draws."""
        group_id = self.dice.choice(self.group_ids)
        group = self.model.streams_group(group_id)
        if group is None or len(group.members):
            return
        request = join_of_classic(next(self.requests), {"group_id": group_id, "member_id": ""})
        answer = from_wire(self.connection.call(to_wire(request)), request)
        drawn: str = getattr(answer, "member_id", "")
        request = replace(request, new_member_uuid=drawn.removeprefix(f"{CLIENT_ID}-"), client_id=CLIENT_ID)
        self.now_ms += 1
        result = self.model.handle(request, now_ms=self.now_ms)
        self.compare(request, [*result.responses], [answer])
        written = self.read_at_least(len(result.records))
        self.compare(request, [each.key for each in result.records], [each.key for each in written])
        self.compared["groups that became classic"] += 1
        self.topology_of[group_id] = self.topologies.draw()

    def _become_consumers(self) -> None:
        """Lets a consumer group of KIP-848 have an id that no group has. It refuses streams members, empty, too, until
        it is deleted."""
        group_id = self.dice.choice(self.group_ids)
        if self.model.streams_group(group_id) is not None or self.model.group(group_id) is not None:
            return
        named: dict[str, Any] = {"group_id": group_id, "member_id": self.new_member().member_id}
        joined = self.ask(join_of_consumer(next(self.requests), named, epoch=0))
        for epoch in (joined.member_epoch, LEFT):
            words = {**named, "member_epoch": epoch, "client_id": CLIENT_ID}
            self.ask(ConsumerGroupHeartbeatRequest(next(self.requests), **words))
            member = replace(self.new_member(), group_id=group_id)
            self.beat(member, **self.joining(member))
        self.ask(DeleteGroupsRequest(next(self.requests), (group_id,)))
        self.compared["groups that were of consumers"] += 1

    # Topics that change

    def _change_topic(self) -> None:
        """Creates the sequence's own topic, or makes it grow, and waits until the broker's coordinator knows."""
        if not any(self.own_topic in topology.required_topics() for topology in self.topology_of.values()):
            return
        before = self.model.topics.get(self.own_topic)
        partitions = self.dice.choice(CREATED_PARTITIONS) + (0 if before is None else before.partition_count)
        if partitions > PARTITIONS_MAX:
            return
        if before is None:
            topic_id = create_topics(self.connection, {self.own_topic: partitions})[self.own_topic]
        else:
            topic_id = before.topic_id
            grown = CreatePartitionsRequest.CreatePartitionsTopic(
                name=self.own_topic, count=partitions, assignments=None
            )
            self.connection.call(CreatePartitionsRequest(version=3, topics=[grown], timeout_ms=30_000))
        self.know_all([topic_of(self.own_topic, topic_id, partitions)])

    # Time

    def _wait_for_more(self) -> None:
        """Lets members join within the delay that a new group has, and then all of them take their tasks."""
        group_id = self.group_ids[0]
        self._set_delay(group_id)
        while any(topic not in self.model.topics for topic in self.topology_of[group_id].required_topics()):
            self.topology_of[group_id] = self.topologies.draw()  # no time to wait for topics
        described = StreamsGroupDescribeRequest(next(self.requests), group_ids=self.group_ids)
        for _ in range(self.dice.randint(1, MAX_SIZE)):
            member = replace(self.new_member(), group_id=group_id, topology=self.topology_of[group_id])
            self.joins(member)
            self.ask(described)
        if self.members:
            self.beat(self.members[0])  # a group whose first member only joined is not yet configured
            await_until(lambda: any(record.record_type == TARGET_EPOCH for record in self.seen()))
            self.now_ms += DELAY_MS
            self.go_on(described)
        self.settle()
        self.ask(described)
        self.compared["groups that waited for members"] += 1

    def _set_delay(self, group_id: str) -> None:
        """Gives a group its delay while it has a member, so that no delay begins, and deletes it again."""
        topology = Topology(0, (Subtopology(subtopology_id="0", source_topics=("seq-c",)),))
        member = replace(self.new_member(), group_id=group_id, topology=topology)
        joining = replace(self.request(member), **self.joining(member))
        answer = self.connection.call(to_wire(joining))
        settings = {"initial.rebalance.delay.ms": DELAY_MS, **self._kept}
        set_for_group(self.connection, group_id, "streams", settings)
        await_short_heartbeats(self.connection, replace(self.request(member), member_epoch=answer.member_epoch))
        self.connection.call(to_wire(replace(self.request(member), member_epoch=LEFT)))
        self.connection.call(to_wire(DeleteGroupsRequest(next(self.requests), (group_id,))))
        self.read()

    def _hold_back(self) -> None:
        """Lets others join, so that a member has to give partitions up, which it does not."""
        if self.members:
            holder = self.dice.choice(self.members)
            for _ in range(2):
                self._join()
            self.beat(holder, rebalance_timeout_ms=SHORT_REBALANCE_MS)
            if holder.instance_id is not None and self.dice.random() < 0.5:
                self.goes_away(holder)
                time.sleep(SHORT_REBALANCE_MS / 1_000)  # nothing may be written
            described = StreamsGroupDescribeRequest(next(self.requests), group_ids=self.group_ids)
            self.hold_back(holder.member_id, described)

    def _be_silent(self) -> None:
        """Lets every member be heard of once more, and then never again. A static member may go away just before."""
        for _ in range(2 * len(self.away)):
            self.come_back()
        self.settle()
        described = StreamsGroupDescribeRequest(next(self.requests), group_ids=self.group_ids)
        self.members.sort(key=lambda member: member.instance_id is not None)
        heartbeats = [*map(self.request, self.members)]
        last = self.members[-1:] if self.dice.random() < 0.5 else []
        going = [replace(self.request(each), member_epoch=AWAY) for each in last if each.instance_id is not None]
        session_ms = self.model.config.group_streams_session_timeout_ms
        let_sessions_end(self, "streams", heartbeats, described, session_ms, self._kept, going)

    @property
    def _kept(self) -> dict[str, int]:
        return {STANDBYS_SETTING: self.model.config.group_streams_num_standby_replicas}


def play_all(
    bootstrap_servers: str,
    sequences: Iterable[int],
    seed: int,
    *,
    restart: Callable[[], None] | None = None,
    standbys: int = 0,
) -> Outcome:
    """Plays the sequences with these numbers, as `play_each` does. Before that it creates the internal topics that the
    broker lacks. `standbys` is the broker's number of standby replicas."""
    with closing(Connection(bootstrap_servers)) as connection:
        there = [topic for topic in known_topics(connection, RACK) if topic.name in {*TOPICS, *INTERNAL_TOPICS}]
        missing = INTERNAL_TOPICS.keys() - {topic.name for topic in there}
        created = create_topics(connection, {name: INTERNAL_TOPICS[name] for name in missing})
        topics = [*there, *(topic_of(name, topic_id, INTERNAL_TOPICS[name]) for name, topic_id in created.items())]

        def play(number: int, dice: random.Random) -> Any:
            settings = {"group_streams_num_standby_replicas": standbys}
            if dice.random() < SHARE_OF_DELAYS:
                settings["group_streams_initial_rebalance_delay_ms"] = DELAY_MS
                settings["group_streams_heartbeat_interval_ms"] = SHORT_HEARTBEAT_MS
            begun = _Play(connection, topics, f"streams-{seed}-{number}", dice, **settings)
            if missing:
                begun.know_all(topics)
                missing.clear()
            return nullcontext(begun)

        return play_each(sequences, seed, play, restart)
