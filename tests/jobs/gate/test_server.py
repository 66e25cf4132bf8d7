"""Goal: clients that are silent, drip, don't read or come in crowds take little of a server, and keep nobody out."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.gate import troubles
from groupledger.jobs.gate.connections import ClientLimits
from groupledger.jobs.gate.server import HEAD_BYTES_MAX, gated, listening, room_for
from groupledger.jobs.gate.troubles import Troubles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

LONG = 120.0
LIMITS = ClientLimits(connections=20, head_s=LONG, answer_s=LONG, unread_bytes=1 << 30)
ASK = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = 4 << 20


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/wait":
        await receive()
        await asyncio.Event().wait()
    body = b"x" * LARGE if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def running(limits: ClientLimits, asked: ASGIApp = app) -> Iterator[int]:
    server, place = gated(asked, limits, lifespan="off", timeout_graceful_shutdown=1), listening("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([place],))
    thread.start()
    try:
        yield place.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(LONG)


@contextmanager
def connected(
    port: int, sent: bytes = b"", source: str = "127.0.0.1", reads: int | None = None
) -> Iterator[socket.socket]:
    with socket.socket() as found:
        if reads is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
        found.bind((source, 0))
        found.settimeout(LONG)
        found.connect(("127.0.0.1", port))
        found.sendall(sent)
        yield found


def all_of(found: socket.socket) -> bytes:
    """Returns what comes until the other side closes."""
    parts = []
    try:
        while part := found.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def one_of(found: socket.socket) -> bytes:
    """Returns a short answer."""
    parts = b""
    while not parts.endswith(b"\r\n\r\nok"):
        part = found.recv(1 << 16)
        assert part
        parts += part
    return parts


def answer(port: int, path: bytes = b"", source: str = "127.0.0.1") -> bytes:
    with connected(port, ASK.replace(b"Host", b"Connection: close\r\nHost") % path, source) as found:
        return all_of(found)


@pytest.mark.parametrize("head", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", ASK % b"", ASK % b"" + b"GET"])
def test_a_head_has_its_time(head: bytes) -> None:
    """Goal: a client that does not send a whole head in time is closed: silent, in the middle of the head, or after an
    answer."""
    with running(ClientLimits(20, 0.2, LONG, 1 << 30)) as port, connected(port, head) as found:
        assert all_of(found).count(b"200 OK") == head.count(b"\r\n\r\n")


def test_who_drips_is_closed() -> None:
    """Goal: a byte now and then makes the time no longer."""
    with running(ClientLimits(20, 0.5, LONG, 1 << 30)) as port, connected(port, b"GET / HTTP/1.1\r\nX: ") as found:
        is_over = threading.Event()
        dripping = threading.Thread(target=drip, args=(found, is_over))
        dripping.start()
        assert all_of(found) == b""
        is_over.set()
        dripping.join(LONG)


def drip(found: socket.socket, is_over: threading.Event) -> None:
    with suppress(OSError):  # the other side has closed
        while not is_over.wait(0.05):
            found.sendall(b"a")


def test_a_long_head() -> None:
    """Goal: a head without end is refused where it is too long."""
    with running(LIMITS) as port, connected(port) as found:
        found.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * (2 * HEAD_BYTES_MAX))
        assert all_of(found).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nX: "])
def test_a_crowd_keeps_nobody_out(head: bytes) -> None:
    """Goal: each newcomer is answered beside three times as many connections as there may be; a connection that is
    being answered stays."""
    with running(LIMITS) as port, ExitStack() as stack:
        waits = stack.enter_context(connected(port, ASK % b"wait"))
        assert b"200 OK" in answer(port)
        crowd = [stack.enter_context(connected(port, head)) for _ in range(3 * LIMITS.connections)]
        assert b"200 OK" in answer(port)
        assert all_of(crowd[0]) == b""
        waits.settimeout(0.1)
        with pytest.raises(TimeoutError):
            waits.recv(1)


def test_one_address_keeps_out_no_other() -> None:
    """Goal: a crowd of one address takes no place of another that has fewer."""
    with running(LIMITS) as port, ExitStack() as stack:
        idle = stack.enter_context(connected(port, ASK % b"", "127.0.0.2"))
        assert b"200 OK" in one_of(idle)
        for _ in range(3 * LIMITS.connections):
            stack.enter_context(connected(port))
        assert b"200 OK" in answer(port)
        idle.sendall(ASK % b"")
        assert b"200 OK" in one_of(idle)


def test_who_does_not_read() -> None:
    """Goal: an answer that nobody takes is given up in time."""
    with running(ClientLimits(20, LONG, 0.3, 1 << 30)) as port, connected(port, ASK % b"large", reads=4_096) as unread:
        while not is_reset(unread):
            assert b"200 OK" in answer(port)


def test_too_much_is_unread() -> None:
    """Goal: when too many bytes are unread, the oldest connection is given up; a client that reads gets all."""
    with running(ClientLimits(20, LONG, LONG, LARGE)) as port, ExitStack() as stack:
        unread = [stack.enter_context(connected(port, ASK % b"large", reads=4_096)) for _ in range(3)]
        while sum(map(is_reset, unread)) < 2:
            assert answer(port, b"large").count(b"x") >= LARGE


def is_reset(found: socket.socket) -> bool:
    return found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def test_nobody_asks_on_without_reading() -> None:
    """Goal: a connection whose answers nobody reads has no question in work."""
    working = []

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        working.append(scope)
        await app(scope, receive, send)
        working.pop()

    with running(LIMITS, counted) as port, ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(connected(port, (ASK % b"large") * 100, reads=4_096))
        for _ in range(20):
            assert b"200 OK" in answer(port)
        assert working == []


def test_pipelining() -> None:
    """Goal: a client that sends many questions at once gets two answers, and then has to connect anew."""
    with running(LIMITS) as port, connected(port, (ASK % b"") * 100) as found:
        answers = all_of(found)
    assert answers.count(b"200 OK") == 2
    assert answers.count(b"connection: close") == 1


def test_one_after_the_other() -> None:
    """Goal: a client that asks again when it has the answer keeps its connection."""
    with running(LIMITS) as port, connected(port) as found:
        for _ in range(20):
            found.sendall(ASK % b"")
            assert b"connection: close" not in one_of(found)


def test_the_log_is_short(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: hundreds of bad requests, and of connections too many, are a line each."""
    monkeypatch.setattr(troubles, "EVERY", Troubles())
    with running(ClientLimits(5, LONG, LONG, 1 << 30)) as port, ExitStack() as stack:
        for _ in range(200):
            with connected(port, b"nonsense\r\n\r\n") as found:
                assert b"400" in all_of(found)
            stack.enter_context(connected(port))
        assert b"200 OK" in answer(port)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert {line.split()[0] for line in lines} == {"groupledger's"}


def test_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that may open few files has few connections, and one that may have more takes what it needs."""
    limits = [(256, 256)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, found: limits.append(found))
    assert room_for(512) == 64
    limits.append((1_024, 524_288))
    assert (room_for(512), limits[-1]) == (512, (1_152, 524_288))
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert room_for(512) == 512
