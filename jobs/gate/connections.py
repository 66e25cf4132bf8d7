"""Decides which connections of a server may stay, by number, by time without a complete request, and by unread response
bytes.

- From its beginning, or from the previous response, a connection has a limited time until the head of its next request
  is complete, whether it is silent, sends slowly or is idle.
- A response has to be read within a time limit, however slowly. The unread bytes of all connections together have a
  limit, too.
- A full server does not refuse the newcomer but closes the connection that has been waiting for a request the longest,
  among those of the address with the most connections. So one address may use all connections while no other needs any,
  and a trusted one needs no exception. A connection whose request is being answered stays.

Time is a parameter, in seconds of a clock that never goes back. Nothing here reads or writes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

# Who has one address of IPv6 has all of its network.
IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Holds the limits for clients: the number of connections, the seconds until the head of a request is complete
    (`head_s`) and until a response is read (`answer_s`), and the unread bytes of the responses of all connections."""

    connections: int
    head_s: float
    answer_s: float
    unread_bytes: int


class Connection(Protocol):
    """A connection of a client. `address` identifies the client."""

    @property
    def address(self) -> str: ...

    def unread(self) -> int:
        """Returns how many bytes of responses the client has not read."""
        ...


Kind = TypeVar("Kind", bound=Connection)


class Connections(Generic[Kind]):
    """The connections of a server. Each either waits for a request, or its request is being answered."""

    def __init__(self, limits: ClientLimits) -> None:
        self.limits = limits
        self._of_address: Counter[str] = Counter()
        # By address, the longest first: since when each is waited for.
        self._waited: dict[str, OrderedDict[Kind, float]] = {}
        # Since when each has something unread; of those that were seen with it.
        self._unread: dict[Kind, float] = {}
        self._every: dict[Kind, None] = {}

    def __len__(self) -> int:
        return len(self._every)

    def opened(self, connection: Kind, now: float) -> Kind | None:
        """Adds a new connection. Returns the connection that has to be closed for it, or None if there is room. If
        requests of all others are being answered, that is the new one, which is then not added."""
        leaves = self._longest() if len(self._every) >= self.limits.connections else None
        if leaves is not None:
            self.closed(leaves)
        elif len(self._every) >= self.limits.connections:
            return connection
        self._every[connection] = None
        self._of_address[connection.address] += 1
        self.waits(connection, now)
        return leaves

    def waits(self, connection: Kind, now: float) -> None:
        """Records that a connection waits for its next request from now on."""
        if connection in self._every:
            self._waited.setdefault(connection.address, OrderedDict())[connection] = now

    def asks(self, connection: Kind) -> None:
        """Records that the head of a request is complete."""
        waited = self._waited.get(connection.address)
        if waited is None:
            return
        waited.pop(connection, None)
        if not waited:
            del self._waited[connection.address]

    def closed(self, connection: Kind) -> None:
        """Removes a connection."""
        if connection not in self._every:
            return
        del self._every[connection]
        self._unread.pop(connection, None)
        self.asks(connection)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def overdue(self, now: float) -> Iterator[Kind]:
        """Yields the connections that have to be closed now, because they exceed a limit. The time limit for the next
        request does not apply to a connection with unread bytes."""
        sizes = {each: each.unread() for each in self._every}
        self._unread = {each: self._unread.get(each, now) for each, size in sizes.items() if size}
        held = sum(sizes.values())
        for each, since in sorted(self._unread.items(), key=lambda of: of[1]):
            if now - since > self.limits.answer_s or held > self.limits.unread_bytes:
                held -= sizes[each]
                yield each
        for waited in [*self._waited.values()]:
            for each, since in [*waited.items()]:
                if now - since <= self.limits.head_s:
                    break
                if each not in self._unread:
                    yield each

    def _longest(self) -> Kind | None:
        """Returns the connection that can best be closed; None if each is being answered."""
        most = max(
            self._waited.items(),
            key=lambda of: (self._of_address[of[0]], -next(iter(of[1].values()))),
            default=None,
        )
        return None if most is None else next(iter(most[1]))


def address_of(host: str) -> str:
    """Returns the address by which a peer is counted. An IPv4 address stays as it is, also if it is mapped into IPv6;
    another IPv6 address is replaced by its network of IPV6_NETWORK_BITS. A text that is not an address, such as the
    name of a Unix socket, stays as it is."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((found, IPV6_NETWORK_BITS), strict=False))
