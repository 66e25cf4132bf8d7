"""Keeps what the search for coordinators' faults needs of the time before an instant, so that a pass reads only rows
after it.

All lines about partitions are kept, because a broker may have loaded a partition at any time before. Departures are
kept if they lie in a fault or in a burst, or shortly before the instant; a later fault may begin that early. If one
begins even earlier, the departures of its time are not known (`Settled.covers`), and all rows have to be read again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.transforms.incidents.coordinator_faults import DEPARTURES, is_during
from groupledger.transforms.incidents.rules.coordinator_faults import Outage, PartitionLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from groupledger.transforms.incidents.coordinator_faults import Span
    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

RECENT_MS = 600_000


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What is kept of the time before `until_ms`; 0 stands for nothing. The search that read all rows last kept what
    was settled until `all_until_ms`. `unplaced` are groups with departures whose partition was not known. `spans` has
    when faults began and ended, by partition: all departures of these times are kept. `silences` has the outages that
    the records of a time show."""

    until_ms: int = 0
    all_until_ms: int = 0
    lines: Sequence[PartitionLine] = ()
    departures: pa.Table = field(default_factory=DEPARTURES.empty_table)
    unplaced: Collection[str] = ()
    spans: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    silences: Mapping[Span, Sequence[Outage]] = field(default_factory=dict)

    def covers(self, faults: Iterable[CoordinatorFault]) -> bool:
        """Returns whether all departures before `until_ms` that may belong to the faults are kept."""
        return all(map(self._covers, faults))

    def _covers(self, fault: CoordinatorFault) -> bool:
        end_ms = min(fault.until_ms, self.until_ms)
        return fault.from_ms >= self.until_ms - RECENT_MS or all(
            self.spans.get(partition, {}).get(fault.from_ms, 0) >= end_ms for partition in fault.partitions
        )


def settled(
    until_ms: int,
    lines: Iterable[PartitionLine],
    gone: pa.Table,
    silences: Mapping[Span, Sequence[Outage]],
    faults: Iterable[CoordinatorFault],
    unplaced: Collection[str],
) -> Settled:
    """Returns what to keep of the time before an instant. `gone` are all departures with their partition, `silences`
    has the bursts, and `faults` are those of all times."""
    old = [fault for fault in faults if fault.from_ms < until_ms]
    spans: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for fault in old:
        for partition in fault.partitions:
            spans[partition][fault.from_ms] = fault.until_ms
    left_ms = gone["left_ms"]
    times = [(until_ms - RECENT_MS, until_ms), *silences]
    is_kept = [pc.and_(pc.greater_equal(left_ms, begin), pc.less(left_ms, end)) for begin, end in times]
    is_needed = reduce(pc.or_, [*is_kept, *(is_during(fault, gone) for fault in old)])
    return Settled(
        until_ms=until_ms,
        lines=[line for line in lines if line.at_ms < until_ms],
        departures=gone.filter(pc.and_(is_needed, pc.less(left_ms, until_ms))).select(DEPARTURES.names),
        unplaced=unplaced,
        spans=dict(spans),
        silences={span: outages for span, outages in silences.items() if span[1] <= until_ms},
    )


def as_values(kept: Settled) -> dict[str, Any]:
    """Returns values that JSON has; `of_values` makes them what they were."""
    return {
        "until_ms": kept.until_ms,
        "all_until_ms": kept.all_until_ms,
        "lines": [asdict(line) for line in kept.lines],
        "departures": kept.departures.to_pydict(),
        "unplaced": sorted(kept.unplaced),
        "spans": [[partition, *map(list, spans.items())] for partition, spans in kept.spans.items()],
        "silences": [[*span, *map(asdict, outages)] for span, outages in kept.silences.items()],
    }


def of_values(values: Mapping[str, Any]) -> Settled:
    return Settled(
        until_ms=values["until_ms"],
        all_until_ms=values["all_until_ms"],
        lines=[PartitionLine(**line) for line in values["lines"]],
        departures=pa.table(values["departures"], DEPARTURES),
        unplaced=values["unplaced"],
        spans={partition: dict(spans) for partition, *spans in values["spans"]},
        silences={
            (begin, end): [Outage(**{**outage, "proofs": ()}) for outage in outages]  # a silence is in no row
            for begin, end, *outages in values["silences"]
        },
    )
