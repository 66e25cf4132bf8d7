"""How metrics are made: families of samples, in which what is not known has no sample."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

Counter: TypeAlias = CounterMetricFamily
Gauge: TypeAlias = GaugeMetricFamily


def family(
    kind: type[Counter | Gauge],
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float | None]],
) -> Metric:
    """Returns the samples, each the values of the labels and a number; None makes neither 0 nor NaN, which sums and
    alerts would take for a number."""
    made = kind(name, text, labels=labels)
    for values, number in samples:
        if number is not None:
            made.add_metric(values, number)
    return made


def histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    bounds: Sequence[float],
    samples: Iterable[tuple[Sequence[str], Sequence[int], float]],
) -> Metric:
    """Returns histograms, each the values of the labels, how many lie up to each bound and above the last, and the
    sum."""
    made = HistogramMetricFamily(name, text, labels=labels)
    ends = [*map(floatToGoString, bounds), "+Inf"]
    for values, counts, total in samples:
        made.add_metric(values, list(zip(ends, accumulate(counts), strict=True)), total)
    return made
