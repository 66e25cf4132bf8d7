"""Builds metrics: families of samples. An unknown value gets no sample.

Prometheus' library sorts and escapes the labels of each sample again for each family. For families with a sample for
each partition or group, that takes most of a round. So these families are written here, in the library's format, and
the text of a partition's labels is made once for all of them.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Counter: TypeAlias = CounterMetricFamily
Gauge: TypeAlias = GaugeMetricFamily


def family(
    kind: type[Counter | Gauge],
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float | None]],
) -> Metric:
    """Returns a metric. Each sample has the values of the labels and a number; None gives no sample, since sums and
    alerts would take 0 or NaN for a number."""
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
    """Returns a histogram metric. Each sample has the values of the labels, the count of each interval that ends at a
    bound and of the one above the last bound, and the sum of all observed values."""
    made = HistogramMetricFamily(name, text, labels=labels)
    ends = [*map(floatToGoString, bounds), "+Inf"]
    for values, counts, total in samples:
        made.add_metric(values, list(zip(ends, accumulate(counts), strict=True)), total)
    return made


def text_of(number: float) -> str:
    """Returns a number as Prometheus' own libraries write it, and any zero as 0.0."""
    return str(floatToGoString(number or 0.0))  # type: ignore[no-untyped-call]


class Places:
    """Holds the label values of many samples, and the text of each sample's labels."""

    def __init__(self, names: Sequence[str], values: Sequence[tuple[str, ...]]) -> None:
        self.names = names
        self.values = values
        order = sorted(range(len(names)), key=names.__getitem__)
        template = "{" + ",".join(f'{names[number]}="%s"' for number in order) + "} "
        words = {word: _escaped(word) for word in set(chain.from_iterable(values))}  # a name occurs in many places
        columns = [*zip(*values, strict=True)]
        escaped = [map(words.__getitem__, columns[number]) for number in order if values]
        self.texts = [*map(template.__mod__, zip(*escaped, strict=True))]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class ManyGauges(Metric):
    """A gauge with a sample for each of `places` whose number is known. `written` returns its text, which is the same
    in both of Prometheus' formats."""

    def __init__(self, name: str, text: str, places: Places, numbers: Sequence[float | None]) -> None:
        self._places = places
        self._numbers = numbers
        super().__init__(name, text, "gauge")

    @property
    def samples(self) -> list[Sample]:
        """Returns the samples in the library's form."""
        names, known = self._places.names, zip(self._places.values, self._numbers, strict=True)
        return [
            Sample(self.name, dict(zip(names, values, strict=True)), number)
            for values, number in known
            if number is not None
        ]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """Ignores the value: the library sets an empty list first."""

    def written(self) -> str:
        name, numbered = self.name, zip(self._places.texts, self._numbers, strict=True)
        words = {each: text_of(each) for each in {*self._numbers} if each is not None}  # many are the same
        lines = [f"{name}{place}{words[number]}\n" for place, number in numbered if number is not None]
        return f"# HELP {name} {self.documentation}\n# TYPE {name} gauge\n{''.join(lines)}"
