"""Limits how many questions are answered at once: in all, and from one address. Further requests are asked to try again
later.

Requests from a trusted proxy have no limit for their address, since all users come from there. `/livez` and `/readyz`
need no place (`jobs.serve.guards`), nor do guesses of passwords (`jobs.serve.entrance`). Streams of events have places
of their own (`jobs.serve.events`).
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.gate.connections import address_of
from groupledger.jobs.serve.answers import problem_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from groupledger.jobs.serve.entrance import Proxy

STREAM = re.compile("/api/v1/clusters/[^/]+/events")
# Questions that are computed at once; others wait.
THREADS = 4
ANSWERED_AT_ONCE, OF_ONE_ADDRESS = 128, 64


class NoPlaceError(Exception):
    """All places are in use."""


@dataclass(slots=True)
class Places:
    """Counts the requests that have a place: at most `every` in all, and at most `of_one` from one address. That limit
    does not apply to requests from `proxy`."""

    every: int
    of_one: int
    proxy: Proxy | None = None
    _taken: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def one(self, scope: Scope) -> Iterator[None]:
        """Takes a place for a request until the end of the block. Raises NoPlaceError if there is none."""
        client = scope.get("client")
        address = address_of(client[0]) if client else ""
        is_shared = self.proxy is not None and self.proxy.trusts(scope)
        if self._taken.total() >= self.every or (not is_shared and self._taken[address] >= self.of_one):
            raise NoPlaceError
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]


@dataclass(frozen=True, slots=True)
class Slots:
    """Passes requests to the application `app`. Each request takes a place while it is answered, except streams of
    events."""

    app: ASGIApp
    places: Places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or STREAM.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        try:
            with self.places.one(scope):
                await self.app(scope, receive, send)
        except NoPlaceError:
            await problem_answer(503, "Too many questions at once: ask again.", {"retry-after": "1"})(
                scope, receive, send
            )
