"""Plays random requests about KIP-848 groups on a broker and on the coordinator, and compares answers and records.

A sequence is a group of its own. Its members are dynamic or static. They join, heartbeat, give up partitions at once or
later or do not report them, and subscribe to other topics, by name, by a regular expression (valid or invalid), or by
both. They ask for one assignor or the other, leave, go away and come back under the same or another id, repeat an old
epoch, commit and fetch with right and wrong epochs. Administrators delete offsets and groups, and classic members ask
for an empty or a living group (`paired_play` compares). Classic members that join are in `mixed_differential`.

A broker resolves regular expressions after its response, so the test waits until it has written as many records as the
coordinator. For ten seconds it does not resolve them again. So some sequences pause that long, once or twice, after a
topic of their own was created, grew or was deleted. Some sequences end with a member that keeps partitions it has to
give up for longer than its rebalance timeout.
"""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
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
from groupledger.coordinator.model.partitions import Partitions, common, together
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.connection import CLIENT_ID, Connection
from lab.kafka.consumer_sequences import PROPERTIES as ONE_PARTITION
from lab.kafka.consumer_sequences import REBALANCE_TIMEOUT_MS, TOPICS
from lab.kafka.paired_play import (
    SHARE_OF_HOLDING,
    SHORT_REBALANCE_MS,
    Outcome,
    PairedPlay,
    known_topics,
    play_each,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable
    from pathlib import Path

RACK = "rack-1"
PROPERTIES = {**ONE_PARTITION, "broker.rack": RACK}
STEPS_MAX = 40
REGEXES = (".*", "seq-.*", "seq-[ab]", "seq-a|seq-c", "(?i)SEQ-\\w", "eq-a", "pair-.*", "__.*")
NO_REGEXES = ("[", "(seq", "seq-**", "(?=seq)a", r"(seq)\1", "a{2,1}", "\\")
SHARE_OF_PAUSES, PAUSE_MS = 0.02, 10_200
TOPIC_TIMEOUT_MS = 30_000


@dataclass
class _Member:
    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    regex: str = ""
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    assigned: Partitions = field(default_factory=dict)


class ConsumerPlay(PairedPlay):
    def __init__(
        self,
        connection: Connection,
        rack: str | None,
        group_id: str,
        dice: random.Random,
        server_log: Path | None,
        *,
        share_of_pauses: float = SHARE_OF_PAUSES,
    ) -> None:
        super().__init__(connection, known_topics(connection, rack), (group_id,), dice, self._config(), server_log)
        self._group_id, self._rack, self._share_of_pauses = group_id, rack, share_of_pauses
        self._members: list[_Member] = []
        self._away: list[_Member] = []
        self._instances = count()

    def _config(self) -> Config:
        return Config(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            group_consumer_heartbeat_interval_ms=500,
        )

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            *((4, self._join), (14, self._heartbeat), (3, self._subscribe), (2, self._leave), (1, self._go_away)),
            *((2, self._come_back), (2, self._wrong_epoch), (2, self._commit), (1, self._fetch), (1, self._nonsense)),
            *((1, self._delete_offsets), (1, self._delete_group), (1, self._classic)),
        ]
        steps = self.dice.randint(5, STEPS_MAX)
        pauses = self.dice.sample(range(steps), 2) if self.dice.random() < self._share_of_pauses else ()
        for step in range(steps):
            self.choose(actions)
            self.ask(ConsumerGroupDescribeRequest(next(self.requests), group_ids=(self._group_id,)))
            if step in pauses:
                self._pause()
        if self._members and self.dice.random() < SHARE_OF_HOLDING:
            self._hold_back()

    # Actions of members

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
            "subscribed_topic_regex": member.regex or self.dice.choice(["", None]),
            "server_assignor": self.dice.choice([None, None, "range", "uniform"]),
        }

    def _topics(self) -> tuple[str, ...]:
        if self.dice.random() < 0.5:
            return tuple(sorted(TOPICS))
        names = [*TOPICS, "seq-that-is-not-there"]
        return tuple(self.dice.sample(names, self.dice.randint(1, len(names))))

    def _subscription(self) -> tuple[tuple[str, ...], str]:
        """Returns the names and the regular expression of a member, either of which may be empty."""
        if self.dice.random() < 0.6:
            return self._topics(), ""
        return () if self.dice.random() < 0.6 else self._topics(), self.dice.choice(REGEXES)

    def _new_id(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128), version=4))

    def _join(self) -> None:
        self._join_with(f"i{next(self._instances)}" if self.dice.random() < 0.4 else None)

    def _join_with(self, instance_id: str | None) -> None:
        member = _Member(self._new_id(), instance_id, *self._subscription())
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
            before = member.topics, member.regex
            member.topics, member.regex = self._subscription()
            if self._beat(member, **self._words(member)) is not Error.NONE:
                member.topics, member.regex = before

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
            subscription = (gone.topics, gone.regex) if self.dice.random() < 0.7 else self._subscription()
            member_id = gone.member_id if self.dice.random() < 0.2 else self._new_id()
            member = _Member(member_id, gone.instance_id, *subscription)
            if self._beat(member, owned={}, **self._words(member)) is Error.NONE:
                self._members.append(member)

    def _wrong_epoch(self) -> None:
        if self._members:
            member = self.dice.choice(self._members)
            epoch = self.dice.choice([member.epoch - 1, member.epoch + 1, 0, -3])
            words = {"owned": {}, **self._words(member)} if epoch == 0 else {}
            self._beat(replace(member), member_epoch=epoch, **words)

    def _nonsense(self) -> None:
        """Sends a request that no client would send."""
        member = self.dice.choice(self._members) if self._members else _Member(self._new_id(), None, ())
        words = self._words(member)
        changes: list[dict[str, Any]] = [
            {"member_id": ""},
            {"server_assignor": "theirs"},
            {"instance_id": " "},
            {"member_epoch": 0, **words, "owned": {}, "subscribed_topic_names": None},
            {"subscribed_topic_regex": self.dice.choice(NO_REGEXES)},
            {**words, "subscribed_topic_regex": self.dice.choice(NO_REGEXES)},
            {"member_epoch": 0, **words, "owned": {}, "subscribed_topic_regex": self.dice.choice(NO_REGEXES)},
            {"member_epoch": 0, **words, "owned": None},
            {"member_epoch": AWAY, "instance_id": None},
            {"member_id": self._new_id(), "member_epoch": 7},
            {"instance_id": "i0", "member_id": self._new_id()},
            {"instance_id": "i0", "member_id": self._new_id(), "member_epoch": 0, **words, "owned": {}},
        ]
        if self._beat(replace(member), **self.dice.choice(changes)) is Error.NONE:
            # It may have joined as somebody that nobody plays.
            self._members, self._away = [], []

    # Actions of others

    def _pause(self) -> None:
        """Changes the sequence's own topic, and lets so much time go by that expressions may be resolved again."""
        name = f"{self._group_id}-topic"
        self._change_topic(name)
        time.sleep(PAUSE_MS / 1_000)
        topics = {topic.name: topic for topic in known_topics(self.connection, self._rack)}
        for gone in self.model.topics.keys() - topics.keys():
            del self.model.topics[gone]
        self.model.topics.update(topics)
        self.now_ms += PAUSE_MS
        self.model.advance(self.now_ms)  # no timer is as short
        self.compared["pauses"] += 1

    def _change_topic(self, name: str) -> None:
        before = self.model.topics.get(name)
        if before is None:
            kind = CreateTopicsRequest.CreatableTopic
            topics = [kind(name=name, num_partitions=self.dice.randint(1, 4), replication_factor=1)]
            self.connection.call(CreateTopicsRequest(version=7, topics=topics, timeout_ms=TOPIC_TIMEOUT_MS))
        elif self.dice.random() < 0.5:
            self.connection.call(DeleteTopicsRequest(version=5, topic_names=[name], timeout_ms=TOPIC_TIMEOUT_MS))
        else:
            grown = CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=before.partition_count + 1, assignments=None
            )
            self.connection.call(CreatePartitionsRequest(version=3, topics=[grown], timeout_ms=TOPIC_TIMEOUT_MS))

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

    def _hold_back(self) -> None:
        """Lets others join, so that a member has to give partitions up, which it does not."""
        holder = self.dice.choice(self._members)
        for _ in range(2):
            self._join()
        self._beat(holder, rebalance_timeout_ms=SHORT_REBALANCE_MS)
        described = ConsumerGroupDescribeRequest(next(self.requests), group_ids=(self._group_id,))
        self.hold_back(holder.member_id, described)

    def _delete_offsets(self) -> None:
        partitions = tuple(TopicPartition(topic, 0) for topic in TOPICS)
        self.ask(OffsetDeleteRequest(next(self.requests), self._group_id, partitions))

    def _delete_group(self) -> None:
        answer = self.ask(DeleteGroupsRequest(next(self.requests), (self._group_id,)))
        if answer.results[0].error is Error.NONE:
            self._members, self._away = [], []

    def _classic(self) -> None:
        """Asks as a classic member of a group that may have others. None joins."""
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
    sequences: Iterable[int],
    seed: int,
    *,
    restart: Callable[[], None] | None = None,
    rack: str | None = RACK,
    server_log: Path | None = None,
    share_of_pauses: float = SHARE_OF_PAUSES,
) -> Outcome:
    with closing(Connection(bootstrap_servers)) as connection:

        def play(number: int, dice: random.Random) -> nullcontext[ConsumerPlay]:
            group_id = f"pair-{seed}-{number}"
            return nullcontext(
                ConsumerPlay(connection, rack, group_id, dice, server_log, share_of_pauses=share_of_pauses)
            )

        return play_each(sequences, seed, play, restart)
