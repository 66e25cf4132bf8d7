"""Builds metrics: families of samples. An unknown value gets no sample.

Prometheus' library sorts and escapes the labels of each sample again for each family. For families with a sample for
each partition or group, that takes most of a round. So these families are written here, in the library's format, and
the text of a partition's labels is made once for all of them.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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

    def __init__(self, names: Sequence[str], values: Sequence[tuple[str, ...]], escaped: Escaped | None = None) -> None:
        """Takes the values of each sample, in the order of `names`. `escaped` may be words that are known."""
        self.names = names
        self.values = values
        order = sorted(range(len(names)), key=names.__getitem__)
        template = "{" + ",".join(f'{names[number]}="%s"' for number in order) + "} "
        words = Escaped() if escaped is None else escaped  # a name occurs in many places
        columns = [*zip(*values, strict=True)]
        texts = [map(words.__getitem__, columns[number]) for number in order if values]
        self.texts = [*map(template.__mod__, zip(*texts, strict=True))]


class Escaped(dict[str, str]):
    """The text of each word in a label."""

    def __missing__(self, word: str) -> str:
        self[word] = found = word.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        return found


class Numerals(dict[float, str]):
    """The text of each number; many numbers are the same."""

    def __missing__(self, number: float) -> str:
        self[number] = found = text_of(number)
        return found


def lines(name: str, places: Iterable[str], numbers: Iterable[float | None], numerals: dict[float, str]) -> bytes:
    """Returns the lines of some samples, without those whose number is None. `places` are texts of `Places`."""
    numbered = zip(places, numbers, strict=True)
    return "".join([f"{name}{place}{numerals[number]}\n" for place, number in numbered if number is not None]).encode()


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
        return [
            Sample(self.name, dict(zip(self._places.names, values, strict=True)), number)
            for values, number in self._known()
            if number is not None
        ]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """Ignores the value: the library sets an empty list first."""

    def written(self) -> list[bytes]:
        """Returns the text in parts."""
        head = f"# HELP {self.name} {self.documentation}\n# TYPE {self.name} gauge\n".encode()
        return [head, *self._lines()]

    def _known(self) -> Iterable[tuple[Sequence[str], float | None]]:
        return zip(self._places.values, self._numbers, strict=True)

    def _lines(self) -> Sequence[bytes]:
        return [lines(self.name, self._places.texts, self._numbers, Numerals())]


class WrittenGauges(ManyGauges):
    """A gauge whose lines are written already. `known` returns the values of the labels of each sample and its number,
    where somebody asks for samples."""

    def __init__(
        self,
        name: str,
        text: str,
        names: Sequence[str],
        known: Callable[[], Iterable[tuple[tuple[str, ...], float | None]]],
        parts: Sequence[bytes],
    ) -> None:
        super().__init__(name, text, Places(names, ()), ())
        self._known, self._parts = known, parts  # type: ignore[method-assign]

    def _lines(self) -> Sequence[bytes]:
        return self._parts
