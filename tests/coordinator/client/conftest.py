"""Runs consumers of the client model against the reference coordinator, in memory and in virtual time."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.client.config import ConsumerConfig
from groupledger.coordinator.client.consumer import Consumer
from groupledger.coordinator.client.messages import (
    EARLIEST_TIMESTAMP,
    NO_NODE,
    Destination,
    EpochEndOffset,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    PartitionMetadata,
    Sent,
    TopicMetadata,
)
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.messages import (
    FetchedGroup,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    refusal,
)
from groupledger.schemas.kafka.errors import Error
from lab.scenarios.coordinator_driver import lead_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.coordinator.client.events import ConsumerEvent, Polled
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.operation import Result

LOST = "the connection is lost"
SILENCE = "no answer comes"


def refused(request: Any, error: Error) -> Response:
    """Returns the answer to a request that consists of this error alone."""
    number = request.request_id
    match request:
        case FindCoordinatorRequest():
            return FindCoordinatorResponse(number, error)
        case OffsetFetchRequest():
            return OffsetFetchResponse(number, (FetchedGroup(request.groups[0].group_id, error),))
        case MetadataRequest():
            return MetadataResponse(number, tuple(TopicMetadata(topic, error=error) for topic in request.topics))
        case FetchRequest() | ListOffsetsRequest() | OffsetForLeaderEpochRequest():
            kind, part = REFUSED_PARTITIONS[type(request)]
            refused_response: Response = kind(
                number, tuple(part(topic=one.topic, partition=one.partition, error=error) for one in request.partitions)
            )
            return refused_response
        case _:
            return refusal(request, error)


REFUSED_PARTITIONS: dict[type[Request], tuple[Any, Any]] = {
    FetchRequest: (FetchResponse, FetchedPartition),
    ListOffsetsRequest: (ListOffsetsResponse, ListedOffset),
    OffsetForLeaderEpochRequest: (OffsetForLeaderEpochResponse, EpochEndOffset),
}


class Broker:
    """A broker whose logs are only offsets: (log start, high watermark) by partition of each topic."""

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[int, int]]] = {}
        self.leader_epoch = 0
        self.leaderless: tuple[tuple[str, int], ...] = ()
        self.racks: Callable[[str, int], frozenset[str]] = lambda _topic, _partition: frozenset()
        self.epoch_ends: dict[tuple[str, int], int] = {}

    def answer(self, request: Any) -> Response | None:
        """Returns the answer; None for a fetch that finds no new records, and is answered later."""
        match request:
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(request.request_id, Error.NONE, 1)
            case MetadataRequest():
                return MetadataResponse(request.request_id, tuple(map(self._describe, request.topics)))
            case ListOffsetsRequest():
                return ListOffsetsResponse(
                    request.request_id,
                    tuple(
                        ListedOffset(topic=p.topic, partition=p.partition, offset=self.topics[p.topic][p.partition][i])
                        for p in request.partitions
                        for i in (0 if p.timestamp_ms == EARLIEST_TIMESTAMP else 1,)
                    ),
                )
            case OffsetForLeaderEpochRequest():
                return OffsetForLeaderEpochResponse(
                    request.request_id,
                    tuple(
                        EpochEndOffset(
                            topic=p.topic,
                            partition=p.partition,
                            leader_epoch=p.leader_epoch,
                            end_offset=self._epoch_end(p.topic, p.partition),
                        )
                        for p in request.partitions
                    ),
                )
            case _:
                return self._fetch(request)

    def _describe(self, topic: str) -> TopicMetadata:
        if topic not in self.topics:
            return TopicMetadata(topic, error=Error.UNKNOWN_TOPIC_OR_PARTITION)
        count = len(self.topics[topic])
        partitions = (
            PartitionMetadata(NO_NODE if (topic, p) in self.leaderless else 1, self.leader_epoch, self.racks(topic, p))
            for p in range(count)
        )
        return TopicMetadata(topic, tuple(partitions))

    def _epoch_end(self, topic: str, partition: int) -> int:
        return self.epoch_ends.get((topic, partition), self.topics[topic][partition][1])

    def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        found = []
        for p in request.partitions:
            if p.topic not in self.topics:
                found.append(
                    FetchedPartition(topic=p.topic, partition=p.partition, error=Error.UNKNOWN_TOPIC_OR_PARTITION)
                )
                continue
            start, end = self.topics[p.topic][p.partition]
            if not start <= p.fetch_offset <= end:
                found.append(FetchedPartition(topic=p.topic, partition=p.partition, error=Error.OFFSET_OUT_OF_RANGE))
            elif p.fetch_offset < end:
                found.append(
                    FetchedPartition(
                        topic=p.topic,
                        partition=p.partition,
                        next_offset=end,
                        high_watermark=end,
                        leader_epoch=self.leader_epoch,
                    )
                )
        return FetchResponse(request.request_id, tuple(found)) if found else None


class Application:
    """A consumer and the loop around it. `is_polling`: blocked in poll; otherwise it processes, and calls nothing."""

    def __init__(self, cluster: Cluster, name: str, config: ConsumerConfig) -> None:
        self.name = name
        self.is_polling = True
        self.is_frozen = False
        ids = itertools.count(1)
        uuids = itertools.count(1)
        self.consumer = Consumer(config, lambda: next(ids), lambda: f"{name}-uuid-{next(uuids)}")
        self.events: list[ConsumerEvent] = []
        self.polled: list[Polled] = []
        self.sent: list[Request] = []
        self.sent_ms: list[int] = []
        self.responses: list[Response] = []
        self._cluster = cluster

    @property
    def partitions(self) -> list[int]:
        return [partition for _, partition in self.consumer.assignment]

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def requests(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.sent if isinstance(request, kind)]

    def times(self, kind: type[Any]) -> list[int]:
        return [time for request, time in zip(self.sent, self.sent_ms, strict=True) if isinstance(request, kind)]

    def forget(self) -> None:
        """Forgets what was recorded so far, before the part that the test is about."""
        for page in (self.events, self.polled, self.sent, self.sent_ms, self.responses):
            page.clear()

    def poll(self) -> None:
        self.polled += self.consumer.poll(self._cluster.now_ms)

    def close(self) -> None:
        self.is_polling = False
        self.consumer.close(self._cluster.now_ms)

    def freeze(self) -> None:
        """Stops the whole process for a long time: neither thread runs, and answers pile up in the socket."""
        self.is_frozen = True

    def thaw(self, *, application_first: bool = False) -> None:
        self.is_frozen = False
        self._cluster.flush(self, application_first=application_first)


class Cluster:
    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_000
        self.broker = Broker()
        self.coordinator = Coordinator(Config(**{"group_initial_rebalance_delay_ms": 0, **settings}))
        self.log: list[LogEvent] = []
        self.applications: dict[str, Application] = {}
        self._script: list[tuple[type[Request], str | Error | Response]] = []
        self._waiting: dict[int, tuple[Application, int]] = {}
        self._ids = itertools.count(1)
        self._parked: list[tuple[int, Application, FetchRequest]] = []
        self._undelivered: dict[str, list[Response]] = {}
        self._collect(lead_all(self.coordinator, self.now_ms))

    def topic(self, name: str, partitions: int, end: int = 0, start: int = 0) -> None:
        """Create a topic, or add partitions to it."""
        logs = self.broker.topics.setdefault(name, [])
        logs += [(start, end)] * (partitions - len(logs))

    def produce(self, topic: str, count: int) -> None:
        """Appends records to each partition."""
        self.broker.topics[topic] = [(start, end + count) for start, end in self.broker.topics[topic]]

    def start(self, name: str, *topics: str, **settings: Any) -> Application:
        config = ConsumerConfig(**{"group_id": "group", "client_id": name, **settings})
        application = self.applications[name] = Application(self, name, config)
        application.consumer.subscribe(topics or ("payments",), self.now_ms)
        return application

    # Time

    def run(self, milliseconds: int = 0) -> None:
        """Let time pass, at least until nothing more happens at this instant."""
        end = self.now_ms + milliseconds
        self._settle()
        while (next_ms := self._next_ms()) is not None and next_ms <= end:
            self.now_ms = max(next_ms, self.now_ms)  # a timer of 0 ms is due at once
            self._fire()
            self._settle()
        self.now_ms = end
        self._fire()
        self._settle()

    def _live(self) -> Iterator[Application]:
        return (one for one in self.applications.values() if not one.is_frozen and not one.consumer.is_closed)

    def _next_ms(self) -> int | None:
        deadlines = [one.consumer.next_deadline_ms() for one in self._live()]
        deadlines += [self.coordinator.next_deadline_ms(), *(due for due, _, _ in self._parked)]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _fire(self) -> None:
        self._collect(self.coordinator.advance(self.now_ms))
        for one in self._live():
            one.consumer.advance(self.now_ms)

    def _settle(self) -> None:
        for _ in range(10_000):
            for one in self._live():
                if one.is_polling:
                    one.poll()
                one.events += one.consumer.take_events()
            was_sent = self._send_all()
            if not self._answer_fetches() and not was_sent:
                return
        raise AssertionError("the cluster does not come to rest")

    # The network

    def _send_all(self) -> bool:
        running = [one for one in self.applications.values() if not one.is_frozen]  # closed ones, too
        sent = [(one, sent) for one in running for sent in one.consumer.take_requests()]
        for one, each in sent:
            one.sent.append(each.request)
            one.sent_ms.append(self.now_ms)
            self._deliver(one, each)
        return bool(sent)

    def script(self, kind: type[Request], *answers: str | Error | Response) -> None:
        """Sets the answers to the next requests of this kind, whatever the coordinator or broker would answer."""
        self._script += [(kind, answer) for answer in answers]

    def _scripted(self, request: Request) -> str | Error | Response | None:
        for index, (kind, answer) in enumerate(self._script):
            if isinstance(request, kind):
                del self._script[index]
                return answer
        return None

    def _deliver(self, application: Application, sent: Sent) -> None:
        answer = self._scripted(sent.request)
        if isinstance(answer, Error):
            self.respond(application, refused(sent.request, answer))
        elif isinstance(answer, Response):
            self.respond(application, replace(answer, request_id=sent.request.request_id))
        elif answer == LOST:
            application.consumer.disconnected(sent.destination, self.now_ms)
        elif answer == SILENCE:
            return
        elif sent.destination is Destination.COORDINATOR:
            self._handle(application, sent.request)
        elif (found := self.broker.answer(sent.request)) is not None:
            self.respond(application, found)
        else:
            assert isinstance(sent.request, FetchRequest)
            self._parked.append((self.now_ms + sent.request.max_wait_ms, application, sent.request))

    def _handle(self, application: Application, request: Request) -> None:
        number = next(self._ids)
        self._waiting[number] = application, request.request_id
        self._collect(self.coordinator.handle(replace(request, request_id=number), now_ms=self.now_ms))

    def _collect(self, result: Result) -> None:
        self.log += result.events
        for response in result.responses:
            application, request_id = self._waiting.pop(response.request_id)
            self.respond(application, replace(response, request_id=request_id))

    def respond(self, application: Application, response: Response) -> None:
        application.responses.append(response)
        if application.is_frozen:
            self._undelivered.setdefault(application.name, []).append(response)
        else:
            application.consumer.receive(response, self.now_ms)

    def flush(self, application: Application, *, application_first: bool) -> None:
        """Hands an application that goes on the answers that have come in the meantime."""
        if application_first:
            self._send_all()
        for response in self._undelivered.pop(application.name, []):
            application.consumer.receive(response, self.now_ms)
        application.consumer.advance(self.now_ms)

    def _answer_fetches(self) -> bool:
        parked, self._parked = self._parked, []
        for due, application, request in parked:
            found = self.broker.answer(request)
            if found is None and due > self.now_ms:
                self._parked.append((due, application, request))
            else:
                self.respond(application, found or FetchResponse(request.request_id, ()))
        return len(self._parked) < len(parked)

    # The other side

    def committed(self, topic: str = "payments", group_id: str = "group") -> dict[int, int]:
        """Returns the offsets by partition, as another client would fetch them."""
        request = OffsetFetchRequest(next(self._ids), (OffsetFetchGroup(group_id),))
        (response,) = self.coordinator.handle(request, now_ms=self.now_ms).responses
        assert isinstance(response, OffsetFetchResponse)
        return {p.partition: p.offset for p in response.groups[0].partitions if p.topic == topic}

    def kinds(self, kind: str) -> list[Any]:
        return [event.fields for event in self.log if event.kind == kind]


@pytest.fixture
def lost() -> str:
    return LOST


@pytest.fixture
def silence() -> str:
    return SILENCE


@pytest.fixture
def new_cluster() -> Callable[..., Cluster]:
    """Makes a cluster; keywords are broker settings."""
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Returns a cluster with a topic `payments` of six partitions."""
    cluster = Cluster()
    cluster.topic("payments", 6)
    return cluster
