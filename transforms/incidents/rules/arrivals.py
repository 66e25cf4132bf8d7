"""Puts a group's requests into the order in which they reached the broker.

The arrival of a request is the time of its line, in whole milliseconds, less its exact duration. On a busy machine a
line is written late, and its request seems to have come late. But a broker takes no request from a connection before it
has answered the one before: the lines of a connection are in the order of their requests, and a request was answered
before the next one of its connection arrived. Arrivals on different connections that are less than a millisecond apart
are tied.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.incidents.rules.facts import Request

TIE_US = 1_000
_LOG_ORDER = attrgetter("logged_at_ms", "source_file", "line_number")


def in_order_of_arrival(requests: Iterable[Request]) -> list[Request]:
    """Returns the requests in the order of their arrival. `happened_at_us` becomes earlier if the next request of the
    same connection proves that the request arrived earlier."""
    arrived = []
    next_us: dict[str, int] = {}
    for request in sorted(requests, key=_LOG_ORDER, reverse=True):
        at_us, connection_id = request.happened_at_us, request.connection_id
        if connection_id is not None:
            duration_us = request.logged_at_ms * 1_000 - at_us
            at_us = min(at_us, next_us.get(connection_id, at_us + duration_us) - duration_us)
            next_us[connection_id] = at_us
        arrived.append(replace(request, happened_at_us=at_us) if at_us < request.happened_at_us else request)
    arrived.reverse()  # the sort below keeps the order of the log where times are equal
    return sorted(arrived, key=attrgetter("happened_at_us"))


def end_of_tie(requests: Sequence[Request], begin: int) -> int:
    """Returns the index after the last request that is tied with the one at `begin`."""
    end = begin + 1
    while end < len(requests) and requests[end].happened_at_us - requests[begin].happened_at_us < TIE_US:
        end += 1
    return end
