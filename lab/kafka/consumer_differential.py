"""Plays random requests about KIP-848 groups on a broker and on the coordinator, and compares answers and records.

A sequence is a group of its own: members join, dynamic and static, heartbeat, give up what they have to at once or
later or say nothing of it, subscribe to other topics, ask for one assignor or the other, leave, go away and come back
under the same or another id, repeat an old epoch, commit and fetch with right and wrong epochs; administrators delete
offsets and groups, and classic members ask for an empty or a living group. Each request goes to both, and so do the
records that it made, field by field, but for times; lists of partitions are compared as sets, since their order hangs
on how a map of the broker's grew. Regular expressions and conversions of living groups are not played.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import TYPE_CHECKING, Any
from uuid import UUID

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.consumer.member import AWAY, LEFT, Partitions, common, together
from groupledger.coordinator.model.consumer.topics import Topic
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    Request,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.connection import CLIENT_ID, Connection, end_offset, read_offsets_topic
from lab.kafka.consumer_sequences import PROPERTIES as ONE_PARTITION
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS, TOPICS
from lab.kafka.group_messages import as_told, from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.schemas.codec.records import Record

RACK = "rack-1"
PROPERTIES = {**ONE_PARTITION, "group.consumer.migration.policy": "disabled", "broker.rack": RACK}
STEPS_MAX = 40
TIMES = ("commit_timestamp_ms", "current_state_timestamp_ms")
LISTS = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")


@dataclass
class _Member:
    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    assigned: Partitions = field(default_factory=dict)


@dataclass
class Outcome:
    """What was compared, by request or record and its error, and a sentence for each difference."""

    compared: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class _DifferenceError(AssertionError):
    """The coordinator and the broker disagree."""


class _Play:
    def __init__(self, connection: Connection, topics: list[Topic], group_id: str, dice: random.Random) -> None:
        self.compared: Counter[str] = Counter()
        self._connection, self._group_id, self._dice = connection, group_id, dice
        self._position = end_offset(connection, 0)
        self._model = Coordinator(
            Config(
                offsets_topic_num_partitions=1,
                group_initial_rebalance_delay_ms=0,
                group_consumer_heartbeat_interval_ms=500,
            )
        )
        self._model.topics.update({topic.name: topic for topic in topics})
        self._model.load(0, [], now_ms=0)
        self._members: list[_Member] = []
        self._away: list[_Member] = []
        self._requests, self._instances = count(), count()
        self._now_ms = 0

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((4, self._join), (14, self._heartbeat), (3, self._subscribe), (2, self._leave), (1, self._go_away)),
            *((2, self._come_back), (2, self._wrong_epoch), (2, self._commit), (1, self._fetch), (1, self._nonsense)),
            *((1, self._delete_offsets), (1, self._delete_group), (1, self._classic)),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(self._dice.randint(5, STEPS_MAX)):
            (action,) = self._dice.choices([act for _, act in actions], weights)
            action()
            self._ask(ConsumerGroupDescribeRequest(next(self._requests), group_ids=(self._group_id,)))

    def _ask(self, request: Request) -> Any:
        """Sends a request to both, compares, and returns the answer."""
        self._now_ms += 1
        answer = as_told(from_wire(self._connection.call(to_wire(request)), request), request)
        result = self._model.handle(request, now_ms=self._now_ms)
        # An initial delay of 0 is over at once.
        late = self._model.advance(self._now_ms)
        (expected,) = (as_told(each, request) for each in (*result.responses, *late.responses))
        self._compare(request, _in_order(expected), _in_order(answer))
        written = [each[1].record for each in self._read()]
        self._compare(request, [*map(_told, (*result.records, *late.records))], [*map(_told, written)])
        self.compared[f"{type(request).__name__} {getattr(answer, 'error', Error.NONE).name}"] += 1
        self.compared.update(f"record {each.record_type}" for each in written)
        return answer

    def _read(self) -> list[Any]:
        found = list(read_offsets_topic(self._connection, 0, self._position))
        self._position = end_offset(self._connection, 0)
        return [each for each in found if each[1].record.key.get("group_id") == self._group_id]

    def _compare(self, request: Request, of_coordinator: Any, of_broker: Any) -> None:
        if isinstance(of_broker, list):
            of_coordinator, of_broker = _differing(of_coordinator, of_broker)
        if of_coordinator != of_broker:
            raise _DifferenceError(f"{request}\n  coordinator: {of_coordinator}\n  broker:      {of_broker}")

    # What members do

    def _beat(self, member: _Member, **changes: Any) -> Error:
        request = ConsumerGroupHeartbeatRequest(
            next(self._requests),
            group_id=self._group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            instance_id=member.instance_id,
            owned=member.owned,
            client_id=CLIENT_ID,
        )
        answer = self._ask(replace(request, **changes))
        if answer.error is Error.NONE:
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                member.assigned = answer.assignment
                member.owned = together(member.owned, answer.assignment)
        error: Error = answer.error
        return error

    def _words(self, member: _Member) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": self._dice.choice([REBALANCE_TIMEOUT_MS, 60_000]),
            "subscribed_topic_names": member.topics,
            "server_assignor": self._dice.choice([None, None, "range", "uniform"]),
        }

    def _topics(self) -> tuple[str, ...]:
        if self._dice.random() < 0.5:
            return tuple(sorted(TOPICS))
        names = [*TOPICS, "seq-that-is-not-there"]
        return tuple(self._dice.sample(names, self._dice.randint(1, len(names))))

    def _new_id(self) -> str:
        return str(UUID(int=self._dice.getrandbits(128), version=4))

    def _join(self) -> None:
        instance_id = f"i{next(self._instances)}" if self._dice.random() < 0.4 else None
        member = _Member(self._new_id(), instance_id, self._topics())
        if self._beat(member, owned={}, **self._words(member)) is Error.NONE:
            self._members.append(member)

    def _heartbeat(self) -> None:
        if self._members:
            member = self._dice.choice(self._members)
            if self._dice.random() < 0.7:
                member.owned = common(member.owned, member.assigned)
            if self._dice.random() < 0.2:
                self._beat(member, owned=None)
            else:
                self._beat(member)

    def _subscribe(self) -> None:
        if self._members:
            member = self._dice.choice(self._members)
            member.topics = self._topics()
            self._beat(member, **self._words(member))

    def _leave(self) -> None:
        if self._members:
            member = self._members.pop(self._dice.randrange(len(self._members)))
            self._beat(member, member_epoch=LEFT)

    def _go_away(self) -> None:
        static = [member for member in self._members if member.instance_id is not None]
        if static:
            member = self._dice.choice(static)
            if self._beat(member, member_epoch=AWAY) is Error.NONE:
                self._members.remove(member)
                self._away.append(member)

    def _come_back(self) -> None:
        if self._away:
            gone = self._away.pop(self._dice.randrange(len(self._away)))
            topics = gone.topics if self._dice.random() < 0.7 else self._topics()
            member_id = gone.member_id if self._dice.random() < 0.2 else self._new_id()
            member = _Member(member_id, gone.instance_id, topics)
            if self._beat(member, owned={}, **self._words(member)) is Error.NONE:
                self._members.append(member)

    def _wrong_epoch(self) -> None:
        if self._members:
            member = self._dice.choice(self._members)
            epoch = self._dice.choice([member.epoch - 1, member.epoch + 1, 0, -3])
            words = {"owned": {}, **self._words(member)} if epoch == 0 else {}
            self._beat(replace(member), member_epoch=epoch, **words)

    def _nonsense(self) -> None:
        """Sends what no client would."""
        member = self._dice.choice(self._members) if self._members else _Member(self._new_id(), None, ())
        words = self._words(member)
        changes: list[dict[str, Any]] = [
            {"member_id": ""},
            {"server_assignor": "theirs"},
            {"instance_id": " "},
            {"member_epoch": 0, **words, "owned": {}, "subscribed_topic_names": None},
            {"member_epoch": 0, **words, "owned": None},
            {"member_epoch": AWAY, "instance_id": None},
            {"member_id": self._new_id(), "member_epoch": 7},
            {"instance_id": "i0", "member_id": self._new_id()},
            {"instance_id": "i0", "member_id": self._new_id(), "member_epoch": 0, **words, "owned": {}},
        ]
        if self._beat(replace(member), **self._dice.choice(changes)) is Error.NONE:
            # It may have joined as somebody that nobody plays.
            self._members, self._away = [], []

    # What others do

    def _commit(self) -> None:
        member_id, epoch = self._somebody()
        topic = self._dice.choice([*TOPICS])
        number, reached = self._dice.randrange(TOPICS[topic]), self._dice.randrange(100)
        offset = OffsetToCommit(topic=topic, partition=number, offset=reached)
        version = self._dice.choice([9, 9, 8])
        request = OffsetCommitRequest(
            next(self._requests),
            group_id=self._group_id,
            offsets=(offset,),
            generation_id=epoch,
            member_id=member_id,
            api_version=version,
        )
        self._ask(request)

    def _somebody(self) -> tuple[str, int]:
        """Returns a member and its epoch, or an old one, or nobody."""
        if not self._members or self._dice.random() < 0.3:
            return "", -1
        member = self._dice.choice(self._members)
        return member.member_id, self._dice.choice([member.epoch, member.epoch, member.epoch - 1])

    def _fetch(self) -> None:
        member_id, epoch = self._somebody()
        group = OffsetFetchGroup(self._group_id, None, member_id or None, epoch)
        self._ask(OffsetFetchRequest(next(self._requests), (group,)))

    def _delete_offsets(self) -> None:
        partitions = tuple(TopicPartition(topic, 0) for topic in TOPICS)
        self._ask(OffsetDeleteRequest(next(self._requests), self._group_id, partitions))

    def _delete_group(self) -> None:
        answer = self._ask(DeleteGroupsRequest(next(self._requests), (self._group_id,)))
        if answer.results[0].error is Error.NONE:
            self._members, self._away = [], []

    def _classic(self) -> None:
        """Asks as a classic member of a group that may have others. None joins, since a broker would take it in."""
        member_id, epoch = self._somebody()
        if self._dice.random() < 0.5:
            heartbeat = HeartbeatRequest(
                next(self._requests), group_id=self._group_id, generation_id=epoch, member_id=member_id
            )
            self._ask(heartbeat)
            return
        leaving = LeavingMember("", "i0")
        self._ask(LeaveGroupRequest(next(self._requests), group_id=self._group_id, members=(leaving,)))


def _differing(one: list[Any], other: list[Any]) -> tuple[Any, Any]:
    """Returns the first elements in which two lists differ, and None for one that is not there."""
    pairs = zip_longest(one, other)
    return next((pair for pair in pairs if pair[0] != pair[1]), (None, None))


def _in_order(answer: Any) -> Any:
    """Returns an answer with the members of described groups in the order of their ids."""
    groups = getattr(answer, "groups", ())
    if groups and hasattr(groups[0], "group_epoch"):
        ordered = (
            replace(group, members=tuple(sorted(group.members, key=lambda member: member.member_id)))
            for group in groups
        )
        return replace(answer, groups=tuple(ordered))
    return answer


def _told(record: Record) -> Any:
    """Returns a record without times, and with its partitions in order."""
    value = None if record.value is None else {name: each for name, each in record.value.items() if name not in TIMES}
    for name in LISTS:
        if value is not None and name in value:
            value[name] = sorted((each["topic_id"], sorted(each["partitions"])) for each in value[name])
    return record.record_type, record.key, record.value_version if value is not None else None, value


def play_all(
    bootstrap_servers: str, topic_ids: dict[str, str], sequences: Iterable[int], seed: int, *, rack: str | None = RACK
) -> Outcome:
    """Plays sequences by their numbers: a number and a seed always make the same choices."""
    outcome = Outcome()
    racks = () if rack is None else (rack,)
    topics = [Topic(name, topic_ids[name], number, (racks,) * number) for name, number in TOPICS.items()]
    with closing(Connection(bootstrap_servers)) as connection:
        for number in sequences:
            play = _Play(connection, topics, f"pair-{seed}-{number}", random.Random(f"{seed} {number}"))
            try:
                play.run()
            except (_DifferenceError, ValueError) as difference:
                outcome.wrong.append(f"sequence {number}: {difference}")
            outcome.compared.update(play.compared)
            outcome.compared["sequences"] += 1
    return outcome
