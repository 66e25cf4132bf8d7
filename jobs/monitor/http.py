"""What a monitor shows over HTTP: `/metrics` in Prometheus' text format, and `/healthz`.

Scrapes read what the last round has left and compute nothing, so that they cost the same however many come. The server
is the standard library's.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REQUEST_SECONDS_MAX = 10


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that went away: anybody could fill the log with that."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def serve(
    address: str, port: int, metrics: Callable[[], bytes], troubles: Callable[[], Sequence[str]]
) -> Iterator[int]:
    """Gives the port, which is a free one for 0. `troubles` are sentences; without any, `/healthz` says 200.

    Raises OutsideError if the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics())
            elif path == "/healthz":
                found = troubles()
                status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
                self._answer(
                    status, "text/plain; charset=utf-8", "".join(f"{line}\n" for line in found or ["ok"]).encode()
                )
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There are /metrics and /healthz.\n")

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
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
