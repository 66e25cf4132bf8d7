"""Sends requests to the application within its own process, as a client would by HTTP, without a connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message


class Response(NamedTuple):
    """The response: the status, and the value of the JSON."""

    status: int
    value: Any


async def ask(app: ASGIApp, path: str, parameters: Mapping[str, object]) -> Response:
    """Returns the response to GET; a parameter that is a list is sent once for each value, and one that is None is left
    out."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": urlencode(given, doseq=True).encode(),
        "headers": [(b"host", b"localhost"), (b"accept", b"application/json")],
        "client": None,
        "server": None,
    }
    status, body = 0, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    try:
        await app(scope, receive, send)
    except Exception:  # Starlette raises a fault again that it has answered, for a server to log
        if not status:
            raise
    return Response(status, json.loads(body))
