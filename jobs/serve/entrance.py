"""Authenticates users before a page or its JSON is shown: by a password, or by the name that a trusted proxy sends.

- A header with a name is trusted only if it comes once, and from a peer that was given as a proxy. The peer is the
  other end of the connection; headers about the origin of a request are ignored.
- A user whose password was verified lately does not wait. Other passwords are checked one after the other, in a thread
  of their own, and in turn among the addresses that they come from (`jobs.serve.turns`). So somebody who guesses delays
  no page, no answer, and no user from another address. When too many passwords wait, further users are asked to try
  again later.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from starlette.datastructures import Headers

from groupledger.jobs.gate.connections import address_of
from groupledger.jobs.gate.server import is_gone
from groupledger.jobs.gate.troubles import log_trouble
from groupledger.jobs.process.errors import InputError, JobError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.answers import problem_answer
from groupledger.jobs.serve.turns import NoTurnError, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from groupledger.jobs.serve.passwords import Passwords

# How many passwords wait to be tried: in all, and of one address.
WAITING_MAX, OF_ONE_ADDRESS = 256, 64
ASK = {"www-authenticate": 'Basic realm="groupledger", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class Proxy:
    """The header in which a proxy sends a user's name, and the peers that are trusted to send it."""

    header: str
    peers: Sequence[IPv4Network | IPv6Network]

    def names(self, scope: Scope) -> bool:
        """Returns whether a trusted peer sends the user's name."""
        sent = Headers(scope=scope).getlist(self.header)
        return len(sent) == 1 and bool(sent[0].strip()) and self.trusts(scope)

    def trusts(self, scope: Scope) -> bool:
        """Returns whether the peer that sent the request is one of the proxies."""
        client = scope.get("client")
        if client is None:
            return False
        peer: IPv4Address | IPv6Address = ip_address(client[0].partition("%")[0])
        # A server that listens to both kinds of addresses sees the older ones as newer ones.
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in network for network in self.peers)


@dataclass(slots=True)
class Entrance:
    """Passes a request to the application `app` only if it has a right name and password, or if a trusted proxy sends
    the user's name."""

    app: ASGIApp
    passwords: Passwords | None = None
    proxy: Proxy | None = None
    # A thread of their own.
    _trying: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _turns: Turns = field(default_factory=lambda: Turns(WAITING_MAX, OF_ONE_ADDRESS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = await self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        if self.proxy is not None and self.proxy.names(scope):
            return None
        if self.passwords is None:
            return problem_answer(403, "Only the proxy of this server may ask: go there.")
        credentials = credentials_in(Headers(scope=scope).get("authorization", ""))
        if credentials is None:
            return problem_answer(401, "Give a name and a password.", ASK)
        try:
            return await self._judged(scope, self.passwords, *credentials)
        except JobError as error:
            log_trouble("passwords", f"groupledger serve: nobody is let in by a password: {error}")
            return problem_answer(503, "The file of passwords can't be read: the server's log says why.")

    async def _judged(self, scope: Scope, passwords: Passwords, name: str, password: bytes) -> Response | None:
        if passwords.remembers(name, password):
            return None
        client = scope.get("client")
        try:
            async with self._turns.one(address_of(client[0]) if client else ""):
                # Who does not wait any more costs no try.
                is_right = not is_gone(scope) and await to_thread.run_sync(
                    passwords.are_right, name, password, limiter=self._trying
                )
        except NoTurnError:
            return problem_answer(503, "Too many passwords wait to be checked.", {"retry-after": "1"})
        return None if is_right else problem_answer(401, "The name or the password is wrong.", ASK)


def credentials_in(header: str) -> tuple[str, bytes] | None:
    """Returns the name and the password in an Authorization header (Basic, RFC 7617); None if it has no such pair."""
    scheme, _, encoded = header.partition(" ")
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if scheme.lower() == "basic" and colon and b"\0" not in name else None
    except (binascii.Error, ValueError):
        return None


def proxy_of(header: str, peers: Iterable[str]) -> Proxy:
    """Returns a proxy that sends names in `header`, from one of `peers`, each an address or a network. Raises
    InputError if a peer is neither."""
    return Proxy(header, [network_of(peer) for peer in peers])


def network_of(peer: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(peer)
    except ValueError as error:
        raise InputError(
            f"{printable(peer)} is no address of a proxy: write one as 10.0.0.7, or a network as 10.0.0.0/24."
        ) from error
