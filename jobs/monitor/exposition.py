"""Stores the metrics of the last round as bytes, in Prometheus' text format and in OpenMetrics.

Encoding takes longer than a scrape should, so a round is encoded when it is published, in each format that was ever
asked for. Only the first scrape in a format has to wait for that. Each cluster's round is encoded by itself. A scrape
then merges the clusters' samples of each metric, since both formats allow the head of a metric only once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from groupledger.jobs.monitor.families import ManyGauges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    Encoder = Callable[[CollectorRegistry], bytes]


OPEN_METRICS = "application/openmetrics-text"
FAMILY, END = b"\n# HELP ", b"# EOF\n"


class RoundMetrics:
    """Passes the metrics of one round to Prometheus' library, as a collector."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class Published:
    """Holds the metrics of one round. Gauges with a sample for each partition or group (`ManyGauges`) are converted to
    text once, here; the others are encoded in each call of `encoded`."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._written = [part for each in metrics if isinstance(each, ManyGauges) for part in each.written()]
        self._registry = CollectorRegistry()
        self._registry.register(RoundMetrics([each for each in metrics if not isinstance(each, ManyGauges)]))

    def encoded(self, encoder: Encoder) -> bytes:
        return b"".join((*self._written, encoder(self._registry)))


def joined(bodies: Sequence[bytes]) -> bytes:
    """Returns the bodies of several clusters as one, with the samples of each metric next to each other, as the formats
    require. Names of clients are escaped within a line, so that none can look like the head of a metric."""
    families: dict[bytes, list[bytes]] = {}
    is_open_metrics = any(body.endswith(END) for body in bodies)
    for body in bodies:
        for family in (b"\n" + body.removesuffix(END)[:-1]).split(FAMILY)[1:]:
            of_help, of_type, samples = (family + b"\n").split(b"\n", 2)
            families.setdefault(FAMILY[1:] + of_help + b"\n" + of_type + b"\n", []).append(samples)
    return b"".join(part for head, samples in families.items() for part in (head, *samples)) + END * is_open_metrics


class Exposition:
    """Holds the content of `/metrics`: the metrics of each cluster's last round. It is empty before the first round."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoders: dict[str, Encoder] = {}
        self._published = {"": Published(())}
        self._bodies: dict[str, dict[str, bytes]] = {}
        self.answer("")  # the plain text is always asked for

    def publish(self, name: str, metrics: Sequence[Metric]) -> None:
        """Publishes the metrics of a cluster, which replace its former ones."""
        published = Published(metrics)
        bodies = {content_type: published.encoded(encoder) for content_type, encoder in self._encoders.copy().items()}
        with self._lock:
            self._published[name] = published
            for content_type, body in bodies.items():
                self._bodies[content_type][name] = body

    def answer(self, accept: str) -> tuple[str, bytes]:
        """Returns the content type that suits an `Accept` header, and the metrics of all clusters in that format."""
        # The client's own reading of versions and escapings would let anybody ask for formats without end.
        encoder, content_type = choose_encoder(OPEN_METRICS if OPEN_METRICS in accept else "")
        with self._lock:
            self._encoders[content_type] = encoder
            bodies = self._bodies.setdefault(content_type, {})
            bodies |= {name: of.encoded(encoder) for name, of in self._published.items() if name not in bodies}
            return content_type, joined([*bodies.values()])

    def families(self) -> list[Metric]:
        """Returns the metrics of all clusters' last rounds."""
        with self._lock:
            published = [*self._published.values()]
        return [metric for each in published for metric in each.metrics]
