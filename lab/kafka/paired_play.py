"""Plays requests on a broker and on the coordinator, and compares answers, records and lines of the server log.

Each request goes to both. The resulting records are compared field by field, except times. Lists of partitions are
compared as sets, since their order depends on how a map of the broker grew. A play has groups of its own, and records
and lines about other groups are left out. The texts of the log lines are compared, except durations, Java's identity
hashes, and exceptions that are only logged.

In some plays the broker is restarted: it loads its log, and the coordinator loads its own records.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata.metadata import MetadataRequest

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.assignors import in_turn
from groupledger.coordinator.model.log_lines import LogEvent, render
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of
from lab.kafka.broker_driver import await_groups
from lab.kafka.connection import Connection, end_offset, read_offsets_topic, release_of
from lab.kafka.group_messages import comparable_response, from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.schemas.codec.records import Record

# Times, and the version of the cluster's metadata, which a broker counts up every half second.
NOT_COMPARED = ("commit_timestamp_ms", "current_state_timestamp_ms", "timestamp_ms", "version")
ASSIGNMENT_TIME = "assignment_timestamp_ms"
# A broker of 4.4 waits between two targets; here it must not, since the coordinator's clock stands still meanwhile.
_TYPES = ("consumer", "share", "streams")
WITHOUT_INTERVALS: dict[str, Any] = {f"group_{each}_assignment_interval_ms": 0 for each in _TYPES}
PROPERTIES_OF_4_4 = {f"group.{each}.assignment.interval.ms": "0" for each in _TYPES}
PARTITIONS = ("topic_partitions", "assigned_partitions", "partitions_pending_revocation")
WAIT_SECONDS_MAX, POLL_SECONDS = 5.0, 0.002
METADATA_VERSION = 12  # names topics with their ids
_TOOK = re.compile(r"\bin \d+ ?m(?:illiseconds|s)\b")
_IDENTITY = re.compile(r"(?<=\[B@)[0-9a-f]+")
_EXCEPTIONS = re.compile(
    r"Operation .* hit an unexpected exception: |Failed to parse Consumer Protocol "
    r"|Cannot upgrade classic group \S+ to consumer group(:| because the embedded consumer protocol is malformed:) "
    r"|Cannot downgrade the consumer group "
)
SHORT_REBALANCE_MS, SHARE_OF_HOLDING = 2_000, 0.05
SHARE_OF_LOADS, LOADS_BEFORE = 0.02, (4, 40)
UNKNOWN_ID = "an-id-that-nobody-knows"  # a broker drew it and then refused the request
_LOGGED = re.compile(r"\] [A-Z]+ \[GroupCoordinator [^]]+\] (.*) \([\w.]+\)$")
NAMED_TOPICS = ("initializing_topics", "initialized_topics", "deleting_topics")


@dataclass
class Outcome:
    """The outcome of a comparison: in `compared` how often each request, with its error, and each type of record was
    compared, in `wrong` a sentence for each difference, and in `different` the numbers of the sequences that have
    one."""

    compared: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    different: list[int] = field(default_factory=list)


class DifferenceError(AssertionError):
    """Raised if an answer, a record or a log line of the broker differs from the coordinator's."""


class _Written(Coordinator):
    """A coordinator that keeps its records."""

    def __init__(self, config: Config, streams_assignor: StreamsAssignor) -> None:
        super().__init__(config, streams_assignor=streams_assignor)
        self.batches: list[Batch] = []

    def handle(self, request: Request, *, now_ms: int, append_error: Error = Error.NONE) -> Result:
        result = super().handle(request, now_ms=now_ms, append_error=append_error)
        self.batches += result.batches
        return result

    def advance(self, now_ms: int, *, append_error: Error = Error.NONE) -> Result:
        result = super().advance(now_ms, append_error=append_error)
        self.batches += result.batches
        return result


class PairedPlay:
    """Plays requests about some groups, on a broker whose `__consumer_offsets` has one partition. If `restart` is set,
    the play calls it once, before request number `loads_before`, to restart the broker."""

    restart: Callable[[], None] | None = None
    loads_before: int = 0

    def __init__(
        self,
        connection: Connection,
        topics: list[Topic],
        group_ids: tuple[str, ...],
        dice: random.Random,
        config: Config,
        server_log: Path | None = None,
        *,
        streams_assignor: StreamsAssignor = in_turn,
    ) -> None:
        self.compared: Counter[str] = Counter()
        self.connection, self.group_ids, self.dice = connection, group_ids, dice
        self.requests = count()
        self.now_ms = 0
        config = replace(config, release=release_of(connection), **WITHOUT_INTERVALS)
        self.model = _Written(config, streams_assignor)
        self.model.topics.update({topic.name: topic for topic in topics})
        self.model.load(0, [], now_ms=0)
        self._position = end_offset(connection, 0)
        self._events: list[LogEvent] = []
        self._server_log = server_log
        self._log_begin = 0 if server_log is None else server_log.stat().st_size

    def run(self) -> None:
        """Plays one random sequence of requests."""
        raise NotImplementedError

    def choose(self, actions: list[tuple[int, Callable[[], None]]]) -> None:
        """Does one random action. Each action comes with its frequency."""
        (action,) = self.dice.choices([act for _, act in actions], [weight for weight, _ in actions])
        action()

    def ask(self, request: Request) -> Any:
        """Sends a request to broker and coordinator, compares answers and records, and returns the broker's answer."""
        self.may_load()
        self.now_ms += 1
        answer = comparable_response(from_wire(self.connection.call(to_wire(request)), request), request)
        result = self.model.handle(request, now_ms=self.now_ms)
        # An initial delay of 0 is over at once.
        late = self.model.advance(self.now_ms)
        (expected,) = (comparable_response(each, request) for each in (*result.responses, *late.responses))
        self.compare(request, in_order(expected), in_order(answer))
        self._events += [*result.events, *late.events]
        expected_records = [*result.records, *late.records]
        written = self.read_at_least(len(expected_records))
        self.compare(request, [*map(comparable_record, expected_records)], [*map(comparable_record, written)])
        self.compared[f"{type(request).__name__} {getattr(answer, 'error', Error.NONE).name}"] += 1
        self.compared.update(f"record {each.record_type}" for each in written)
        return answer

    def go_on(self, occasion: Request) -> None:
        """Fires the coordinator's due timers, and compares the resulting records with the broker's. `occasion` is named
        in a DifferenceError."""
        result = self.model.advance(self.now_ms)
        self._events += result.events
        written = self.read_at_least(len(result.records))
        self.compare(occasion, [*map(comparable_record, result.records)], [*map(comparable_record, written)])

    def hold_back(self, member_id: str, occasion: Request) -> None:
        """Lets a member hold back partitions for longer than its short rebalance timeout. The request `occasion` asks
        for the groups' descriptions afterwards."""
        was_there = self.has_member(member_id)
        self.now_ms += SHORT_REBALANCE_MS
        self.go_on(occasion)
        self.ask(occasion)
        self.compared["members fenced for what they held back"] += was_there and not self.has_member(member_id)

    def has_member(self, member_id: str) -> bool:
        """Returns whether one of the groups has the member in the coordinator's state."""
        known = (self.model.consumer_group, self.model.streams_group)
        groups = (find(group_id) for find in known for group_id in self.group_ids)
        return any(group is not None and member_id in group.members for group in groups)

    def may_load(self) -> None:
        """Counts a request, and restarts the broker if its turn has come."""
        self.loads_before -= 1
        if self.restart is not None and not self.loads_before:
            self.load(self.restart)

    def load(self, restart: Callable[[], None]) -> None:
        """Restarts the broker, lets the coordinator load its own records, and compares the records that both write
        while they load."""
        restart()
        self.connection.reconnect()
        await_groups(self.connection, [*self.group_ids])
        self.now_ms += 1
        result = self.model.load(0, self.model.batches, now_ms=self.now_ms)
        self._events += result.events
        written = self.read_at_least(len(result.records))
        self.compare(None, [*map(comparable_record, result.records)], [*map(comparable_record, written)])
        self.compared["loads"] += 1

    def read(self) -> list[Record]:
        """Returns the records of the groups that the broker has written since the last call."""
        found = []
        for offset, appended in read_offsets_topic(self.connection, 0, self._position):
            self._position = offset + 1
            if appended.record.key.get("group_id") in self.group_ids:
                found.append(appended.record)
        return found

    def read_at_least(self, count: int) -> list[Record]:
        """Returns the records since the last call. Waits up to `WAIT_SECONDS_MAX` for `count` records, since a broker
        may write some after its response."""
        found = self.read()
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            found += self.read()
        return found

    def compare_log(self) -> None:
        """Compares the broker's log lines about the groups with the coordinator's. Does nothing if there is no server
        log."""
        if self._server_log is None:
            return
        with self._server_log.open("rb") as log:
            log.seek(self._log_begin)
            lines = log.read().decode(errors="replace").splitlines()
        logged = [found[1] for line in lines if (found := _LOGGED.search(line)) and self._is_about_groups(found[1])]
        expected = [text for text in map(render, self._events) if self._is_about_groups(text)]
        expected, logged = ([*map(_without_what_differs, sorted(each, key=_is_aside))] for each in (expected, logged))
        for place, (one, other) in enumerate(zip(expected, logged, strict=False)):
            if re.fullmatch(re.escape(one).replace(re.escape(UNKNOWN_ID), r"[\w-]+"), other):
                expected[place] = other
        one, other = differing(expected, logged)
        if one != other:
            raise DifferenceError(f"server log\n  coordinator: {one}\n  broker:      {other}")
        self.compared["server log lines"] += len(logged)

    def _is_about_groups(self, text: str) -> bool:
        return not _EXCEPTIONS.match(text) and any(
            re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text) for each in self.group_ids
        )

    def compare(self, request: Request | None, of_coordinator: Any, of_broker: Any) -> None:
        if isinstance(of_broker, list):
            of_coordinator, of_broker = differing(of_coordinator, of_broker)
        if of_coordinator != of_broker:
            raise DifferenceError(f"{request or 'load'}\n  coordinator: {of_coordinator}\n  broker:      {of_broker}")


def differing(one: list[Any], other: list[Any]) -> tuple[Any, Any]:
    """Returns the first pair of elements in which two lists differ, with None for a missing element. Returns a pair of
    None if the lists are equal."""
    pairs = zip_longest(one, other)
    return next((pair for pair in pairs if pair[0] != pair[1]), (None, None))


def _is_aside(text: str) -> bool:
    """Whether another thread of the broker says it, some time while a request is handled or after it."""
    return " topics to refresh regular expressions " in text


def _without_what_differs(text: str) -> str:
    return _IDENTITY.sub("0", _TOOK.sub("in some time", text))


def in_order(answer: Any) -> Any:
    """Returns an answer with the members of each described group sorted by member id."""
    groups = getattr(answer, "groups", ())
    if groups and hasattr(groups[0], "group_epoch"):
        ordered = (
            replace(group, members=tuple(sorted(group.members, key=lambda member: member.member_id)))
            for group in groups
        )
        return replace(answer, groups=tuple(ordered))
    return answer


def comparable_record(record: Record) -> Any:
    """Returns a record for comparison: without times, and with its partitions sorted."""
    value = record.value
    if value is not None:
        value = {name: each for name, each in value.items() if name not in NOT_COMPARED}
        if ASSIGNMENT_TIME in value:  # is there one
            value[ASSIGNMENT_TIME] = bool(value[ASSIGNMENT_TIME])
    for name in (*PARTITIONS, *NAMED_TOPICS):
        if value is not None and name in value:
            value[name] = sorted((each["topic_id"], each.get("topic_name"), _with_epochs(each)) for each in value[name])
    return record.record_type, record.key, record.value_version if value is not None else None, value


def _with_epochs(topic: Mapping[str, Any]) -> list[tuple[int, int | None]]:
    """Returns partitions in order, each with the epoch in which it came to its member, if the record has that."""
    return sorted(zip_longest(topic.get("partitions", ()), topic.get("assignment_epochs") or ()))


def known_topics(connection: Connection, rack: str | None) -> list[Topic]:
    """Returns all topics of a broker, including internal ones. `rack` is the rack of every replica, or None."""
    racks = () if rack is None else (rack,)
    answer = connection.call(MetadataRequest(version=METADATA_VERSION, topics=None, allow_auto_topic_creation=False))
    return [
        Topic(each.name, kafka_id_of(each.topic_id), len(each.partitions), (racks,) * len(each.partitions))
        for each in answer.topics
    ]


def play_each(
    sequences: Iterable[int],
    seed: int,
    play_of: Callable[[int, random.Random], AbstractContextManager[PairedPlay]],
    restart: Callable[[], None] | None = None,
) -> Outcome:
    """Plays the sequences with these numbers. The same number and seed always give the same random choices. If
    `restart`, which restarts the broker, is not None, some sequences call it."""
    outcome = Outcome()
    for number in sequences:
        dice = random.Random(f"{seed} {number}")
        with play_of(number, dice) as play:
            if restart is not None and random.Random(f"load {seed} {number}").random() < SHARE_OF_LOADS:
                play.restart, play.loads_before = restart, random.Random(f"{number}").randint(*LOADS_BEFORE)
            try:
                play.run()
                play.compare_log()
            except (DifferenceError, ValueError) as difference:
                outcome.wrong.append(f"sequence {number}: {difference}")
                outcome.different.append(number)
        outcome.compared.update(play.compared)
        outcome.compared["sequences"] += 1
    return outcome
