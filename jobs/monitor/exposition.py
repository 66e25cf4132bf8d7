"""Keeps the metrics of the last round as bytes, in Prometheus' text format and in OpenMetrics.

Encoding takes longer than a scrape should, so it is done when a round is published, for each format that was ever asked
for; the first scrape in the other format waits for it once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    Encoder = Callable[[CollectorRegistry], bytes]


OPEN_METRICS = "application/openmetrics-text"


class Round:
    """The metrics of one round, as a collector."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def registry_of(metrics: Sequence[Metric]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Round(metrics))
    return registry


class Exposition:
    """What `/metrics` answers with; nothing before the first round."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoders: dict[str, Encoder] = {}
        self._published = registry_of(())
        self._bodies: dict[str, bytes] = {}
        self.answer("")  # the plain text is always asked for

    def publish(self, metrics: Sequence[Metric]) -> None:
        published = registry_of(metrics)
        bodies = {content_type: encoder(published) for content_type, encoder in self._encoders.copy().items()}
        with self._lock:
            self._published, self._bodies = published, bodies

    def answer(self, accept: str) -> tuple[str, bytes]:
        """Returns the content type that suits a header `Accept`, and the body."""
        # The client's own reading of versions and escapings would let anybody ask for formats without end.
        encoder, content_type = choose_encoder(OPEN_METRICS if OPEN_METRICS in accept else "")
        with self._lock:
            self._encoders[content_type] = encoder
            body = self._bodies.get(content_type)
            if body is None:
                body = self._bodies[content_type] = encoder(self._published)
        return content_type, body
