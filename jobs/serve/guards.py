"""Checks every request and every response of the pages and their JSON.

- A path is matched as it was sent, with its percent signs: so a group named `a/owners` is another path than the owners
  of `a`. The names in a path are decoded where they are used.
- The Host header has to be one that this server was started for. A page that somebody visits can make their browser
  send requests to 127.0.0.1, under a host name of the page's own that resolves to it. Only the header shows this.
- A page may load nothing from elsewhere, run no script but ours, and be framed by nobody.
- Only GET and HEAD are accepted. A path of the Model Context Protocol (`--mcp`) accepts only POST instead, and nothing
  from pages of other sites.
- `/livez` and `/readyz` are answered here, before any other request: a supervisor that restarts a silent server would
  otherwise restart a busy one.
- HEAD gets the answer of GET without its body, also if that body has no end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from groupledger.jobs.process.path_names import part
from groupledger.jobs.serve.answers import problem_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BETWEEN_SLASHES = re.compile("/(?=/)")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guards:
    """Passes requests that are allowed to the application `app`. `hosts` are the allowed names in the Host header,
    without ports; empty means any. `health` has, by path, a function that returns why the server can't work, or None if
    it can. `posted` are the paths that accept POST, and only POST."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        health: Mapping[str, Callable[[], Awaitable[str | None]]],
        posted: Collection[str] = (),
    ) -> None:
        self.app = app
        self.hosts = {*hosts}
        self.health = health
        self.posted = {*posted}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self._refusal(scope)
        if answer is None and scope["path"] in self.health:
            trouble = await self.health[scope["path"]]()
            answer = PlainTextResponse(f"{trouble or 'ok'}\n", 503 if trouble else 200)
        path = path_as_sent(scope)
        asked = {**scope, "path": path, "method": "POST" if path in self.posted else "GET"}
        if scope["method"] == "HEAD":
            await without_body(answer or self.app, asked, with_headers(send))
        else:
            await (answer or self.app)(asked, receive, with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        if path_as_sent(scope) in self.posted:
            if scope["method"] != "POST":
                return problem_answer(405, "This path accepts messages: use POST.", {"allow": "POST"})
        elif scope["method"] not in ("GET", "HEAD"):
            return problem_answer(405, "This server only answers questions: use GET.", {"allow": "GET, HEAD"})
        if self.hosts and host_of(scope) not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            return problem_answer(421, f"This server answers to {known} only: start it with --host for another.")
        origin = Headers(scope=scope).get("origin")
        if (
            scope["method"] == "POST"
            and origin is not None
            and without_port(origin.partition("//")[2]) not in self.hosts
        ):
            return problem_answer(403, "Pages of other sites may not send requests to this server.")
        return None


async def without_body(app: ASGIApp, scope: Scope, send: Send) -> None:
    """Sends only the head of an application's response. Then the application sees that the client has disconnected, so
    that it stops sending, even a response without an end."""
    is_sent = anyio.Event()

    async def gone() -> Message:
        await is_sent.wait()
        return {"type": "http.disconnect"}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})
            is_sent.set()

    await app(scope, gone, sending)


def path_as_sent(scope: Scope) -> str:
    """Returns the path with its percent signs, as in the request line. Between two slashes that have nothing between
    them, it has the form that the empty name takes in paths."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return BETWEEN_SLASHES.sub(f"/{part('')}", raw.partition(b"?")[0].decode("latin-1"))


def host_of(scope: Scope) -> str:
    """Returns the requested host, without the port."""
    return without_port(Headers(scope=scope).get("host", ""))


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
