"""Finds when coordinators moved, died or stood still, from broker logs and from silent partitions.

A coordinator leads a partition of `__consumer_offsets`, so its fault affects all groups of that partition and no
others.

- A broker logs when it has loaded a partition, and when it gives one up. If the previous broker logged that it gave the
partition up, the load is a move in good order. If it did not, that broker was dead or stood still, and the cluster took
a while to find that out. A broker that loads an empty partition takes it over from nobody.
- No record of any group is written while a partition has no coordinator. A silence counts only if the partition had
been busy before, and another partition got records meanwhile. Otherwise the clients, or the whole cluster, were silent.
At most one offset, that of a transaction's marker, lies between the two records around a silence. If more do, the
cleaner may have removed records of that time.

Members that could not reach their coordinator are removed one session after the load, and join again after it. Faults
at one time are one fault, since a broker that dies leaves all its partitions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import CoordinatorEventKind
from groupledger.transforms.incidents.rules.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

DETECTION_MS = 20_000  # broker.session.timeout.ms (9 s) and the election after it
EFFECTS_MS = 75_000  # a session of Kafka's default (45 s) after the load, and a join phase
TOGETHER_MS = 10_000
CLOCK_SKEW_MS = 1_000
SILENCE_S, BUSY_S = 8, 30
BUSY_RECORDS, BESIDE_RECORDS = 6, 3
MARKERS = 1
SILENCE_INTERVALS = 4  # a silence is so many times as long as the usual time between two records
LOADED = CoordinatorEventKind.PARTITION_LOADED
NOTHING_LOADED = "Loaded 0 records"
GIVEN_UP = (CoordinatorEventKind.PARTITION_UNLOADING, CoordinatorEventKind.PARTITION_UNLOADED)


class Second(NamedTuple):
    """How many records of a partition were written in a second, and the first and the last offset of them."""

    records: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionLine:
    """A line in which a broker logs that it has loaded a partition of `__consumer_offsets`, or gives it up."""

    kind: str
    kafka_partition: int
    broker_id: int | None
    at_ms: int
    source_file: str
    line_number: int
    loading: str | None = None

    @property
    def is_load(self) -> bool:
        return self.kind == LOADED and NOTHING_LOADED not in (self.loading or "")

    @property
    def proof(self) -> Proof:
        return Proof("coordinator_events", f"{self.source_file}/{self.line_number}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outage:
    """A time in which a partition had no coordinator. `is_clean` means that the previous coordinator gave it up in good
    order, `is_of_known` that this coordinator's own log shows how it got the partition."""

    kafka_partition: int
    from_ms: int
    until_ms: int
    detail: str
    is_clean: bool = False
    is_logged: bool = False
    is_of_known: bool = False
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinatorFault:
    """Outages at one time. Departures in groups of these partitions until `until_ms` are attributed to it; `departures`
    and `groups` count them."""

    outages: tuple[Outage, ...]
    departures: int = 0
    groups: int = 0

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(each.kafka_partition for each in self.outages)

    @property
    def from_ms(self) -> int:
        return min(each.from_ms for each in self.outages)

    @property
    def until_ms(self) -> int:
        return max(each.until_ms for each in self.outages) + EFFECTS_MS

    @property
    def is_clean(self) -> bool:
        return all(each.is_clean for each in self.outages)

    @property
    def is_logged(self) -> bool:
        return any(each.is_logged for each in self.outages)

    @property
    def holds_others_up(self) -> bool:
        """Whether logs show that a broker died or stood still: coordinators of other partitions may wait for it. The
        broker's own log has to be there, since otherwise a move in good order looks the same."""
        return any(each.is_of_known and not each.is_clean for each in self.outages)

    @property
    def fault_id(self) -> str:
        return f"{self.from_ms}/{min(self.partitions)}"

    def holds(self, at_ms: int) -> bool:
        return self.from_ms <= at_ms <= self.until_ms


@dataclass(frozen=True, slots=True)
class Coordinators:
    """Says which broker loaded each partition of `__consumer_offsets` last before an instant. `loads` has, by
    partition, the instants of its loads and the broker ids, in order."""

    loads: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def has_lost(self, broker_id: int | None, kafka_partition: int | None, at_ms: int) -> bool:
        """Returns whether another broker had loaded the partition before `broker_id` logged something about it at
        `at_ms`."""
        line = self.loads.get(-1 if kafka_partition is None else kafka_partition, ())
        place = bisect_right(line, (at_ms - CLOCK_SKEW_MS, 1 << 31))
        return bool(place) and broker_id is not None and line[place - 1][1] != broker_id


def coordinators(lines: Iterable[PartitionLine]) -> Coordinators:
    loads: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        if line.kind == LOADED and line.broker_id is not None:
            loads[line.kafka_partition].append((line.at_ms, line.broker_id))
    return Coordinators({partition: sorted(line) for partition, line in loads.items()})


def moves(lines: Iterable[PartitionLine]) -> Iterator[Outage]:
    """Yields an outage for each line in which a broker has loaded a partition, also if the same broker loads it again.
    Loads of an empty partition are left out."""
    by_partition: defaultdict[int, list[PartitionLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda each: (each.at_ms, each.source_file, each.line_number)):
        by_partition[line.kafka_partition].append(line)
    for partition, of_partition in by_partition.items():
        before: PartitionLine | None = None
        given_up: PartitionLine | None = None
        for line in of_partition:
            if line.kind in GIVEN_UP:
                is_its = before is not None and line.broker_id == before.broker_id
                given_up = line if is_its and given_up is None else given_up
            elif line.kind == LOADED:
                if line.is_load:
                    yield _move(partition, before, given_up, line)
                before, given_up = line, None


def _move(partition: int, before: PartitionLine | None, given_up: PartitionLine | None, load: PartitionLine) -> Outage:
    whence = "" if before is None or before.broker_id is None else f" from broker {before.broker_id}"
    return Outage(
        kafka_partition=partition,
        from_ms=load.at_ms - DETECTION_MS if given_up is None else given_up.at_ms,
        until_ms=load.at_ms,
        is_clean=given_up is not None,
        is_logged=True,
        is_of_known=before is not None,
        detail=f"partition {partition} of __consumer_offsets went{whence} to broker {load.broker_id}",
        proofs=tuple(line.proof for line in (given_up, load) if line is not None),
    )


def silences(records: Mapping[int, Mapping[int, Second]]) -> Iterator[Outage]:
    """Yields an outage for each time in which a busy partition had no record while others had some. `records` has the
    seconds with records, by partition."""
    for partition, of_partition in records.items():
        seconds = sorted(of_partition)
        for before, after in pairwise(seconds):
            if after - before > SILENCE_S and _is_outage(records, partition, before, after):
                yield Outage(
                    kafka_partition=partition,
                    from_ms=before * 1_000,
                    until_ms=after * 1_000,
                    detail=f"partition {partition} of __consumer_offsets had no record for {after - before} s",
                )


def _is_outage(records: Mapping[int, Mapping[int, Second]], partition: int, before: int, after: int) -> bool:
    of_partition = records[partition]
    if of_partition[after].first_offset - of_partition[before].last_offset > 1 + MARKERS:
        return False
    usual = _written(of_partition, before - BUSY_S + 1, before + 1)
    is_long = usual >= BUSY_RECORDS and (after - before) * usual >= SILENCE_INTERVALS * BUSY_S
    return is_long and any(
        _written(others, before + 1, after) >= BESIDE_RECORDS for other, others in records.items() if other != partition
    )


def _written(of_partition: Mapping[int, Second], begin: int, end: int) -> int:
    return sum(of_partition[second].records for second in range(begin, end) if second in of_partition)


def faults_of(outages: Iterable[Outage]) -> list[CoordinatorFault]:
    """Returns the faults: outages at one time are one fault. If a log shows when an outage ended, and a silence of the
    same partition overlaps it, the silence gives the beginning."""
    together: list[list[Outage]] = []
    for outage in sorted(_joined(outages), key=lambda each: (each.from_ms, each.kafka_partition, each.until_ms)):
        if together and outage.from_ms <= max(each.until_ms for each in together[-1]) + TOGETHER_MS:
            together[-1].append(outage)
        else:
            together.append([outage])
    return [CoordinatorFault(outages=tuple(each)) for each in together]


def _joined(outages: Iterable[Outage]) -> Iterator[Outage]:
    logged: list[Outage] = []
    silent: list[Outage] = []
    for outage in outages:
        (logged if outage.is_logged else silent).append(outage)
    used: set[Outage] = set()
    for move in logged:
        same = [each for each in silent if each.kafka_partition == move.kafka_partition and _overlap(each, move)]
        used.update(same)
        begun_ms = min((each.from_ms for each in same), default=move.from_ms)
        until_ms = max([move.until_ms, *(each.until_ms for each in same)])
        yield replace(move, from_ms=begun_ms, until_ms=until_ms, is_clean=move.is_clean and not same)
    yield from (each for each in silent if each not in used)


def _overlap(one: Outage, other: Outage) -> bool:
    return one.from_ms <= other.until_ms and other.from_ms <= one.until_ms
