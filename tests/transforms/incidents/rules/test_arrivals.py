"""Goal: requests are in the order in which a busy broker took them, as far as the log proves it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from groupledger.transforms.incidents.rules.arrivals import end_of_tie, in_order_of_arrival
from lab.truth.made import T, request

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules import Request


def line(number: int, arrived_us: int, logged_ms: int, connection_id: str | None = "c") -> Request:
    """A request that came so long after T, and whose line has that time."""
    made = request("HEARTBEAT", 0, T, "m", line_number=number, connection_id=connection_id)
    return replace(made, happened_at_us=T * 1_000 + arrived_us, logged_at_ms=T + logged_ms)


def arrivals(*requests: Request) -> list[tuple[int, int]]:
    """(line, microseconds after T)."""
    return [(each.line_number, each.happened_at_us - T * 1_000) for each in in_order_of_arrival(requests)]


def test_a_late_line_of_a_connection() -> None:
    """Goal: a request whose line was written 8 ms late arrived before the next one of its connection, which lasted."""
    late, other, joined = line(1, 11_000, 12), line(2, 5_000, 6, "d"), line(3, 4_000, 3_004)
    assert arrivals(late, other, joined) == [(1, 3_000), (3, 4_000), (2, 5_000)]


def test_nothing_is_known_of_other_connections() -> None:
    """Goal: without a connection id, or on another connection, a request keeps the time of its line."""
    for connection_id in (None, "d"):
        found = arrivals(line(1, 11_000, 12, connection_id), line(2, 4_000, 3_004, connection_id and "c"))
        assert found == [(2, 4_000), (1, 11_000)]


def test_a_tie_is_less_than_a_millisecond() -> None:
    """Goal: arrivals 999 microseconds apart are tied, 1,000 are not."""
    requests = [line(1, 0, 1), line(2, 999, 2), line(3, 1_000, 2)]
    assert [end_of_tie(requests, begin) for begin in range(3)] == [2, 3, 3]


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 5_000), st.integers(0, 20_000)), min_size=1))
def test_each_is_bounded_by_the_truth(steps: list[tuple[int, int, int]]) -> None:
    """Goal: whatever is late, a connection keeps its order, no arrival is more than the log's millisecond early, and
    none is later than its own line says."""
    now_us, written_us, truth, lines = 0, 0, [], []
    for number, (pause_us, duration_us, late_us) in enumerate(steps):
        now_us += pause_us
        truth.append(now_us)
        now_us += duration_us
        written_us = max(written_us, now_us + late_us)
        logged_ms = written_us // 1_000
        lines.append(line(number, logged_ms * 1_000 - duration_us, logged_ms))
    found = arrivals(*lines)
    assert [number for number, _ in found] == list(range(len(lines)))
    for (_, at_us), arrived_us, said in zip(found, truth, lines, strict=True):
        assert arrived_us - 1_000 < at_us <= said.happened_at_us - T * 1_000
