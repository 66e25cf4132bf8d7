"""Goal: time, unread bytes, and the number of connections of an address decide which connections may stay."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from groupledger.jobs.gate.connections import ClientLimits, Connections, address_of

LIMITS = ClientLimits(connections=3, head_s=10, answer_s=60, unread_bytes=100)


@dataclass(eq=False)
class Fake:
    address: str = "10.0.0.1"
    size: int = 0

    def unread(self) -> int:
        return self.size


@pytest.fixture
def found() -> Connections[Fake]:
    return Connections(LIMITS)


def opened(found: Connections[Fake], *addresses: str) -> list[Fake]:
    """Opens connections, one a second."""
    made = [Fake(address) for address in addresses]
    assert [found.opened(each, now) for now, each in enumerate(made)] == [None] * len(made)
    return made


def test_the_oldest_makes_room(found: Connections[Fake]) -> None:
    """Goal: the connection that has waited the longest is closed for a newcomer, and each only once; a connection that
    is being answered stays."""
    first, second, third = opened(found, *["10.0.0.1"] * 3)
    found.asks(first)
    assert found.opened(Fake(), 3) is second
    found.waits(first, 4)
    assert found.opened(Fake(), 5) is third
    assert len(found) == 3


def test_one_address_keeps_out_no_other(found: Connections[Fake]) -> None:
    """Goal: if one address has more connections than others, one of its connections is closed, however young."""
    other, *of_one = opened(found, "10.0.0.2", "10.0.0.1", "10.0.0.1")
    assert found.opened(Fake("10.0.0.3"), 3) is of_one[0]
    assert found.opened(Fake("10.0.0.1"), 4) is other


def test_all_are_answered(found: Connections[Fake]) -> None:
    """Goal: a newcomer is turned away only if nobody waits."""
    every = opened(found, *["10.0.0.1"] * 3)
    for each in every:
        found.asks(each)
    newcomer = Fake()
    assert found.opened(newcomer, 3) is newcomer
    found.closed(newcomer)
    found.closed(every[0])
    assert found.opened(Fake(), 4) is None


def test_time(found: Connections[Fake]) -> None:
    """Goal: a head has its time from the beginning, or from the answer before; an answer from when it is unread."""
    idle, slow, busy = opened(found, *["10.0.0.1"] * 3)
    found.asks(busy)
    slow.size = 1
    assert [*found.overdue(9)] == []
    assert [*found.overdue(10.5)] == [idle]
    found.closed(idle)
    found.waits(busy, 11)
    assert [*found.overdue(21)] == []
    assert [*found.overdue(21.5)] == [busy]
    assert [*found.overdue(70)] == [slow, busy]
    slow.size = 0
    assert [*found.overdue(70)] == [slow, busy]


def test_what_is_unread(found: Connections[Fake]) -> None:
    """Goal: when all that is unread is too much, those that have not read for the longest are closed."""
    first, second, third = opened(found, *["10.0.0.1"] * 3)
    first.size = 60
    assert [*found.overdue(1)] == []
    second.size = third.size = 30
    assert [*found.overdue(2)] == [first]
    found.closed(first)
    assert [*found.overdue(3)] == []


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("2001:db8:0:1:aaaa::1", "2001:db8:0:1::/64"),
        ("", ""),
        ("socket", "socket"),
    ],
)
def test_addresses(host: str, address: str) -> None:
    """Goal: a network of IPv6 counts as one, and so does an address in both of its forms."""
    assert address_of(host) == address
