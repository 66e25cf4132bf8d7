"""Serves a monitor over HTTP: `/metrics` for Prometheus, and health checks.

A scrape returns the results of the last round and computes nothing, so it costs the same however many come.

    /livez     503 if the monitor has to be restarted; 200 also while it starts, or reads older records
    /readyz    503 if its numbers are not current, with a sentence for each reason; /healthz is the same

The server and its limits are those of `jobs.gate`. Health checks are answered even while scrapes are refused.
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
    """Serves until the end of the block, and yields the port; if `port` is 0, that is a free one. `metrics` returns
    content type and body for an `Accept` header. `troubles` has for each path of a health check a function that returns
    sentences; the path answers 503 with them, or 200 if there are none.

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
    """Returns the ASGI application that answers `/metrics` and the paths of `troubles`."""
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
    """Returns the metrics in the requested format."""
    content_type, body = metrics(headers.get("accept", ""))
    of_answer = {"content-type": content_type}
    if gzip_accepted(headers.get("accept-encoding", "")):
        body = gzip.compress(body, GZIP_LEVEL)
        of_answer["content-encoding"] = "gzip"
    return Response(body, headers=of_answer)
