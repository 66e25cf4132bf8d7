"""Determines what keeps a client from the protocol of KIP-848, `group.protocol=consumer`.

Libraries send their names in ApiVersions (KIP-511), which the brokers' request log has. Two of them support the
protocol in production: Kafka's Java client from 4.0 on (Kafka's documentation, Consumer Rebalance Protocol), and
librdkafka from 2.12.0 on (its release notes). Clients of other languages that are built on librdkafka name it in their
version (Go's as `librdkafka-v2.3.0`, Python's as `rdkafka-2.16.0`). For other libraries it is not known whether they
support the protocol.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import ASSIGNORS
from groupledger.schemas.words import MoveBlocker

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA, LIBRDKAFKA = "apache-kafka-java", "librdkafka"
READY = {JAVA: (4, 0), LIBRDKAFKA: (2, 12)}
"""The first release of each library that is ready for the protocol in production."""
CONSUMER_PROTOCOL = "consumer"
BUILT_ON = re.compile(r"rdkafka-v?([0-9]{1,4}\.[0-9]{1,4})", re.ASCII)
VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})", re.ASCII)


def blockers(
    protocol_type: str | None, assignor: str | None, library: str | None, version: str | None
) -> Iterator[str]:
    """Yields the reasons that keep a member with the classic protocol from `group.protocol=consumer`. Yields none if
    the member could move to that protocol."""
    if protocol_type not in {None, "", CONSUMER_PROTOCOL}:
        yield MoveBlocker.NOT_CONSUMERS
        return
    if assignor and assignor not in ASSIGNORS:
        yield MoveBlocker.OWN_ASSIGNOR
    is_ready = can_move(library, version)
    if is_ready is None:
        yield MoveBlocker.UNKNOWN_CLIENT
    elif not is_ready:
        yield MoveBlocker.OLD_CLIENT


def can_move(library: str | None, version: str | None) -> bool | None:
    """Returns whether a release of a client library is ready for KIP-848; None if that is not known."""
    built_on = BUILT_ON.search(version or "")
    if built_on is not None:
        library, version = LIBRDKAFKA, built_on[1]
    found = VERSION.match(version or "")
    if library not in READY or found is None:
        return None
    return (int(found[1]), int(found[2])) >= READY[library]
