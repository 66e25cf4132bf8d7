"""Drives the scenarios on a real broker, and sends every request to the reference coordinator as well.

Every answer and every record of the broker is compared with the coordinator's, field by field; the first difference
raises. The coordinator also determines what the driver waits for: whether a request is parked (answered later), which
parked requests an event answers, and what a timer does.

- Ids are the broker's. A join with an empty id goes to the broker first. The coordinator then gets the UUID that the
  broker drew, because the order of Java's maps depends on it. The UUID is in the answer or, while the join is parked,
  in the answer to DescribeGroups.
- Times are compared by windows: if the coordinator does something at a virtual instant, the broker's time for it must
  lie between the real instants before and after. If the wall clock is set meanwhile, the window grows by the
  difference. The broker may answer before it is done (SyncGroup before the group is Stable, the first JoinGroup before
  it writes the new group), so a record may be as late as the answer to the *next* request, and the time of a state as
  late as its record.
- Time is scaled: `time_scale` virtual milliseconds are one real one, and timeouts on the wire are divided by it.
- A parked request is followed by a *fence*: a request on another connection, whose answer the driver awaits. With one
  network thread and one handler thread (`SETTINGS`) the broker then takes the parked request before all later ones:
  the network thread queues all that it reads before it sends, and the only handler takes requests in order.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest

from groupledger.coordinator.model.config import KAFKA_4_2
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.messages import (
    NO_RETENTION_TIME,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.uuids import kafka_id_of
from lab.kafka.connection import ANSWER_SECONDS_MAX, Appended, Connection, end_offset, read_offsets_topic, release_of
from lab.kafka.group_messages import comparable_response, errors_of, from_wire, to_wire
from lab.kafka.producers import NOT_YET, Producer, retried
from lab.scenarios.coordinator_driver import CoordinatorDriver
from lab.scenarios.driver import Call, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.messages import Request
    from groupledger.schemas.codec.records import Record

# One thread each: the order of requests on several connections is then the order of their sending (see above).
SETTINGS = {"num.network.threads": "1", "num.io.threads": "1"}
TOPICS = ("orders", "other")
TOPIC_PARTITIONS = 4
GROUP_KEY, TRANSACTION_KEY = 0, 1
OFFSETS_PARTITIONS = 50  # Kafka's default
GROUPS_FOR_ALL_PARTITIONS = 500  # enough for their ids to fall into all of these
POLL_SECONDS = 0.01
JUST_BEFORE = 9  # the last digit of an advance that stops short of a deadline
SHARE_WAITED_BEFORE = 0.6  # of such an advance; the rest is leeway for a busy machine
CLOCK_SLACK_MS = 2

_MEMBER_TIMEOUTS = ("rebalance_timeout_ms", "session_timeout_ms")


class DifferenceError(AssertionError):
    """Raised if an answer or a record of the broker differs from the coordinator's."""

    def __init__(self, occasion: Any, of_coordinator: Any, of_broker: Any) -> None:
        super().__init__(f"{occasion}\n  coordinator: {of_coordinator}\n  broker:      {of_broker}")


@dataclass
class Broker:
    """The address of a broker, the ids of the topics that drivers use on it, by name, and its release."""

    bootstrap_servers: str
    topic_ids: dict[str, str]
    release: str = KAFKA_4_2

    @classmethod
    def prepare(cls, bootstrap_servers: str) -> Broker:
        """Creates the topics for which offsets are committed, makes the broker create `__consumer_offsets`, and waits
        until all its partitions are loaded."""
        connection = Connection(bootstrap_servers)
        kind = CreateTopicsRequest.CreatableTopic
        topics = [kind(name=name, num_partitions=TOPIC_PARTITIONS, replication_factor=1) for name in TOPICS]
        created = connection.call(CreateTopicsRequest(version=7, topics=topics, timeout_ms=30_000))
        topic_ids = {topic.name: kafka_id_of(topic.topic_id) for topic in created.topics}
        for key_type in (GROUP_KEY, TRANSACTION_KEY):
            retried(connection, FindCoordinatorRequest(version=3, key="any", key_type=key_type))
        await_groups(connection, [f"group-{number}" for number in range(GROUPS_FOR_ALL_PARTITIONS)])
        release = release_of(connection)
        connection.close()
        return cls(bootstrap_servers, topic_ids, release)


def await_groups(connection: Connection, group_ids: list[str]) -> None:
    """Waits until the coordinators of these groups have loaded their partitions."""
    request = DescribeGroupsRequest(0, tuple(group_ids))
    while any(group.error_code in NOT_YET for group in connection.call(to_wire(request)).groups):
        time.sleep(POLL_SECONDS)


def await_topic(connection: Connection, topic: str, group_ids: list[str]) -> None:
    """Waits until the coordinators of these groups have heard of a new topic.

    Each partition of `__consumer_offsets` hears of it by itself, and a group that hears of it late gets another epoch.
    So another group of the same partition asks.
    """
    for group_id in group_ids:
        partition = partition_for(group_id, OFFSETS_PARTITIONS)
        scout = next(name for n in count() if partition_for(name := f"scout-{n}", OFFSETS_PARTITIONS) == partition)
        words: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": (topic,), "owned": {}}
        epoch = 0
        while True:
            request = ConsumerGroupHeartbeatRequest(0, scout, member_id="S" * 22, member_epoch=epoch, **words)
            answer = connection.call(to_wire(request))
            if answer.assignment is not None and answer.assignment.topic_partitions:
                break
            epoch = answer.member_epoch
            time.sleep(POLL_SECONDS)


@dataclass(slots=True)
class _Waiting:
    call: Call
    of_coordinator: Call
    connection: Connection


class BrokerDriver(Driver):
    def __init__(
        self,
        broker: Broker,
        group_id: str,
        *,
        time_scale: int = 1,
        tick_ms: int = 0,
        restart: Callable[[], None] | None = None,
        **settings: Any,
    ) -> None:
        """Connects to the broker. `tick_ms` is the virtual time that passes before each request, `restart` is a
        function that restarts the broker, and `settings` are those of the broker, for the coordinator."""
        super().__init__(group_id)
        self.broker = broker
        self.model = CoordinatorDriver(release=broker.release, **settings)
        topics = {name: Topic(name, topic_id, TOPIC_PARTITIONS) for name, topic_id in broker.topic_ids.items()}
        self.model.coordinator.topics.update(topics)
        self.compared: Counter[tuple[str, str]] = Counter()  # API and error, or "Record" and its type
        self._time_scale = time_scale
        self._tick_ms = tick_ms
        self._restart = restart
        self._free: list[Connection] = []
        self._waiting: list[_Waiting] = []
        self._producers: dict[int, Producer] = {}
        self._moments: list[tuple[int, float]] = []
        self._clock_offsets_ms: list[float] = []
        self._origin_seconds = time.monotonic() - self._virtual_seconds()
        self._control = self._connect()
        await_groups(self._control, [*self._group_ids])
        self._positions = {
            partition: end_offset(self._control, partition)
            for partition in map(self.model.coordinator.partition_for, self._group_ids)
        }
        self._read: list[tuple[int, Appended]] = []

    # Requests

    def send(self, request: Request) -> Call:
        self.model.advance(self._tick_ms)
        self._mark()
        transactional_id = ""
        if isinstance(request, TxnOffsetCommitRequest):
            producer = self._producer(request)
            producer.add_group(request.group_id)
            transactional_id = producer.transactional_id
            request = replace(request, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        connection = self._free.pop() if self._free else self._connect()
        message = to_wire(request, transactional_id)
        if isinstance(request, JoinGroupRequest):
            message.session_timeout_ms //= self._time_scale
            message.rebalance_timeout_ms //= self._time_scale
        elif isinstance(request, OffsetCommitRequest) and request.retention_time_ms != NO_RETENTION_TIME:
            message.retention_time_ms //= self._time_scale
        connection.send(message)
        if isinstance(request, JoinGroupRequest) and not request.member_id:
            request = self._with_drawn_uuid(request, connection)
        waiting = _Waiting(Call(request), self.model.send(request), connection)
        self.model.advance(0)  # an initial delay of 0 is over at once
        self._waiting.append(waiting)
        if waiting.of_coordinator.is_parked:
            self._describe(request)
        self._settle()
        return waiting.call

    def _with_drawn_uuid(self, request: JoinGroupRequest, connection: Connection) -> JoinGroupRequest:
        """Returns the request with the UUID of the member id that the broker gave; unchanged if it gave none.

        The id is in the answer, unless that is an error half-way, and in the description of the group.
        """
        group = self.model.coordinator.group(request.group_id)
        known = set() if group is None else set(group.members)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        drawn = ""
        is_answered = False
        while not drawn and not is_answered:
            if time.monotonic() > deadline:
                raise DifferenceError(request, "answered, or parked as a member", "neither")
            is_answered = connection.is_answered()
            drawn = connection.peek().member_id if is_answered else ""
            for member in () if drawn else self._describe(request).members:
                if member.member_id not in known and member.group_instance_id == request.group_instance_id:
                    drawn = member.member_id
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        return replace(request, new_member_uuid=drawn.removeprefix(f"{prefix}-")) if drawn else request

    def _describe(self, request: Any) -> Any:
        """Returns the broker's description of a request's group. It is also the fence after a parked request."""
        asked = DescribeGroupsRequest(0, (request.group_id,))
        response: Any = from_wire(self._control.call(to_wire(asked)), asked)
        return response.groups[0]

    def _settle(self) -> None:
        """Takes the answers that are due according to the coordinator, and no others."""
        for waiting in tuple(self._waiting):
            request, expected = waiting.call.request, waiting.of_coordinator.response
            if expected is None and not waiting.connection.is_answered():
                continue
            answer = from_wire(waiting.connection.receive(), request)
            if isinstance(answer, ListGroupsResponse):
                answer = replace(answer, groups=tuple(g for g in answer.groups if g.group_id in self._group_ids))
            if expected is None or comparable_response(answer, request) != comparable_response(expected, request):
                raise DifferenceError(request, "parked" if expected is None else expected, answer)
            waiting.call.response = answer
            self.compared.update((type(request).__name__, error) for error in errors_of(answer))
            self._waiting.remove(waiting)
            self._free.append(waiting.connection)

    @property
    def _group_ids(self) -> tuple[str, str]:
        return self.group_id, self.other_group_id

    # Transactions

    def _producer(self, request: TxnOffsetCommitRequest) -> Producer:
        producer = self._producers.get(request.producer_id)
        if producer is None:
            transactional_id = f"{self.group_id}-{request.producer_id}"
            producer = Producer(self._control, transactional_id, request.api_version)
            producer.start()
            self._producers[request.producer_id] = producer
        return producer

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        producer = self._producers[producer_id]
        self.model.advance(self._tick_ms)
        self._mark()
        producer.end(committed=committed)
        for partition in self._positions:
            marker = WriteTxnMarkerRequest(
                self.next_request_id(),
                partition=partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=committed,
            )
            self.model.answer(marker)

    # Time

    def _virtual_seconds(self) -> float:
        return self.model.now_ms / 1_000 / self._time_scale

    def _mark(self) -> None:
        wall_ms = time.time() * 1_000
        self._moments.append((self.model.now_ms, wall_ms))
        self._clock_offsets_ms.append(wall_ms - time.monotonic() * 1_000)

    def advance(self, milliseconds: int) -> None:
        self._mark()
        self.model.advance(milliseconds)
        is_just_before = milliseconds % 10 == JUST_BEFORE
        early = (1 - SHARE_WAITED_BEFORE) * milliseconds / 1_000 / self._time_scale
        until = self._origin_seconds + self._virtual_seconds() - (early if is_just_before else 0.0)
        time.sleep(max(0.0, until - time.monotonic()))
        self._settle()
        self._await_group()
        self._mark()

    def _await_group(self) -> None:
        """Waits until broker and coordinator describe the group equally, since timers are late on a busy machine."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        request = DescribeGroupsRequest(self.next_request_id(), (self.group_id,))
        (expected,) = self.model.answer(request).groups
        while True:
            (described,) = from_wire(self._control.call(to_wire(request)), request).groups  # type: ignore[attr-defined]
            if described == expected:
                return
            if time.monotonic() > deadline:
                raise DifferenceError(f"after {self.model.now_ms} ms of virtual time", expected, described)
            time.sleep(POLL_SECONDS)

    def fail_next_append(self, error: Error) -> None:
        if error is not Error.MESSAGE_TOO_LARGE:
            raise NotImplementedError
        self.model.fail_next_append(error)

    def failover(self, **settings: Any) -> None:
        if self._restart is None:
            raise NotImplementedError
        self.take_records()
        self._close_connections()
        self._restart()
        self._control = self._connect()
        self.model.failover(**settings)
        self._origin_seconds = time.monotonic() - self._virtual_seconds()
        await_groups(self._control, [*self._group_ids])
        self._await_group()

    # Records

    def take_records(self) -> list[Record]:
        """Returns the records of the groups that the broker has written since the last call. Raises DifferenceError if
        the coordinator's records differ."""
        taken = self.model.take_batches()
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        expected = [
            (batch.partition, Appended(batch.timestamp_ms, batch.producer_id, record))
            for batch in taken
            for record in batch.records
        ]
        self._read_on()
        while len(self._read) < len(expected) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            self._read_on()
        found, self._read = self._read, []
        self._mark()
        for partition in self._positions:
            self._compare(
                [appended for place, appended in expected if place == partition],
                [appended for place, appended in found if place == partition],
            )
        self.compared.update(("Record", appended.record.record_type) for _, appended in found)
        return [appended.record for _, appended in found]

    def _read_on(self) -> None:
        for partition, position in self._positions.items():
            for offset, appended in read_offsets_topic(self._control, partition, position):
                self._positions[partition] = offset + 1
                if appended.record.key.get("group_id") in self._group_ids:
                    self._read.append((partition, appended))

    def _compare(self, expected: list[Appended], found: list[Appended]) -> None:
        for number in range(max(len(expected), len(found))):
            one = expected[number] if number < len(expected) else None
            other = found[number] if number < len(found) else None
            if one is None or other is None or not self._is_same(one, other):
                raise DifferenceError(f"record {number} of {len(expected)}", one, other)

    def _is_same(self, expected: Appended, found: Appended) -> bool:
        """Returns whether two records are equal: timestamps within their windows, timeouts converted to virtual
        time."""
        appended = self._window(expected.timestamp_ms, answers_after=1)
        times = [(found.timestamp_ms, appended)]
        one, other = expected.record, found.record
        if one.value is not None and other.value is not None:
            value = dict(other.value)
            for name in ("commit_timestamp_ms", "current_state_timestamp_ms"):
                if name in value and name in one.value:
                    first, last = self._window(one.value[name])
                    times.append((value[name], (first, appended[1] if name.startswith("current_state") else last)))
                    value[name] = one.value[name]
            if value.get("expire_timestamp_ms", -1) != -1:
                retention_ms = value["expire_timestamp_ms"] - other.value["commit_timestamp_ms"]
                value["expire_timestamp_ms"] = value["commit_timestamp_ms"] + retention_ms * self._time_scale
            value["members"] = [
                member | {name: member[name] * self._time_scale for name in _MEMBER_TIMEOUTS}
                for member in value.get("members", ())
            ]
            one = replace(one, value={"members": [], **one.value})
            other = replace(other, value=value)
        same_producer = expected.producer_id == found.producer_id
        return same_producer and one == other and all(first <= real_ms <= last for real_ms, (first, last) in times)

    def _window(self, virtual_ms: int, answers_after: int = 0) -> tuple[float, float]:
        """Returns the real instants between which the broker does what the coordinator does at this virtual time.

        `answers_after` extends the window by this many later answers.
        """
        first = max(0, bisect_left(self._moments, (virtual_ms, 0.0)) - 1)
        last = bisect_right(self._moments, (virtual_ms, float("inf"))) + answers_after
        last = min(last, len(self._moments) - 1)
        slack_ms = CLOCK_SLACK_MS + max(self._clock_offsets_ms) - min(self._clock_offsets_ms)
        return self._moments[first][1] - slack_ms, self._moments[last][1] + slack_ms

    # The end

    def finish(self) -> None:
        """Raises DifferenceError if anything else was answered or written. It does not close the connections; `close`
        does."""
        self._control.call(to_wire(DescribeGroupsRequest(0, (self.group_id,))))
        self._settle()
        self.take_records()

    def close(self) -> None:
        self._close_connections()

    def _connect(self) -> Connection:
        return Connection(self.broker.bootstrap_servers)

    def _close_connections(self) -> None:
        for connection in (self._control, *self._free, *(waiting.connection for waiting in self._waiting)):
            connection.close()
        self._free, self._waiting = [], []
