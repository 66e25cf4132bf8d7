"""Web servers that take messages as receivers do: one keeps them, one never comes to the end of its answer."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Receiving:
    """Keeps what came: path, headers and JSON of each POST. `status` is the answer to the next ones."""

    url: str = ""
    status: int = 200
    came: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.came]


@contextmanager
def receiving() -> Iterator[Receiving]:
    kept = Receiving()

    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept.came.append((self.path, dict(self.headers), body))
            self.send_response(kept.status)
            if kept.status == 302:
                self.send_header("Location", kept.url + "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            kept.came.append((self.path, dict(self.headers), None))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def dripping(beginning: bytes, drop: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Gives the address of a server that begins each answer, and goes on with a drop every 10 ms; the event is set when
    a client has closed its connection."""
    is_closed, is_over = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(beginning)
            while not is_over.wait(0.01):
                connection.sendall(drop)
        is_closed.set()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", is_closed
        is_over.set()
        server.shutdown(socket.SHUT_RDWR)
