"""What a monitor shows over HTTP: `/metrics` for Prometheus, and whether it lives and is ready.

Scrapes read what the last round has left and compute nothing, so that they cost the same however many come.

    /livez     503 if the monitor has to be started again; one that still reads what was there before lives
    /readyz    503 if its numbers are not those of now, with a sentence for each reason; so does /healthz

The server and its bounds are those of `jobs.gate`. Health is served whatever is scraped.
"""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from prometheus_client.exposition import gzip_accepted
from starlette.datastructures import Headers
from starlette.responses import Response

from groupledger.jobs.gate.connections import ClientLimits
from groupledger.jobs.gate.server import gated, listening, room_for
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

CONNECTIONS_MAX, HEAD_S, ANSWER_S, UNREAD_BYTES_MAX = 64, 10, 60, 256 << 20
SCRAPED_AT_ONCE = 2
STOP_WITHIN_S = 2
GZIP_LEVEL = 1  # names repeat: more costs time and saves little
TEXT = "text/plain; charset=utf-8"


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
    limits = ClientLimits(room_for(CONNECTIONS_MAX), HEAD_S, ANSWER_S, UNREAD_BYTES_MAX)
    server = gated(shown(metrics, troubles), limits, lifespan="off", timeout_graceful_shutdown=STOP_WITHIN_S)
    try:
        socket = listening(address, port)
    except OSError as error:
        raise OutsideError(
            f"The metrics can't be served on {address}:{port} ({error.strerror}): choose another --metrics-port."
        ) from error
    worker = Worker("metrics", lambda: server.run([socket]))
    worker.start()
    try:
        yield socket.getsockname()[1]
    finally:
        server.should_exit = True
        worker.join()
    worker.check()


def shown(metrics: Callable[[str], tuple[str, bytes]], troubles: Mapping[str, Callable[[], Sequence[str]]]) -> ASGIApp:
    """Returns the application."""
    scraping, asking = anyio.CapacityLimiter(SCRAPED_AT_ONCE), anyio.CapacityLimiter(1)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path, headers = scope["path"], Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            answer = text(HTTPStatus.METHOD_NOT_ALLOWED, ["Use GET."])
        elif path == "/metrics":
            answer = await to_thread.run_sync(scraped, metrics, headers, limiter=scraping)
        elif path in troubles:
            found = await to_thread.run_sync(troubles[path], limiter=asking)
            answer = text(HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK, found or ["ok"])
        else:
            there = ", ".join(["/metrics", *troubles])
            answer = text(HTTPStatus.NOT_FOUND, [f"There are {there}."])
        await answer(scope, receive, send)

    return app


def text(status: HTTPStatus, lines: Sequence[str]) -> Response:
    return Response("".join(f"{line}\n" for line in lines), status, {"content-type": TEXT})


def scraped(metrics: Callable[[str], tuple[str, bytes]], headers: Headers) -> Response:
    """Returns the metrics in the form that is asked for."""
    content_type, body = metrics(headers.get("accept", ""))
    told = {"content-type": content_type}
    if gzip_accepted(headers.get("accept-encoding", "")):
        body = gzip.compress(body, GZIP_LEVEL)
        told["content-encoding"] = "gzip"
    return Response(body, headers=told)
