"""Stands before the pages and their JSON: what every request and every answer goes through.

- A path is matched as it was sent, with its percent signs: so a group named `a/owners` is another path than the owners
  of `a`. What the path names is decoded where it is used.
- The Host header has to be one that this server was started for. A page that somebody visits can make their browser
  send requests to 127.0.0.1, and name a host of its own that it lets resolve to it: only the header tells.
- A page may load nothing from elsewhere, run no script but ours, and be framed by nobody.
- At most so many requests are answered at once; the rest are told to come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANSWERED_AT_ONCE = 64
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guards:
    """An ASGI application around another. `hosts` are the names that the Host header may have, without ports; none
    means any."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = {*hosts}
        self.answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers(send))
            return
        self.answering += 1
        try:
            await self.app({**scope, "path": path_as_sent(scope)}, receive, with_headers(send))
        finally:
            self.answering -= 1

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This server only answers questions: use GET.\n", 405, {"allow": "GET, HEAD"})
        if self.hosts and host_of(scope) not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            return PlainTextResponse(f"This server answers to {known} only: start it with --host for another.\n", 421)
        if self.answering >= ANSWERED_AT_ONCE:
            return PlainTextResponse("Too many questions at once: ask again.\n", 503, {"retry-after": "1"})
        return None


def path_as_sent(scope: Scope) -> str:
    """Returns the path with its percent signs, as the request line has it."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def host_of(scope: Scope) -> str:
    """Returns the host that was asked for, without the port."""
    host = Headers(scope=scope).get("host", "")
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
