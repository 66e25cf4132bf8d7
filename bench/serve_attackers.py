"""Holds hostile connections to a server on this machine, for bench.serve_load, in a process of its own.

    python -m bench.serve_attackers PORT CONNECTIONS SECONDS AUTHORIZATION

There are five kinds, each a fifth of the connections. One kind sends nothing. One sends a byte of a request head now
and then. One asks two hundred questions at once, and does not read the answers. One asks for a stream of events. One
guesses passwords. A connection that the server has closed is opened again half a second later; one that does not read
is opened again after half a minute, since it does not notice that it was closed. AUTHORIZATION is a valid header, for
the requests. At the end the program prints how often each kind connected, and the responses.
"""

from __future__ import annotations

import base64
import json
import selectors
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from bench.asking import CLUSTER

KINDS = ("silent", "drip", "unread", "events", "guess")
AGAIN_S, UNREAD_S, DRIP_S, TURN_S, CONNECT_S = 0.5, 30.0, 1.0, 0.1, 10.0
AT_ONCE = 200
LOOPBACK = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


@dataclass
class Attacker:
    """An attacker that holds a connection, or waits to reconnect."""

    number: int
    again: float = 0.0
    connection: socket.socket | None = None

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    def first(self, login: str) -> bytes:
        """Returns the first bytes that it sends after connecting."""
        path = f"/api/v1/clusters/{CLUSTER}"
        if self.kind == "guess":
            login = "Basic " + base64.b64encode(f"alice:bad-{self.number}".encode()).decode()
        head = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\n\r\n"
        return {
            "silent": b"",
            "drip": b"GET / HTTP/1.1\r\nX: ",
            "unread": f"GET {path}/groups {head}".encode() * AT_ONCE,
            "events": f"GET {path}/events {head}".encode(),
            "guess": f"GET {path} {head}".encode(),
        }[self.kind]


class Attackers:
    """All attackers, with the responses by kind."""

    def __init__(self, port: int, count: int, login: str) -> None:
        self.port, self.login = port, login
        self.every = [Attacker(number) for number in range(count)]
        self.found: Counter[str] = Counter()
        self.selector = selectors.DefaultSelector()
        self.held: list[int] = []

    def run(self, until: float) -> None:
        dripped = 0.0
        while (now := time.monotonic()) < until:
            for each in self.every:
                if each.again > now:
                    continue
                if each.kind == "unread" and each.connection is not None:
                    self._close(each, "gone")
                elif each.connection is None:
                    self._connect(each)
            self.held.append(sum(each.connection is not None for each in self.every))
            for key, _ in self.selector.select(TURN_S):
                self._read(key.data)
            if now - dripped >= DRIP_S:
                dripped = now
                for each in self.every:
                    if each.kind == "drip" and each.connection is not None:
                        self._send(each, b"a")

    def _connect(self, each: Attacker) -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        connection.settimeout(CONNECT_S)
        try:
            connection.bind((LOOPBACK[each.number % len(LOOPBACK)], 0))
            connection.connect(("127.0.0.1", self.port))
        except OSError as error:
            connection.close()
            self._leave(each, type(error).__name__)
            return
        connection.setblocking(False)
        each.connection = connection
        self.found[f"{each.kind}: connected"] += 1
        # A client that does not read does not notice either that the other side has closed.
        if each.kind != "unread":
            self.selector.register(connection, selectors.EVENT_READ, each)
        self._send(each, each.first(self.login))
        if each.kind == "unread":
            each.again = time.monotonic() + UNREAD_S

    def _send(self, each: Attacker, data: bytes) -> None:
        assert each.connection is not None
        with suppress(BlockingIOError):
            try:
                each.connection.send(data)
            except (BrokenPipeError, ConnectionResetError):
                self._close(each, "closed")

    def _read(self, each: Attacker) -> None:
        if each.connection is None:
            return
        try:
            data = each.connection.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._close(each, "closed")
        elif data.startswith(b"HTTP/1.1 "):
            self.found[f"{each.kind}: {data[9:12].decode()}"] += 1
            if each.kind == "guess":
                self._send(each, each.first(self.login))

    def _close(self, each: Attacker, how: str) -> None:
        assert each.connection is not None
        with suppress(KeyError):
            self.selector.unregister(each.connection)
        each.connection.close()
        self._leave(each, how)

    def _leave(self, each: Attacker, how: str) -> None:
        each.connection, each.again = None, time.monotonic() + AGAIN_S
        self.found[f"{each.kind}: {how}"] += 1


def main() -> None:
    port, count, seconds, login = sys.argv[1:]
    found = Attackers(int(port), int(count), login)
    found.run(time.monotonic() + float(seconds))
    print(json.dumps({"held, median": median(found.held), **dict(sorted(found.found.items()))}))


if __name__ == "__main__":
    main()
