"""Plays random requests about KIP-848 groups on a broker and on the coordinator, and compares answers and records.

A sequence is a group of its own: members join, dynamic and static, heartbeat, give up what they have to at once or
later or say nothing of it, subscribe to other topics, ask for one assignor or the other, leave, go away and come back
under the same or another id, repeat an old epoch, commit and fetch with right and wrong epochs; administrators delete
offsets and groups, and classic members ask for an empty or a living group (`paired_play` compares). Regular expressions
and conversions of living groups are not played.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.consumer.member import AWAY, LEFT, Partitions, common, together
from groupledger.coordinator.model.consumer.topics import Topic
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
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.connection import CLIENT_ID, Connection
from lab.kafka.consumer_sequences import PROPERTIES as ONE_PARTITION
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS, TOPICS
from lab.kafka.paired_play import DifferenceError, Outcome, PairedPlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

RACK = "rack-1"
PROPERTIES = {**ONE_PARTITION, "group.consumer.migration.policy": "disabled", "broker.rack": RACK}
STEPS_MAX = 40


@dataclass
class _Member:
    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    assigned: Partitions = field(default_factory=dict)


class _Play(PairedPlay):
    def __init__(
        self,
        connection: Connection,
        topics: list[Topic],
        group_id: str,
        dice: random.Random,
        server_log: Path | None,
    ) -> None:
        config = Config(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            group_consumer_heartbeat_interval_ms=500,
        )
        super().__init__(connection, topics, (group_id,), dice, config, server_log)
        self._group_id = group_id
        self._members: list[_Member] = []
        self._away: list[_Member] = []
        self._instances = count()

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((4, self._join), (14, self._heartbeat), (3, self._subscribe), (2, self._leave), (1, self._go_away)),
            *((2, self._come_back), (2, self._wrong_epoch), (2, self._commit), (1, self._fetch), (1, self._nonsense)),
            *((1, self._delete_offsets), (1, self._delete_group), (1, self._classic)),
        ]
        for _ in range(self.dice.randint(5, STEPS_MAX)):
            self.choose(actions)
            self.ask(ConsumerGroupDescribeRequest(next(self.requests), group_ids=(self._group_id,)))

    # What members do

    def _beat(self, member: _Member, **changes: Any) -> Error:
        request = ConsumerGroupHeartbeatRequest(
            next(self.requests),
            group_id=self._group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            instance_id=member.instance_id,
            owned=member.owned,
            client_id=CLIENT_ID,
        )
        answer = self.ask(replace(request, **changes))
        if answer.error is Error.NONE:
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                member.assigned = answer.assignment
                member.owned = together(member.owned, answer.assignment)
        error: Error = answer.error
        return error

    def _words(self, member: _Member) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": self.dice.choice([REBALANCE_TIMEOUT_MS, 60_000]),
            "subscribed_topic_names": member.topics,
            "server_assignor": self.dice.choice([None, None, "range", "uniform"]),
        }

    def _topics(self) -> tuple[str, ...]:
        if self.dice.random() < 0.5:
            return tuple(sorted(TOPICS))
        names = [*TOPICS, "seq-that-is-not-there"]
        return tuple(self.dice.sample(names, self.dice.randint(1, len(names))))

    def _new_id(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128), version=4))

    def _join(self) -> None:
        instance_id = f"i{next(self._instances)}" if self.dice.random() < 0.4 else None
        member = _Member(self._new_id(), instance_id, self._topics())
        if self._beat(member, owned={}, **self._words(member)) is Error.NONE:
            self._members.append(member)

    def _heartbeat(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            if self.dice.random() < 0.7:
                member.owned = common(member.owned, member.assigned)
            if self.dice.random() < 0.2:
                self._beat(member, owned=None)
            else:
                self._beat(member)

    def _subscribe(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            member.topics = self._topics()
            self._beat(member, **self._words(member))

    def _leave(self) -> None:
        if self._members:
            member = self._members.pop(self.dice.randrange(len(self._members)))
            self._beat(member, member_epoch=LEFT)

    def _go_away(self) -> None:
        static = [member for member in self._members if member.instance_id is not None]
        if static:
            member = self.dice.choice(static)
            if self._beat(member, member_epoch=AWAY) is Error.NONE:
                self._members.remove(member)
                self._away.append(member)

    def _come_back(self) -> None:
        if self._away:
            gone = self._away.pop(self.dice.randrange(len(self._away)))
            topics = gone.topics if self.dice.random() < 0.7 else self._topics()
            member_id = gone.member_id if self.dice.random() < 0.2 else self._new_id()
            member = _Member(member_id, gone.instance_id, topics)
            if self._beat(member, owned={}, **self._words(member)) is Error.NONE:
                self._members.append(member)

    def _wrong_epoch(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            epoch = self.dice.choice([member.epoch - 1, member.epoch + 1, 0, -3])
            words = {"owned": {}, **self._words(member)} if epoch == 0 else {}
            self._beat(replace(member), member_epoch=epoch, **words)

    def _nonsense(self) -> None:
        """Sends what no client would."""
        member = self.dice.choice(self._members) if self._members else _Member(self._new_id(), None, ())
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
        if self._beat(replace(member), **self.dice.choice(changes)) is Error.NONE:
            # It may have joined as somebody that nobody plays.
            self._members, self._away = [], []

    # What others do

    def _commit(self) -> None:
        member_id, epoch = self._somebody()
        topic = self.dice.choice([*TOPICS])
        number, reached = self.dice.randrange(TOPICS[topic]), self.dice.randrange(100)
        offset = OffsetToCommit(topic=topic, partition=number, offset=reached)
        version = self.dice.choice([9, 9, 8])
        request = OffsetCommitRequest(
            next(self.requests),
            group_id=self._group_id,
            offsets=(offset,),
            generation_id=epoch,
            member_id=member_id,
            api_version=version,
        )
        self.ask(request)

    def _somebody(self) -> tuple[str, int]:
        """Returns a member and its epoch, or an old one, or nobody."""
        if not self._members or self.dice.random() < 0.3:
            return "", -1
        member = self.dice.choice(self._members)
        return member.member_id, self.dice.choice([member.epoch, member.epoch, member.epoch - 1])

    def _fetch(self) -> None:
        member_id, epoch = self._somebody()
        group = OffsetFetchGroup(self._group_id, None, member_id or None, epoch)
        self.ask(OffsetFetchRequest(next(self.requests), (group,)))

    def _delete_offsets(self) -> None:
        partitions = tuple(TopicPartition(topic, 0) for topic in TOPICS)
        self.ask(OffsetDeleteRequest(next(self.requests), self._group_id, partitions))

    def _delete_group(self) -> None:
        answer = self.ask(DeleteGroupsRequest(next(self.requests), (self._group_id,)))
        if answer.results[0].error is Error.NONE:
            self._members, self._away = [], []

    def _classic(self) -> None:
        """Asks as a classic member of a group that may have others. None joins, since a broker would take it in."""
        member_id, epoch = self._somebody()
        if self.dice.random() < 0.5:
            heartbeat = HeartbeatRequest(
                next(self.requests), group_id=self._group_id, generation_id=epoch, member_id=member_id
            )
            self.ask(heartbeat)
            return
        leaving = LeavingMember("", "i0")
        self.ask(LeaveGroupRequest(next(self.requests), group_id=self._group_id, members=(leaving,)))


def play_all(
    bootstrap_servers: str,
    topic_ids: dict[str, str],
    sequences: Iterable[int],
    seed: int,
    *,
    rack: str | None = RACK,
    server_log: Path | None = None,
) -> Outcome:
    """Plays sequences by their numbers: a number and a seed always make the same choices."""
    outcome = Outcome()
    racks = () if rack is None else (rack,)
    topics = [Topic(name, topic_ids[name], number, (racks,) * number) for name, number in TOPICS.items()]
    with closing(Connection(bootstrap_servers)) as connection:
        for number in sequences:
            dice = random.Random(f"{seed} {number}")
            play = _Play(connection, topics, f"pair-{seed}-{number}", dice, server_log)
            try:
                play.run()
                play.compare_log()
            except (DifferenceError, ValueError) as difference:
                outcome.wrong.append(f"sequence {number}: {difference}")
            outcome.compared.update(play.compared)
            outcome.compared["sequences"] += 1
    return outcome
