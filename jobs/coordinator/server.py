"""Serves the coordinator on sockets, with a listener for each node, a clock, and one thread for everything.

The server listens on this machine alone unless the operator gives another address, since there is neither a password
nor encryption. It limits the number of connections, the size of a request, the unhandled bytes of all connections, the
time in which a request has to arrive, and idle time. If there are too many connections, it closes one that has sent no
request yet, or else the one whose last request is the longest ago. It reads nothing more from a client that does not
read its responses.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.jobs.coordinator.frames import SIZE_BYTES, MalformedError
from groupledger.jobs.coordinator.service import ClientConnection, Service
from groupledger.jobs.coordinator.world import Address
from groupledger.jobs.process.clock import now_ms as wall_clock_ms
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.terminal import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REQUEST_BYTES_MAX = 8 << 20
CONNECTIONS_MAX = 1_000
BUFFERED_BYTES_MAX = 64 << 20
REQUEST_WITHIN_S = 30.0  # from its first byte to its last
IDLE_S_MAX = 600.0  # as `connections.max.idle.ms` of Kafka's brokers
_LOOK_EVERY_S = 1.0
_SAY_EVERY_S = 10.0
PORT_MAX = 65_535
_START_SECONDS = 30.0


class Clock:
    """A clock in milliseconds since the epoch. It begins at the time of the machine's clock, and runs `rate` times as
    fast."""

    def __init__(self) -> None:
        self._began_ms = float(wall_clock_ms())
        self._began_s = time.monotonic()
        self.rate = 1.0

    def now_ms(self) -> int:
        return int(self._began_ms + (time.monotonic() - self._began_s) * 1_000 * self.rate)

    def set_rate(self, rate: float) -> None:
        self._began_ms, self._began_s, self.rate = float(self.now_ms()), time.monotonic(), rate

    def seconds_until(self, time_ms: int) -> float:
        return max(time_ms - self.now_ms(), 0) / 1_000 / self.rate


class Server:
    """A server that listens until it is closed. Everything happens in the thread of its event loop."""

    def __init__(self, service: Service, clock: Clock, say: Callable[[str], None]) -> None:
        self.service = service
        self.clock = clock
        self._say = say
        self._listeners: list[asyncio.Server] = []
        self._wake: asyncio.TimerHandle | None = None
        self._connection_ids = iter(range(1, 1 << 62))
        self._protocols: dict[ClientConnection, _Protocol] = {}
        self._look: asyncio.TimerHandle | None = None
        self._said_full_s = -_SAY_EVERY_S
        self.buffered_bytes = 0
        service.set_clock_rate = clock.set_rate

    async def open(self, host: str, port: int, advertised: str) -> None:
        """Listens at `host` on one port for each node, from `port` on, or on free ports if `port` is 0. Clients get the
        host name `advertised`. Raises OSError if a port can't be listened on."""
        loop = asyncio.get_running_loop()
        for node in range(self.service.world.node_count):
            listener = await loop.create_server(
                lambda node=node: _Protocol(self, node),  # type: ignore[misc]  # the default binds the node
                host,
                port and port + node,
            )
            self._listeners.append(listener)
            self.service.world.addresses[node] = Address(advertised, listener.sockets[0].getsockname()[1])
        self.wake_in_time()
        self._look_after_connections()

    async def close(self) -> None:
        for timer in (self._wake, self._look):
            if timer is not None:
                timer.cancel()
        for listener in self._listeners:
            listener.close()
        for connection in list(self.service.connections):
            self.service.end(connection, "the coordinator ends")

    def wake_in_time(self) -> None:
        """Schedules a call for the next timer of the service."""
        deadline_ms = self.service.next_deadline_ms()
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + self.clock.seconds_until(deadline_ms)
        if self._wake is None or self._wake.cancelled() or at_s < self._wake.when():
            if self._wake is not None:
                self._wake.cancel()
            self._wake = loop.call_at(at_s, self._awake)

    def _awake(self) -> None:
        self._wake = None
        self.service.advance(self.clock.now_ms())
        self.wake_in_time()

    # Called by connections

    def take(self, protocol: _Protocol, frame: bytes) -> None:
        try:
            self.service.received(protocol.connection, frame, self.clock.now_ms())
        except MalformedError as error:
            self.service.end(protocol.connection, str(error))
        self.wake_in_time()

    def opened(self, protocol: _Protocol, node: int) -> ClientConnection | None:
        """Returns the connection, or None if there are too many."""
        if len(self.service.connections) >= CONNECTIONS_MAX and not self._make_room():
            return None
        host = protocol.transport.get_extra_info("peername")[0]
        connection = ClientConnection(next(self._connection_ids), node, protocol.answer, protocol.end, f"/{host}")
        self.service.opened(connection)
        self._protocols[connection] = protocol
        return connection

    def _make_room(self) -> bool:
        """Ends a connection that waits for nothing; returns whether there is one."""
        now_s = time.monotonic()
        if now_s - self._said_full_s >= _SAY_EVERY_S:
            self._said_full_s = now_s
            self._say(f"there are {CONNECTIONS_MAX:,} connections: for each new one the longest idle one is closed")
        idle = [each for each in self._protocols.values() if each.connection.pending is None]
        if not idle:
            return False
        first = min(idle, key=lambda each: (each.has_asked, each.last_s))
        self.forget(first)
        first.transport.abort()
        return True

    def buffered(self, size: int) -> None:
        """Adds `size`, which may be negative, to the number of buffered bytes of all connections. If there are too
        many, closes the connection that holds most of them."""
        self.buffered_bytes += size
        if self.buffered_bytes > BUFFERED_BYTES_MAX:
            largest = max(self._protocols.values(), key=lambda each: each.held_bytes)
            self.service.end(largest.connection, f"more than {BUFFERED_BYTES_MAX:,} bytes wait of all connections")

    def forget(self, protocol: _Protocol) -> None:
        self.service.closed(protocol.connection)
        self._protocols.pop(protocol.connection, None)

    def _look_after_connections(self) -> None:
        """Ends the connections that are idle for too long, or whose request does not come to its end."""
        now_s = time.monotonic()
        for protocol in list(self._protocols.values()):
            quiet_s = now_s - protocol.last_s
            if protocol.connection.pending is None and protocol.held_bytes and quiet_s > REQUEST_WITHIN_S:
                self.service.end(
                    protocol.connection, f"a request, or its answer, was under way for {REQUEST_WITHIN_S:g} s"
                )
            elif protocol.connection.pending is None and quiet_s > IDLE_S_MAX:
                self.service.end(protocol.connection, f"idle for {IDLE_S_MAX:g} s")
        self._look = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look_after_connections)

    def ended(self, reason: str, connection: ClientConnection) -> None:
        self._say(f"connection {connection.connection_id} of {escaped(connection.client_id)} is closed: {reason}")


class _Protocol(asyncio.Protocol):
    """One connection: it cuts the bytes into frames, and gives them on one at a time."""

    transport: asyncio.Transport
    connection: ClientConnection

    def __init__(self, server: Server, node: int) -> None:
        self._server = server
        self._node = node
        self._bytes = bytearray()
        self._is_draining = False
        self._is_unread = False
        self.has_asked = False
        self.last_s = time.monotonic()
        """When the connection was opened, the last request or its answer was whole, or the present one began."""

    @property
    def held_bytes(self) -> int:
        return len(self._bytes)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        connection = self._server.opened(self, self._node)
        if connection is None:
            transport.abort()
        else:
            self.connection = connection

    def data_received(self, data: bytes) -> None:
        if not self.connection.is_open:
            return
        if not self._bytes:
            self.last_s = time.monotonic()
        self._bytes += data
        self._server.buffered(len(data))
        self._drain()

    def _drain(self) -> None:
        """Passes on complete requests, while none waits for its response; incomplete bytes stay for the next read."""
        if self._is_draining:
            return
        self._is_draining = True
        connection = self.connection
        while self._is_ready() and len(self._bytes) >= SIZE_BYTES:
            size = int.from_bytes(self._bytes[:SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= REQUEST_BYTES_MAX:
                self._server.service.end(connection, f"a request of {size:,} bytes: at most {REQUEST_BYTES_MAX:,}")
                break
            end = SIZE_BYTES + size
            if len(self._bytes) < end:
                break
            frame = bytes(self._bytes[SIZE_BYTES:end])
            del self._bytes[:end]
            self._server.buffered(-end)
            self.has_asked, self.last_s = True, time.monotonic()
            self._server.take(self, frame)
        self._is_draining = False
        if connection.is_open:
            # Who sends on while an answer is due is not listened to until it is there.
            if self._is_unread or (connection.pending is not None and self._bytes):
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _is_ready(self) -> bool:
        return self.connection.pending is None and self.connection.is_open and not self._is_unread

    def answer(self, frame: bytes) -> None:
        self.last_s = time.monotonic()
        self.transport.write(frame)
        if self._bytes:
            asyncio.get_running_loop().call_soon(self._drain)

    def pause_writing(self) -> None:
        """Takes no request more of a client that does not read its answers."""
        self._is_unread = True

    def resume_writing(self) -> None:
        self._is_unread = False
        self._drain()

    def end(self, reason: str) -> None:
        self._server.ended(reason, self.connection)
        if self._is_unread:
            self.transport.abort()  # else it would stay until its answers are read
        self.transport.close()
        self._let_go()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio names it
        if hasattr(self, "connection"):
            self._let_go()

    def _let_go(self) -> None:
        self._server.buffered(-len(self._bytes))
        self._bytes.clear()
        self._server.forget(self)


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen: `address` is HOST:PORT, and `advertised` the host name that clients get, None if it is the
    same."""

    address: str
    advertised: str | None = None


def host_and_port(listen: str) -> tuple[str, int]:
    """Returns host and port. Raises InputError for any form but HOST:PORT. The brackets of an IPv6 address are
    removed."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise InputError("--listen needs HOST:PORT, such as 127.0.0.1:9092; port 0 takes free ones.")
    return host.strip("[]"), int(port)


class Running:
    """A coordinator in a thread of its own. `call` runs a function with its service in that thread."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        addresses = server.service.world.addresses.values()
        self.bootstrap_servers = ",".join(map(str, addresses))

    def call(self, action: Callable[[Service], Any]) -> Any:
        async def do() -> Any:
            service = self._server.service
            service.advance(self._server.clock.now_ms())
            result = action(service)
            self._server.wake_in_time()
            return result

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(_START_SECONDS)


@contextmanager
def running(service: Service, clock: Clock, listen: Listen, say: Callable[[str], None]) -> Iterator[Running]:
    """Runs the coordinator in a thread, until the context ends. Raises InputError for an invalid address, OutsideError
    if it can't listen there."""
    host, port = host_and_port(listen.address)
    loop = asyncio.new_event_loop()
    server = Server(service, clock, say)
    thread = threading.Thread(target=loop.run_forever, name="coordinator", daemon=True)
    thread.start()
    try:
        try:
            asyncio.run_coroutine_threadsafe(server.open(host, port, listen.advertised or host), loop).result(
                _START_SECONDS
            )
        except OSError as error:
            raise OutsideError(
                f"{listen.address} can't be listened on: {error.strerror}. Give another --listen."
            ) from error
        yield Running(server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(_START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
