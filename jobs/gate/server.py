"""Makes the HTTP servers of groupledger: uvicorn, with limits on the resources that clients can take.

uvicorn limits the size of a request's head, and the idle time after a response. It does not limit the time of a head,
the time for reading a response, or pipelining; its limit on connections refuses newcomers, also health checks.
hypercorn limits the time of a head, but neither connections nor unread bytes; granian limits the time of a head, and
lets newcomers wait while it is full. So the gate is our own. It uses what asyncio promises to every protocol, that
uvicorn takes a class of one's own (`Config(http=...)`), and the state that ASGI gives to each request; nothing of
uvicorn's inside.

- `jobs.gate.connections` decides which connections may stay, from the events that are observed here.
- A request is answered only when the previous response was read, except for the transport's buffer: so a client that
  does not read can't keep its place.
- A client that sends a request before the response to its previous one gets one more response, and then has to connect
  again. Browsers don't pipeline, and HTTP allows a server to close a connection on which a client does (RFC 9112,
  9.3.2).
- Half of the files that the process may open are for connections.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from groupledger.jobs.gate.connections import ClientLimits, Connections, address_of
from groupledger.jobs.gate.troubles import listen_to_server, log_trouble

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_BYTES_MAX = 32 << 10
KEEP_ALIVE_S = 5
# So many are accepted between two checks of the number of connections, beyond the limit.
BACKLOG = 128
SEND_BUFFER_BYTES = 256 << 10
LOOK_S = 1.0
CONNECTION = "groupledger.connection"
# To close and to send nothing more, so that the system keeps no bytes for whoever does not read them.
AT_ONCE = struct.pack("ii", 1, 0)


class Visitor(H11Protocol):
    """A connection of a client, as uvicorn drives it."""

    gate: Gate

    def __init__(self, *, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **given)
        self.address = ""
        self.can_be_written = asyncio.Event()
        self.can_be_written.set()
        self.is_gone = False
        self.is_answered = False
        self.has_sent = self.is_early = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = address_of(peer[0]) if peer else ""
        self.gate.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self.can_be_written.set()
        self.gate.connections.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.has_sent = True
        self.is_early = self.is_early or self.is_answered
        super().data_received(data)

    def pause_writing(self) -> None:
        self.can_be_written.clear()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.can_be_written.set()
        super().resume_writing()

    def unread(self) -> int:
        return self.transport.get_write_buffer_size()

    def begins(self) -> bool:
        """Records that a request is being answered from now on. Returns whether it was sent before the previous
        response ended, so that the connection has to be closed after this response."""
        is_too_early = self.is_early or not self.has_sent
        self.is_answered, self.has_sent, self.is_early = True, False, False
        self.gate.connections.asks(self)
        return is_too_early

    def ends(self) -> None:
        self.is_answered = False
        self.gate.connections.waits(self, time.monotonic())

    def leave(self) -> None:
        """Closes the connection. Bytes that the client has not read are discarded."""
        if self.unread():
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()


class Gate:
    """Passes a request to the application `app` once the client has read the previous response of its connection, and
    closes the connections that exceed the limits."""

    def __init__(self, app: ASGIApp, limits: ClientLimits) -> None:
        self.app = app
        self.connections: Connections[Visitor] = Connections(limits)
        self._look_s = min(LOOK_S, limits.head_s / 4, limits.answer_s / 4)
        self._next: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visitor = scope.get("state", {}).get(CONNECTION)
        if scope["type"] != "http" or visitor is None:
            await self.app(scope, receive, send)
            return
        await visitor.can_be_written.wait()
        if visitor.is_gone:
            return
        is_last = visitor.begins()
        try:
            await self.app(scope, receive, closing(send) if is_last else send)
        finally:
            visitor.ends()

    def opened(self, visitor: Visitor) -> None:
        leaves = self.connections.opened(visitor, time.monotonic())
        if leaves is not None:
            many = f"{self.connections.limits.connections:,}"
            log_trouble("full", f"groupledger's server has {many} connections, and closes the oldest for each new one")
            leaves.leave()
        if self._next is None:
            self._look_later()

    def _look(self) -> None:
        self._next = None
        for visitor in [*self.connections.overdue(time.monotonic())]:
            visitor.leave()
        if len(self.connections):
            self._look_later()

    def _look_later(self) -> None:
        self._next = asyncio.get_running_loop().call_later(self._look_s, self._look)


def closing(send: Send) -> Send:
    """Returns a `send` whose response says that the connection is closed after it (`Connection: close`)."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return sending


def is_gone(scope: Scope) -> bool:
    """Returns whether the client has closed the connection."""
    visitor = scope.get("state", {}).get(CONNECTION)
    return visitor is not None and visitor.is_gone


def gated(app: ASGIApp, limits: ClientLimits, **options: Any) -> uvicorn.Server:
    """Returns a server for an application that holds clients to `limits`. `options` are those of uvicorn."""
    gate = Gate(app, limits)
    config = uvicorn.Config(
        gate,
        http=type("GatedVisitor", (Visitor,), {"gate": gate}),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the peer is the client, not the address in X-Forwarded-For
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        **options,
    )
    listen_to_server()
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    """Returns a listening socket; clients wait there until a server accepts them. Raises OSError."""
    is_ipv6 = ":" in host
    found = socket.create_server((host, port), family=socket.AF_INET6 if is_ipv6 else socket.AF_INET, backlog=BACKLOG)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return found


def room_for(connections: int) -> int:
    """Returns how many connections the process can have, at most `connections`. First raises the process's soft limit
    of open files, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + BACKLOG
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, (soft - BACKLOG) // 2))
