"""Plays random sequences of KIP-848 heartbeats against a broker, and compares the ledger's history with the broker's
answers.

A sequence is a group of its own. Members join, heartbeat, release partitions at once or later, subscribe to other
topics, by name or by a regular expression, leave, go away and come back. At the end the group may be deleted. After
each request the broker describes the group, and no record may be written meanwhile. Then the log is folded, piece by
piece, and each piece has to give the broker's description: the epoch, whether it has a target, the members, their
epochs, what each owns, and whether the group is stable. The cause of each epoch has to be one that the request can
have, and `validate` has to find nothing. At last the log is folded once without its cleaned beginning and once without
a part, and neither history may claim anything wrong.

Requests follow each other within a millisecond, so that operations often share one timestamp and one batch.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kafka.protocol.admin.groups import DeleteGroupsRequest
from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest

from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of
from groupledger.schemas.kinds import changes as kinds
from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.history.rules.events import Coverage, OtherGroupType
from groupledger.transforms.history.rules.modern_records import AWAY
from groupledger.transforms.records.decoded_record import record_fields
from groupledger.transforms.replay.rules import replay
from lab.kafka.broker_driver import GROUP_KEY, await_groups
from lab.kafka.connection import Connection, end_offset, read_offsets_topic
from lab.kafka.consumer_protocol_log import described_group
from lab.kafka.producers import retried
from lab.truth.consumer_claims import false_claims_of_cleaned, false_claims_of_holed, offset_of
from lab.truth.consumer_groups import History, as_described, comparable_description, event_of, wrong_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lab.kafka.connection import Appended
    from lab.truth.consumer_claims import Keyed

# Names and numbers of partitions.
TOPICS = {"seq-a": 3, "seq-b": 5, "seq-c": 1}
PROPERTIES = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
STEPS_MAX = 40
LEFT, REBALANCE_TIMEOUT_MS = -1, 300_000
HEARTBEAT_VERSION, DESCRIBE_VERSION, DELETE_VERSION = 1, 1, 2

Owned = set[tuple[UUID, int]]


@dataclass
class Member:
    member_id: str
    instance_id: str | None
    topics: list[str]
    regex: str | None
    epoch: int = 0
    owned: Owned = field(default_factory=set)
    assigned: Owned = field(default_factory=set)


@dataclass(frozen=True)
class Look:
    """A broker's description of a group after a request. `end_offset` is the end of the log then, `said` the
    description (None if the broker knows no such KIP-848 group), and `causes` are the kinds of changes that the request
    may have made."""

    end_offset: int
    said: dict[str, Any] | None
    causes: frozenset[str]


class Play:
    """Plays one group. `looks` are the broker's descriptions, one after each request."""

    def __init__(self, connection: Connection, group_id: str, dice: random.Random) -> None:
        self.group_id = group_id
        self.looks: list[Look] = []
        self.refused: Counter[str] = Counter()
        self.dice, self._connection = dice, connection
        self._members: list[Member] = []
        self._away: list[Member] = []
        self._instances = count()

    def run(self) -> None:
        actions = self._actions()
        weights = [weight for weight, _ in actions]
        for _ in range(self.dice.randint(5, STEPS_MAX)):
            (action,) = self.dice.choices([act for _, act in actions], weights)
            self._look(action())
        if self.dice.random() < 0.3:
            for member in [*self._members, *self._away]:
                self._beat(member, epoch=LEFT)
            self._members, self._away = [], []
            self._look({kinds.MEMBER_LEFT.name, kinds.GROUP_EMPTIED.name})
            self._connection.call(DeleteGroupsRequest(version=DELETE_VERSION, groups_names=[self.group_id]))
            self._look(set())

    def _actions(self) -> list[tuple[int, Callable[[], set[str]]]]:
        """Returns the possible actions, each with its frequency."""
        return [
            *((4, self._join), (12, self._heartbeat), (2, self._subscribe), (2, self._leave)),
            *((1, self._go_away), (2, self._come_back), (1, self._retry)),
        ]

    def _look(self, causes: set[str]) -> None:
        """Looks until nothing is written while the broker answers: it resolves regular expressions on its own."""
        while True:
            before = end_offset(self._connection, 0)
            answer = self._connection.call(
                ConsumerGroupDescribeRequest(version=DESCRIBE_VERSION, group_ids=[self.group_id])
            )
            if before == end_offset(self._connection, 0):
                break
        (group,) = answer.groups
        self.looks.append(Look(before, None if group.error_code else described_group(group), frozenset(causes)))

    def _beat(self, member: Member, *, epoch: int | None = None, is_full: bool = False) -> Error:
        """Sends a heartbeat, with everything that the member wants if it is full, and follows the answer."""
        partitions = ConsumerGroupHeartbeatRequest.TopicPartitions
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, number in sorted(member.owned, key=str):
            by_topic.setdefault(topic_id, []).append(number)
        is_full = is_full or epoch == 0
        answer = self._connection.call(
            ConsumerGroupHeartbeatRequest(
                version=HEARTBEAT_VERSION,
                group_id=self.group_id,
                member_id=member.member_id,
                member_epoch=member.epoch if epoch is None else epoch,
                instance_id=member.instance_id,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
                subscribed_topic_names=member.topics if is_full else None,
                subscribed_topic_regex=(member.regex or "") if is_full else None,
                server_assignor=self.dice.choice([None, "range", "uniform"]) if is_full else None,
                topic_partitions=[partitions(topic_id=each, partitions=of) for each, of in by_topic.items()],
            )
        )
        error = Error(answer.error_code)
        if error != Error.NONE:
            self.refused[error.name] += 1
            return error
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            member.assigned = {(each.topic_id, number) for each in topics for number in each.partitions}
            member.owned |= member.assigned
        return error

    def _join(self) -> set[str]:
        instance_id = f"i{next(self._instances)}" if self.dice.random() < 0.4 else None
        member = Member(str(uuid4()), instance_id, *self._subscription())
        if self._beat(member, epoch=0) == Error.NONE:
            self._members.append(member)
        return {kinds.MEMBER_JOINED.name, kinds.GROUP_STARTED.name}

    def _subscription(self) -> tuple[list[str], str | None]:
        topics = sorted(self.dice.sample([*TOPICS], self.dice.randint(1, len(TOPICS))))
        return (topics, None) if self.dice.random() < 0.85 else ([], self.dice.choice(["seq-[ab]", "seq-.*"]))

    def _heartbeat(self) -> set[str]:
        if self._members:
            member = self.dice.choice(self._members)
            if self.dice.random() < 0.7:
                member.owned &= member.assigned
            self._follow(member, self._beat(member))
        return set()

    def _retry(self) -> set[str]:
        """Sends a heartbeat with the epoch before, as a client whose answer was lost."""
        if self._members:
            member = self.dice.choice(self._members)
            self._follow(member, self._beat(member, epoch=max(member.epoch - 1, 1)))
        return set()

    def _follow(self, member: Member, error: Error) -> None:
        if error in (Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID) and member in self._members:
            # Fenced clients join again with their id. Here they don't, and the broker keeps their former state.
            member.owned = set(member.assigned)

    def _subscribe(self) -> set[str]:
        if self._members:
            member = self.dice.choice(self._members)
            member.topics, member.regex = self._subscription()
            self._follow(member, self._beat(member, is_full=True))
        return {kinds.SUBSCRIPTION_CHANGED.name}

    def _leave(self) -> set[str]:
        if self._members:
            member = self._members.pop(self.dice.randrange(len(self._members)))
            self._beat(member, epoch=LEFT)
        return {kinds.MEMBER_LEFT.name, kinds.GROUP_EMPTIED.name}

    def _go_away(self) -> set[str]:
        static = [member for member in self._members if member.instance_id is not None]
        if static:
            member = self.dice.choice(static)
            if self._beat(member, epoch=AWAY) == Error.NONE:
                self._members.remove(member)
                self._away.append(member)
        return set()

    def _come_back(self) -> set[str]:
        if self._away:
            gone = self._away.pop(self.dice.randrange(len(self._away)))
            topics, regex = (gone.topics, gone.regex) if self.dice.random() < 0.7 else self._subscription()
            member = Member(str(uuid4()), gone.instance_id, topics, regex)
            if self._beat(member, epoch=0) == Error.NONE:
                self._members.append(member)
        return {kinds.MEMBER_REPLACED.name, kinds.SUBSCRIPTION_CHANGED.name}


def keyed_events(log: Iterable[tuple[int, Appended]], names: dict[str, str]) -> list[Keyed]:
    """Returns, for each record, its key, whether it is a tombstone, and the event that the fold takes. `names` has
    topic names by topic id."""
    found = []
    for offset, each in log:
        record, is_tombstone = each.record, each.record.value is None
        place = offset, each.timestamp_ms
        event = event_of(place, record.record_type, record_fields(record), names, is_tombstone=is_tombstone)
        found.append(((record.record_type, *record.key.values()), is_tombstone, event))
    return found


def differences(play: Play, log: list[Keyed]) -> Iterator[str]:
    """Yields a sentence for each description and each cause that the history contradicts."""
    history = History(play.group_id)
    begin = 0
    for number, look in enumerate(play.looks):
        piece = [event for _, _, event in log if begin <= offset_of(event) < look.end_offset]
        begin = look.end_offset
        history.fold(piece)
        if look.said is not None:
            found, said = as_described(history.tables), comparable_description(look.said)
            if found != said:
                yield f"{play.group_id}, look {number}: the history has {found}, and the broker says {said}"
            if wrong_state(history.tables, look.said):
                yield f"{play.group_id}, look {number}: the broker says {look.said['state']}"
        yield from _wrong_causes(play.group_id, history, set(map(offset_of, piece)), look)


def false_claims(play: Play, log: list[Keyed], dice: random.Random) -> Iterator[str]:
    """Yields the wrong claims of two histories: one whose log lacks a cleaned beginning, and one whose log lacks a part
    that was not read."""
    looks = [look.end_offset for look in play.looks]
    begin, end = sorted(dice.sample(looks, 2))
    claims = false_claims_of_cleaned(play.group_id, log, looks, end)
    if begin < end:
        claims = chain(claims, false_claims_of_holed(play.group_id, log, looks, (begin, end)))
    yield from (f"{play.group_id}, {claim}" for claim in claims)


def accusations(play: Play, log: list[Keyed]) -> Iterator[str]:
    """Yields the KIP-848 records that `groupledger validate` would report as impossible, though a broker wrote them."""
    events = [event for _, _, event in log]
    written = {offset_of(event) for event in events if isinstance(event, OtherGroupType)}
    for each in replay(play.group_id, 0, [Coverage(0, Completeness.COMPLETE), *events]):
        if each.kafka_offset in written:
            yield f"{play.group_id}, {each.kafka_offset}: {each.explanation}"


# Changes that the broker may make by itself, whatever the request.
BY_ITSELF = {kinds.TOPICS_CHANGED.name, kinds.REGEX_RESOLVED.name}


def _wrong_causes(group_id: str, history: History, offsets: set[int], look: Look) -> Iterator[str]:
    of_epochs = offsets & _epoch_offsets(history)
    for row in history.tables["rebalances"].values():
        if row["kafka_offset"] in of_epochs:
            logged_kinds = {each["kind"] for each in row["changes"] or ()}
            if row["is_hole"] or not logged_kinds or not logged_kinds <= look.causes | BY_ITSELF:
                asked = sorted(look.causes)
                yield f"{group_id}, epoch {row['to_generation']}: logged {sorted(logged_kinds)}, asked for {asked}"


def _epoch_offsets(history: History) -> set[int]:
    """Returns the offsets of the records that began an epoch; a classic generation begins with others."""
    generations = history.tables["generations"].values()
    return {row["kafka_offset"] for row in generations if row["group_type"] == GroupType.CONSUMER}


@dataclass
class Outcome:
    """The outcome of a comparison: in `compared` what was compared and how often, and in `wrong` a sentence for each
    difference."""

    compared: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prepare(bootstrap_servers: str) -> dict[str, str]:
    """Creates the topics, and makes the broker create `__consumer_offsets` by asking for a group's coordinator. Returns
    topic names by topic id."""
    kind = CreateTopicsRequest.CreatableTopic
    topics = [kind(name=name, num_partitions=number, replication_factor=1) for name, number in TOPICS.items()]
    with closing(Connection(bootstrap_servers)) as connection:
        created = connection.call(CreateTopicsRequest(version=7, topics=topics, timeout_ms=30_000))
        retried(connection, FindCoordinatorRequest(version=3, key="any", key_type=GROUP_KEY))
        await_groups(connection, ["seq-any"])
    return {kafka_id_of(topic.topic_id): topic.name for topic in created.topics}


def play_all(
    bootstrap_servers: str, names: dict[str, str], sequences: Iterable[int], seed: int, kind: type[Play] = Play
) -> Outcome:
    """Plays the sequences with these numbers. The same number and seed always give the same random choices."""
    outcome = Outcome()
    with closing(Connection(bootstrap_servers)) as connection:
        for number in sequences:
            begin = end_offset(connection, 0)
            play = kind(connection, f"seq-{kind.__name__}-{seed}-{number}", random.Random(f"{seed} {number}"))
            play.run()
            stored = read_offsets_topic(connection, 0, begin)
            log = keyed_events((at for at in stored if at[1].record.key.get("group_id") == play.group_id), names)
            outcome.wrong += [*differences(play, log), *false_claims(play, log, play.dice), *accusations(play, log)]
            outcome.compared.update(sequences=1, answers=len(play.looks), records=len(log))
            outcome.compared["refused requests"] += play.refused.total()
    return outcome
