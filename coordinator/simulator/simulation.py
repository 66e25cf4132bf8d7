"""Simulates a cluster and its clients in virtual time: one heap of actions, ordered by time and then by order of
scheduling.

The simulation connects clients, connections, brokers, topics and the recorder of the truth, which do not know each
other. No code reads a clock: the caller passes to `run` the time up to which to simulate, and takes the outputs, as
often as it likes. The same seed and settings give the same outputs, however the run is cut into slices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.messages import (
    Destination,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.simulator.brokers import Brokers
from groupledger.coordinator.simulator.described_groups import (
    DESCRIBE_RESPONSES,
    SimulatedGroupState,
    describe_request_of,
    group_state,
)
from groupledger.coordinator.simulator.internal_topics import missing_topics
from groupledger.coordinator.simulator.modern_kinds import ShareKind, StreamsKind
from groupledger.coordinator.simulator.modern_recorder import ConsumerKind
from groupledger.coordinator.simulator.network import Connection, Exchange
from groupledger.coordinator.simulator.random_source import RandomSource
from groupledger.coordinator.simulator.recorder import Recorder
from groupledger.coordinator.simulator.topics import Topics
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request, Response, WriteTxnMarkerRequest
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.coordinator.simulator.described_groups import DescribeRequest
    from groupledger.coordinator.simulator.network import Client

BEGAN_AT_MS = 1_767_571_200_000  # 2026-01-05, a Monday, at midnight UTC
_LATENCY_MS = (1, 4)
_ELECTION_MS = 1_500  # from a broker's end to its partitions' new leaders
_LOADING_MS = 800
_MARKER_RETRY_MS = 100
_MAX_RECORDS_PER_FETCH = 2_000
_CREATION_MS = (50, 500)  # from a heartbeat to the internal topics that a broker then creates
_INTERNAL_RECORDS_PER_MINUTE = 120  # of each partition


@dataclass(frozen=True, slots=True)
class Settings:
    config: Config = field(default_factory=Config)
    broker_count: int = 3
    sample_interval_ms: int = 60_000
    is_compacted: bool = False  # the log is read at the end only, after the cleaner has been over it


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWatermark:
    sampled_at_ms: int
    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    topic_id: str


@dataclass(slots=True, kw_only=True)
class Outputs:
    """What the simulation produced since the last `take`. `batches` are those that a read_committed reader gets."""

    batches: list[Batch] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    events: list[tuple[int, LogEvent]] = field(default_factory=list)  # by broker id
    watermarks: list[SimulatedWatermark] = field(default_factory=list)
    group_states: list[SimulatedGroupState] = field(default_factory=list)


class Simulation:
    def __init__(self, seed: int, settings: Settings | None = None, began_at_ms: int = BEGAN_AT_MS) -> None:
        self.settings = settings or Settings()
        self.source = RandomSource(seed)
        self.cluster_id = self.source.kafka_id()
        self.offsets_topic_id = self.source.kafka_id()
        self.began_at_ms = self.now_ms = began_at_ms
        self.brokers = Brokers(
            self.settings.config, self.settings.broker_count, is_compacted_first=self.settings.is_compacted
        )
        self.topics = Topics(self.brokers.topics)
        kinds = (kind(self.settings.config, self.topics) for kind in (ConsumerKind, ShareKind, StreamsKind))
        self.recorder = Recorder(
            self.brokers.generation_of, self.brokers.classic_group, self.brokers.modern_group, kinds
        )
        self.group_ids: list[str] = []  # of the groups that samples describe
        self.request_count = 0
        self.outputs = Outputs()
        self._ids = count(1)
        self._connection_ids = count(1)
        self._sequence = count()
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._pending: dict[int, tuple[Connection, Request, int]] = {}
        self._connections: dict[int, dict[int, Connection]] = {broker: {} for broker in self.brokers.coordinators}
        self._is_failing_over = False
        self._wakes = dict.fromkeys(self.brokers.coordinators, 0)
        self.brokers.start(self.now_ms)
        for broker in self.brokers.coordinators:
            self._wake_broker(broker)
        self.at(self.now_ms + self.settings.sample_interval_ms, self._sample)

    # Time

    def at(self, time_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedules an action. Actions of the same instant happen in the order of scheduling."""
        heappush(self._heap, (max(time_ms, self.now_ms), next(self._sequence), action, arguments))

    def run(self, until_ms: int) -> None:
        """Runs all actions before `until_ms`, which is then the present time."""
        heap = self._heap
        while heap and heap[0][0] < until_ms:
            self.now_ms, _, action, arguments = heappop(heap)
            action(*arguments)
        self.now_ms = until_ms

    def take(self, *, is_last: bool = False) -> Outputs:
        """Returns the outputs since the last call. `is_last` marks the call at the end of the run: a compacted log is
        read only then."""
        outputs, self.outputs = self.outputs, Outputs()
        if is_last or not self.settings.is_compacted:
            for log in self.brokers.logs:
                outputs.batches += log.take_committed()
        return outputs

    # Connections

    def new_id(self) -> int:
        return next(self._ids)

    def connect(self, client: Client, destination: Destination, broker_id: int) -> Connection:
        connection = Connection(
            connection_id=next(self._connection_ids), client=client, destination=destination, broker_id=broker_id
        )
        if destination is Destination.COORDINATOR:
            self._connections[broker_id][connection.connection_id] = connection
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Closes a connection from the client's side. Requests on their way still arrive; their answers are lost."""
        connection.is_open = False
        self._connections[connection.broker_id].pop(connection.connection_id, None)

    def send(self, connection: Connection, request: Request) -> None:
        arrives_at_ms = max(self.now_ms + connection.client.source.between(*_LATENCY_MS), connection.last_request_ms)
        connection.last_request_ms = arrives_at_ms
        self.at(arrives_at_ms, self._arrive, connection, request)

    def _arrive(self, connection: Connection, request: Request) -> None:
        if connection.destination is Destination.BROKER:
            self._ask_broker(connection, request)
        elif not self.brokers.is_up[connection.broker_id]:
            return
        elif connection.is_busy:
            connection.waiting.append(request)
        else:
            self._ask_coordinator(connection, request)

    def _ask_coordinator(self, connection: Connection, request: Request) -> None:
        connection.is_busy = True
        self._pending[request.request_id] = (connection, request, self.now_ms)
        self._settle(connection.broker_id, self.brokers.handle(connection.broker_id, request, self.now_ms), request)

    def _ask_next(self, connection: Connection) -> None:
        if connection.waiting and not connection.is_busy:
            self._ask_coordinator(connection, connection.waiting.popleft())

    def _settle(self, broker: int, result: Result, request: Request | None = None) -> None:
        """Carries the responses of a coordinator to their clients, and the whole result to the recorder."""
        exchanges = [exchange for response in result.responses if (exchange := self._answer(response)) is not None]
        self.outputs.exchanges += exchanges
        self.recorder.observe(result, exchanges, request)
        if isinstance(request, StreamsGroupHeartbeatRequest):
            self._make_internal_topics(request.group_id)
        if result.events:
            self.outputs.events += [(broker, event) for event in result.events]
        self._wake_broker(broker)

    def _make_internal_topics(self, group_id: str) -> None:
        """Lets the brokers create the topics that a streams group misses, some time after a heartbeat was answered."""
        for name, partitions in missing_topics(self.brokers.streams_group(group_id), self.topics.by_name):
            source = self.source.source("internal topic", name)
            self.at(self.now_ms + source.between(*_CREATION_MS), self._create_internal_topic, name, partitions, source)

    def _create_internal_topic(self, name: str, partitions: int, source: RandomSource) -> None:
        if name not in self.topics.by_name:  # several heartbeats may have asked for it
            self.topics.create(
                name, partitions, records_per_minute=_INTERNAL_RECORDS_PER_MINUTE, now_ms=self.now_ms, source=source
            )

    def _answer(self, response: Response) -> Exchange | None:
        pending = self._pending.pop(response.request_id, None)
        if pending is None:
            return None
        connection, request, received_at_ms = pending
        connection.is_busy = False
        if connection.waiting:
            self.at(self.now_ms, self._ask_next, connection)
        self.request_count += 1
        self._deliver(connection, response, self.now_ms)
        client = connection.client
        return Exchange(
            request=request,
            response=response,
            broker_id=connection.broker_id,
            connection_id=connection.connection_id,
            client_id=client.client_id,
            client_host=client.client_host,
            received_at_ms=received_at_ms,
            sent_at_ms=self.now_ms,
            planted=client.planted,
        )

    def _deliver(self, connection: Connection, response: Response, sent_at_ms: int) -> None:
        arrives_at_ms = sent_at_ms + connection.client.source.between(*_LATENCY_MS)
        if connection.destination is Destination.COORDINATOR:
            arrives_at_ms = connection.last_response_ms = max(arrives_at_ms, connection.last_response_ms)
        self.at(arrives_at_ms, self._receive, connection, response)

    @staticmethod
    def _receive(connection: Connection, response: Response) -> None:
        if connection.is_open:
            connection.client.receive(response)

    # Requests that brokers answer without a coordinator

    def _ask_broker(self, connection: Connection, request: Request) -> None:
        self.request_count += 1
        if isinstance(request, FetchRequest):
            self._fetch(connection, request, self.now_ms + request.max_wait_ms)
            return
        self._deliver(connection, self._answer_of_broker(request), self.now_ms)

    def _answer_of_broker(self, request: Request) -> Response:
        request_id, now_ms, topics = request.request_id, self.now_ms, self.topics
        if isinstance(request, FindCoordinatorRequest):
            broker = self.brokers.coordinator_of(request.group_id)
            if broker is None:
                return FindCoordinatorResponse(request_id, Error.COORDINATOR_NOT_AVAILABLE)
            return FindCoordinatorResponse(request_id, Error.NONE, broker)
        if isinstance(request, MetadataRequest):
            names = *request.topics, *map(topics.name_of, request.topic_ids)
            return MetadataResponse(request_id, tuple(map(topics.metadata, names)))
        if isinstance(request, ListOffsetsRequest):
            return ListOffsetsResponse(request_id, tuple(topics.listed(each, now_ms) for each in request.partitions))
        if isinstance(request, OffsetForLeaderEpochRequest):
            ends = tuple(topics.epoch_end(each, now_ms) for each in request.partitions)
            return OffsetForLeaderEpochResponse(request_id, ends)
        raise TypeError(f"no broker answers a {type(request).__name__}")

    def _fetch(self, connection: Connection, request: FetchRequest, until_ms: int) -> None:
        """Answers at once if there are records, or else when there are, or when the wait is over."""
        next_ms = self.topics.next_record_ms(request.partitions, self.now_ms)
        fetched = tuple(self.topics.fetched(each, _MAX_RECORDS_PER_FETCH, self.now_ms) for each in request.partitions)
        is_empty = all(
            not each.error and each.next_offset == asked.fetch_offset
            for each, asked in zip(fetched, request.partitions, strict=True)
        )
        if is_empty and self.now_ms < until_ms:
            self.at(until_ms if next_ms is None else min(next_ms, until_ms), self._fetch, connection, request, until_ms)
        else:
            self._deliver(connection, FetchResponse(request.request_id, fetched), self.now_ms)

    # Brokers

    def _wake_broker(self, broker: int) -> None:
        deadline_ms = self.brokers.coordinators[broker].next_deadline_ms()
        wake_ms = self._wakes[broker]
        if deadline_ms is not None and not self.now_ms <= wake_ms <= deadline_ms:
            self._wakes[broker] = deadline_ms
            self.at(deadline_ms, self._advance_broker, broker)

    def _advance_broker(self, broker: int) -> None:
        if self.now_ms == self._wakes[broker]:
            self._wakes[broker] = 0
            self._settle(broker, self.brokers.advance(broker, self.now_ms))

    def write_marker(self, request: WriteTxnMarkerRequest) -> None:
        """Ends a transaction by its marker. If the partition's leader does not accept it, the marker is sent again
        until it does."""
        broker = self.brokers.leaders[request.partition]
        if self.brokers.is_up[broker]:
            result = self.brokers.handle(broker, request, self.now_ms)
            self._settle(broker, result, request)
            if any(batch.committed is not None for batch in result.batches):
                return
        self.at(self.now_ms + _MARKER_RETRY_MS, self.write_marker, request)

    def crash_broker(self, broker: int, down_ms: int) -> None:
        """Crashes a broker, which comes back after `down_ms`. Other brokers lead its partitions meanwhile. Does nothing
        if a failover is still in progress."""
        if self._is_failing_over:
            return
        self._is_failing_over = True
        partitions = self.brokers.crash(broker)
        gone, self._connections[broker] = self._connections[broker], {}
        self._pending = {key: value for key, value in self._pending.items() if value[0].broker_id != broker}
        for connection in gone.values():
            connection.is_open = False
            self.at(self.now_ms + 1, connection.client.disconnected, connection.destination)
        self.at(self.now_ms + _ELECTION_MS, self._elect, partitions)
        self.at(self.now_ms + down_ms, self._take_back, broker, partitions)

    def _elect(self, partitions: list[int]) -> None:
        self.brokers.elect(partitions)
        self.at(self.now_ms + _LOADING_MS, self._load, partitions)

    def _take_back(self, broker: int, partitions: list[int]) -> None:
        for unloading, result in self.brokers.take_back(broker, partitions, self.now_ms):
            self._settle(unloading, result)
        self.at(self.now_ms + _LOADING_MS, self._load, partitions)
        self.at(self.now_ms + _LOADING_MS, self._end_failover)

    def _end_failover(self) -> None:
        self._is_failing_over = False

    def _load(self, partitions: list[int]) -> None:
        for broker, result in self.brokers.load(partitions, self.now_ms):
            self._settle(broker, result)

    def clean_logs(self) -> None:
        """Runs the log cleaner over `__consumer_offsets`."""
        for log in self.brokers.logs:
            log.clean(self.now_ms)

    # Samples

    def _sample(self) -> None:
        """Takes one sample: first the ends of `__consumer_offsets`, then the topics' watermarks, then the groups."""
        self.at(self.now_ms + self.settings.sample_interval_ms, self._sample)
        now_ms = self.now_ms
        self.outputs.watermarks += watermarks(self.brokers, self.offsets_topic_id, self.topics, now_ms)
        asked: dict[tuple[int, type[DescribeRequest]], list[str]] = {}
        for group_id in self.group_ids:
            broker = self.brokers.coordinator_of(group_id)
            if broker is not None:
                kind = describe_request_of(self.brokers.modern_group(group_id))
                asked.setdefault((broker, kind), []).append(group_id)
        for (broker, kind), group_ids in asked.items():
            result = self.brokers.handle(broker, kind(self.new_id(), group_ids=tuple(group_ids)), now_ms)
            self._settle(broker, result)
            for response in result.responses:
                if isinstance(response, DESCRIBE_RESPONSES):
                    self.outputs.group_states += [group_state(now_ms, group) for group in response.groups]


def watermarks(brokers: Brokers, offsets_topic_id: str, topics: Topics, now_ms: int) -> list[SimulatedWatermark]:
    """Returns the present start and end offsets of all partitions, those of `__consumer_offsets` first."""
    found = [
        SimulatedWatermark(
            sampled_at_ms=now_ms,
            topic=OFFSETS_TOPIC,
            partition=partition,
            log_start_offset=0,
            high_watermark=log.end_offset,
            last_stable_offset=log.last_stable_offset,
            topic_id=offsets_topic_id,
        )
        for partition, log in enumerate(brokers.logs)
    ]
    for topic in topics.by_name.values():
        for partition in range(len(topic.partitions)):
            end = topic.end_offset(partition, now_ms)
            found.append(
                SimulatedWatermark(
                    sampled_at_ms=now_ms,
                    topic=topic.name,
                    partition=partition,
                    log_start_offset=topic.start_offset(partition, now_ms),
                    high_watermark=end,
                    last_stable_offset=end,
                    topic_id=topic.topic_id,
                )
            )
    return found
