"""Simulates applications, and raw clients, which send single requests. An application is a process with one consumer
and a thread that polls, processes and polls again.

An application is either blocked in poll or processing. A scenario may close it, crash it, freeze the whole process (a
long garbage collection: nothing runs, and responses wait), or let it hang in its processing while the heartbeat thread
continues. After a crash or a close it may start again: a new consumer with the same client id, host and instance id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.config import CLASSIC, STREAMS
from groupledger.coordinator.client.consumer import Consumer
from groupledger.coordinator.client.events import CoordinatorUnknown, FatalError, Fenced
from groupledger.coordinator.client.messages import Destination, FetchResponse, FindCoordinatorResponse
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.events import ConsumerEvent
    from groupledger.coordinator.model.messages import Request, Response
    from groupledger.coordinator.simulator.network import Connection
    from groupledger.coordinator.simulator.random_source import RandomSource
    from groupledger.coordinator.simulator.simulation import Simulation

_RETRY_MS = 5_000

Answered = Callable[["Response"], None]


class RawClient:
    """Sends single requests to a group's coordinator: an administrator, a producer, or a faulty client."""

    def __init__(
        self, simulation: Simulation, group_id: str, client_id: str, client_host: str, source: RandomSource
    ) -> None:
        self.client_id = client_id
        self.client_host = client_host
        self.planted: str | None = None
        self.source = source
        self._simulation = simulation
        self._group_id = group_id
        self._connection: Connection | None = None
        self._waiting: dict[int, Answered] = {}

    def send(self, request: Request, answered: Answered | None = None) -> None:
        """Sends a request to the group's coordinator. While the group has no coordinator, the request waits."""
        broker = self._simulation.brokers.coordinator_of(self._group_id)
        if broker is None:
            self._simulation.at(self._simulation.now_ms + _RETRY_MS, self.send, request, answered)
            return
        if self._connection is None or self._connection.broker_id != broker:
            self._connection = self._simulation.connect(self, Destination.COORDINATOR, broker)
        if answered is not None:
            self._waiting[request.request_id] = answered
        self._simulation.send(self._connection, request)

    def receive(self, response: Response) -> None:
        answered = self._waiting.pop(response.request_id, None)
        if answered is not None:
            answered(response)

    def disconnected(self, _: Destination) -> None:
        self._connection = None
        self._waiting.clear()


class Application:
    def __init__(
        self,
        simulation: Simulation,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        source: RandomSource,
        *,
        processing_ms: tuple[int, int],
    ) -> None:
        self.simulation = simulation
        self.config = config
        self.topics = topics
        self.pattern = ""
        self.source = source
        self.processing_ms = processing_ms
        self.planted: str | None = None
        self.consumer: Consumer | None = None  # None while the process does not run
        self.is_stuck = False  # at a record that it can't read and tries again and again
        self.crashes_when: Callable[[Response], bool] | None = None
        self._is_closing = False
        self._frozen_until_ms = 0
        self._busy_until_ms = 0
        self._mail: list[tuple[Callable[..., None], Any]] = []  # what arrived while frozen
        self._connections: dict[Destination, Connection] = {}
        self._coordinator_id = -1
        self._wake_ms = 0

    @property
    def client_id(self) -> str:
        return self.config.client_id

    @property
    def client_host(self) -> str:
        return self.config.client_host

    # Actions of a scenario

    def start(self, **changes: Any) -> None:
        """Starts the process, with `changes` of its configuration. If it still runs, it is killed first."""
        self._end()
        self.planted = None
        self.config = replace(self.config, **changes)
        if self.config.group_protocol == STREAMS:
            self.config = replace(self.config, process_id=self.source.uuid())
        new_uuid = self.source.uuid if self.config.group_protocol == CLASSIC else self.source.kafka_id
        self.consumer = Consumer(self.config, self.simulation.new_id, new_uuid)
        self._frozen_until_ms = self._busy_until_ms = self._wake_ms = 0
        self.consumer.subscribe(self.topics, self.simulation.now_ms, self.pattern)
        self._run()

    def subscribe(self, *topics: str) -> None:
        self.topics = topics
        if self.consumer is not None:
            self.consumer.subscribe(topics, self.simulation.now_ms)
            self._run()

    def close(self) -> None:
        """Closes the consumer. The process ends when its last requests are answered."""
        if self.consumer is not None:
            self._is_closing = True
            self.consumer.close(self.simulation.now_ms)
            self._run()

    def crash(self) -> None:
        """Kills the process, which sends nothing more."""
        self._end()

    def freeze(self, duration_ms: int) -> None:
        """Stops the process, both the application's thread and the heartbeat thread, for `duration_ms`."""
        self._frozen_until_ms = self.simulation.now_ms + duration_ms
        self.simulation.at(self._frozen_until_ms, self._thaw, self.consumer)

    def hang(self, duration_ms: int) -> None:
        """Lets the application's thread process for at least `duration_ms`."""
        self._busy_until_ms = max(self._busy_until_ms, self.simulation.now_ms + duration_ms)

    def commit(self) -> None:
        if self.consumer is not None:
            self.consumer.commit(self.simulation.now_ms)
            self._send()

    def _end(self) -> None:
        self.consumer = None
        self._is_closing = False
        self._mail.clear()
        for connection in self._connections.values():
            self.simulation.disconnect(connection)
        self._connections.clear()

    def _thaw(self, consumer: Consumer | None) -> None:
        """Goes on after a freeze. The application's thread runs first, and commits as if nothing had happened."""
        if consumer is None or consumer is not self.consumer or self._is_frozen:
            return
        if not self.config.enable_auto_commit:
            self.commit()
        consumer.advance(self.simulation.now_ms)
        mail, self._mail = self._mail, []
        for take, argument in mail:
            take(argument)
        self._run()

    @property
    def _is_frozen(self) -> bool:
        return self.simulation.now_ms < self._frozen_until_ms

    # The network

    def receive(self, response: Response) -> None:
        if self._is_frozen:
            self._mail.append((self.receive, response))
            return
        if self.consumer is None:
            return
        if self.crashes_when is not None and self.crashes_when(response):
            self.crashes_when = None
            self.crash()
            return
        if self.is_stuck and isinstance(response, FetchResponse):
            response = self._without_records(response)
            self.hang(_RETRY_MS)
        if isinstance(response, FindCoordinatorResponse) and response.error is Error.NONE:
            self._coordinator_id = response.node_id
        self.consumer.receive(response, self.simulation.now_ms)
        self._run()

    def _without_records(self, response: FetchResponse) -> FetchResponse:
        consumer = self.consumer
        assert consumer is not None  # noqa: S101  # asked for by a consumer that runs
        return replace(
            response,
            partitions=tuple(
                replace(each, next_offset=position)
                for each in response.partitions
                if (position := consumer.position(each.topic, each.partition)) is not None
            ),
        )

    def disconnected(self, destination: Destination) -> None:
        if self._is_frozen:
            self._mail.append((self.disconnected, destination))
            return
        self._connections.pop(destination, None)
        if self.consumer is not None:
            self.consumer.disconnected(destination, self.simulation.now_ms)
            self._run()

    def _send(self) -> None:
        if self.consumer is None:
            return
        for sent in self.consumer.take_requests():
            self.simulation.send(self._connection(sent.destination), sent.request)

    def _connection(self, destination: Destination) -> Connection:
        """Returns the connection to the present coordinator or to brokers; opens it if there is none."""
        broker = self._coordinator_id if destination is Destination.COORDINATOR else 0
        connection = self._connections.get(destination)
        if connection is None or connection.broker_id != broker:
            if connection is not None:
                self.simulation.disconnect(connection)
            connection = self._connections[destination] = self.simulation.connect(self, destination, broker)
        return connection

    # The two threads

    def _run(self) -> None:
        """Runs both threads as far as possible, and schedules the next time."""
        consumer = self.consumer
        if consumer is None or self._is_frozen:
            return
        now_ms = self.simulation.now_ms
        if now_ms >= self._busy_until_ms and not self._is_closing and consumer.poll(now_ms):
            self._process()
        self._send()
        for event in consumer.take_events():
            self._notice(event)
        if consumer.is_closed:
            self._end()
        self._wake()

    def _process(self) -> None:
        """Spends time on polled records. An application without auto-commit commits when it is done."""
        self._busy_until_ms = self.simulation.now_ms + self.source.between(*self.processing_ms)
        if not self.config.enable_auto_commit:
            self.simulation.at(self._busy_until_ms, self._processed, self.consumer)

    def _processed(self, consumer: Consumer) -> None:
        if consumer is self.consumer and not self._is_frozen:
            self.commit()

    def _notice(self, event: ConsumerEvent) -> None:
        if isinstance(event, CoordinatorUnknown):
            connection = self._connections.pop(Destination.COORDINATOR, None)
            if connection is not None:
                self.simulation.disconnect(connection)
        elif isinstance(event, (Fenced, FatalError)):
            self._end()  # the exception ends the application

    def _wake(self) -> None:
        if self.consumer is None:
            return
        now_ms = self.simulation.now_ms
        deadline_ms = self.consumer.next_deadline_ms()
        if now_ms < self._busy_until_ms:
            deadline_ms = self._busy_until_ms if deadline_ms is None else min(deadline_ms, self._busy_until_ms)
        if deadline_ms is not None and not now_ms < self._wake_ms <= deadline_ms:
            self._wake_ms = max(deadline_ms, now_ms + 1)
            self.simulation.at(self._wake_ms, self._woken, self.consumer, self._wake_ms)

    def _woken(self, consumer: Consumer, wake_ms: int) -> None:
        if consumer is self.consumer and wake_ms == self._wake_ms and not self._is_frozen:
            consumer.advance(wake_ms)
            self._run()
