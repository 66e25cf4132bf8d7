"""What a monitor shows over HTTP: `/metrics` for Prometheus, and whether it lives and is ready.

Scrapes read what the last round has left and compute nothing, so that they cost the same however many come.

    /livez     503 if the monitor has to be started again; one that still reads what was there before lives
    /readyz    503 if its numbers are not those of now, with a sentence for each reason; so does /healthz

The server is the standard library's.
"""

from __future__ import annotations

import gzip
import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import gzip_accepted

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

REQUEST_SECONDS_MAX = 10
GZIP_LEVEL = 1  # names repeat: more costs time and saves little
TEXT = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that went away: anybody could fill the log with that."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def serve(
    address: str,
    port: int,
    metrics: Callable[[str], tuple[str, bytes]],
    troubles: Mapping[str, Callable[[], Sequence[str]]],
) -> Iterator[int]:
    """Gives the port, which is a free one for 0. `metrics` returns content type and body for a header `Accept`;
    `troubles` are sentences by path, which says 200 without any.

    Raises OutsideError if the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, *metrics(self.headers.get("Accept", "")))
            elif path in troubles:
                found = troubles[path]()
                status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
                self._answer(status, TEXT, "".join(f"{line}\n" for line in found or ["ok"]).encode())
            else:
                there = ", ".join(["/metrics", *troubles])
                self._answer(HTTPStatus.NOT_FOUND, TEXT, f"There are {there}.\n".encode())

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            if gzip_accepted(self.headers.get("Accept-Encoding", "")):
                body = gzip.compress(body, GZIP_LEVEL)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Scrapes are not news."""

    try:
        server = _Server((address, port), Handler)
    except OSError as error:
        raise OutsideError(
            f"The metrics can't be served on {address}:{port} ({error.strerror}): choose another --metrics-port."
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
