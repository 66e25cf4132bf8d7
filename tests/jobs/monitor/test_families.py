"""Goal: many samples that are written at once give the same text as the library's for each."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from groupledger.jobs.monitor.exposition import OPEN_METRICS, Published, RoundMetrics
from groupledger.jobs.monitor.families import ManyGauges, Places

NAMES = ("group", "cluster_name", "topic")
NUMBERS = st.none() | st.integers() | st.floats() | st.sampled_from([0, 1e6, 123456789.25, -0.0, math.inf])
ROWS = st.lists(st.tuples(st.tuples(*[st.text()] * len(NAMES)), NUMBERS))


@given(ROWS)
def test_as_the_library_writes_it(rows: list[tuple[tuple[str, ...], float | None]]) -> None:
    """Goal: the same bytes in both formats, whatever names clients choose; nothing where nothing is known. No zero is
    negative."""
    places = Places(NAMES, [values for values, _ in rows])
    many = ManyGauges("lag", "Lag.", places, [number if number is None else number + 0 for _, number in rows])
    registry = CollectorRegistry()
    registry.register(RoundMetrics([many]))
    for accept in ("", OPEN_METRICS):
        encoder, _ = choose_encoder(accept)
        assert Published([many]).encoded(encoder) == encoder(registry)
