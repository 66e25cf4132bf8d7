"""Pushes the metrics of a monitor by OTLP to the address of the setting `metrics.otlp`, beside `/metrics`.

A thread of its own looks once an interval, so that no round waits for the receiver. It sends the metrics of the last
round under the same names, with their labels as attributes: gauges as gauges, counters as sums since the monitor began,
histograms as histograms and summaries as summaries. What the receiver does not take is left out, and reported once; the
next push has the values of then.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.otlp import attributes, nanoseconds, resource, scope
from groupledger.jobs.process.web import post

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric
    from prometheus_client.samples import Sample

    Labels: TypeAlias = tuple[tuple[str, str], ...]

CUMULATIVE = 2
POINTS_AT_ONCE = 10_000
TIMEOUT_S = 10
PATH = "/v1/metrics"


@dataclass
class OtlpPush:
    """Where to push, and from what: `families` returns the metrics of the last round. `warn` gets a sentence for each
    new reason why a push failed."""

    url: str
    key: str | None = field(repr=False)
    families: Callable[[], Iterable[Metric]]
    warn: Callable[[str], None]
    began_ms: int = field(default_factory=now_ms)
    failing: str = ""

    def follow(self, stop: threading.Event, interval_s: float) -> None:
        """Pushes once an interval, until it is stopped."""
        while not stop.wait(interval_s):
            self.push(now_ms())

    def push(self, at_ms: int) -> bool:
        """Pushes the metrics of the last round; returns whether all of them were received."""
        headers = {"Content-Type": "application/json"}
        headers |= {} if self.key is None else {"Authorization": self.key}
        try:
            for request in requests(self.families(), self.began_ms, at_ms):
                body = json.dumps(request).encode()
                post(self.url.rstrip("/") + PATH, body, headers, TIMEOUT_S, answer_bytes_max=0)
        except OutsideError as error:
            if self.failing != str(error):
                self.failing = str(error)
                self.warn(f"The receiver of metrics.otlp was not reached: {error}. It is tried again.")
            return False
        self.failing = ""
        return True


def requests(families: Iterable[Metric], began_ms: int, at_ms: int) -> Iterator[dict[str, Any]]:
    """Yields the requests that have all samples, each with at most POINTS_AT_ONCE."""
    points = ((metric, form, point) for metric in families for form, point in points_of(metric, began_ms, at_ms))
    while some := list(islice(points, POINTS_AT_ONCE)):
        found: dict[str, dict[str, Any]] = {}
        for metric, form, point in some:
            name = f"{metric.name}_total" if form == "sum" else metric.name  # which the library leaves out
            head = {"name": name, "description": metric.documentation, form: dict(OF_FORM[form])}
            found.setdefault(name, head)[form].setdefault("dataPoints", []).append(point)
        yield {
            "resourceMetrics": [
                {"resource": resource(), "scopeMetrics": [{"scope": scope(), "metrics": [*found.values()]}]}
            ]
        }


OF_FORM: dict[str, dict[str, Any]] = {
    "gauge": {},
    "sum": {"aggregationTemporality": CUMULATIVE, "isMonotonic": True},
    "histogram": {"aggregationTemporality": CUMULATIVE},
    "summary": {},
}


def points_of(metric: Metric, began_ms: int, at_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the data points of a metric, each with the name of the OTLP field for its kind of metric."""
    if metric.type == "histogram":
        for each in _histograms(metric.samples):
            yield "histogram", _point(each.pop("labels"), began_ms, at_ms) | each
        return
    if metric.type == "summary":
        for labels, each in _summaries(metric.samples):
            yield "summary", _point(dict(labels), began_ms, at_ms) | each
        return
    form = "sum" if metric.type == "counter" else "gauge"
    for sample in metric.samples:
        if not sample.name.endswith("_created"):
            yield form, _point(sample.labels, began_ms, at_ms) | {"asDouble": _number(sample.value)}


def _number(value: float) -> float | str:
    """Returns a number as JSON has it in OTLP: those that JSON lacks are texts."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _point(labels: dict[str, str], began_ms: int, at_ms: int) -> dict[str, Any]:
    times = {"startTimeUnixNano": nanoseconds(began_ms), "timeUnixNano": nanoseconds(at_ms)}
    return {"attributes": attributes(labels), **times}


def _summaries(samples: Iterable[Sample]) -> Iterable[tuple[Labels, dict[str, Any]]]:
    """Returns a summary, as its labels and its count and sum, for each set of labels. Ours have no quantiles."""
    found: dict[Labels, dict[str, Any]] = {}
    for sample in samples:
        each = found.setdefault(tuple(sample.labels.items()), {})
        each |= {"count": str(int(sample.value))} if sample.name.endswith("_count") else {"sum": float(sample.value)}
    return found.items()


def _histograms(samples: Iterable[Sample]) -> Iterator[dict[str, Any]]:
    """Yields a histogram for each set of labels. Prometheus' counts are those up to a bound, OTLP's are between two."""
    found: dict[Labels, dict[str, Any]] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        each = found.setdefault(tuple(labels.items()), {"labels": labels, "bounds": [], "counts": [], "sum": 0.0})
        if sample.name.endswith("_bucket"):
            each["bounds"].append(float(sample.labels["le"]))
            each["counts"].append(int(sample.value))
        elif sample.name.endswith("_sum"):
            each["sum"] = float(sample.value)
    for each in found.values():
        counts = each.pop("counts")
        between = [count - before for before, count in zip([0, *counts], counts, strict=False)]
        yield {
            "labels": each["labels"],
            "count": str(counts[-1] if counts else 0),
            "sum": each["sum"],
            "explicitBounds": each["bounds"][:-1],
            "bucketCounts": [*map(str, between)],
        }
