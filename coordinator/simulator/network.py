"""Simulates connections between clients and brokers: latency, order, and one request at a time.

Bytes of a connection keep their order. A broker reads the next request of a connection only when it has answered the
one before (`SocketServer` mutes the channel), so that a request after a waiting JoinGroup waits too. That holds for the
connection to the coordinator. `Destination.BROKER` stands for connections to many brokers, on which no request waits
for another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.client.messages import Destination
    from groupledger.coordinator.model.messages import Request, Response
    from groupledger.coordinator.simulator.random_source import RandomSource
    from groupledger.schemas.kafka.api_keys import ApiKey


class Client(Protocol):
    """A sender of requests. `planted` is the scenario's last action on this client, which is the root cause of its
    refused requests."""

    planted: str | None

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def source(self) -> RandomSource: ...

    def receive(self, response: Response) -> None: ...

    def disconnected(self, destination: Destination) -> None: ...


JAVA_CLIENT = ("apache-kafka-java", "4.2.0")
"""The name and the version of a client's software, from ApiVersions."""


@dataclass(slots=True, eq=False, kw_only=True)
class Connection:
    connection_id: int
    client: Client
    destination: Destination
    broker_id: int
    is_open: bool = True
    is_busy: bool = False
    waiting: deque[Request] = field(default_factory=deque)
    last_request_ms: int = 0  # when the last request arrives
    last_response_ms: int = 0  # when the last answer arrives


@dataclass(frozen=True, slots=True)
class OnTheWire:
    """What a real client sent and got, for the request log. `bodies` returns the request and the response as JSON."""

    api: ApiKey
    version: int
    bodies: Callable[[], tuple[dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its response, and the times at which the broker received the request and sent the response."""

    request: Request
    response: Response
    broker_id: int
    connection_id: int
    client_id: str
    client_host: str
    received_at_ms: int
    sent_at_ms: int
    planted: str | None  # the scenario's last action on this client
    software: tuple[str, str] = JAVA_CLIENT
    on_the_wire: OnTheWire | None = None  # of real clients
