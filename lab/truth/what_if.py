"""Plays the same workload under several settings, and compares what a what-if predicts from one run with what happened
in the others.

A workload has the events of processes: restarts, crashes, scaling. It does not depend on the setting. What happened is
known from the ledger of each run (rebalances, moves) and from the applications themselves (how long each partition had
no owner while a process was up).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.client.events import Joined, Lost, Revoked
from groupledger.coordinator.simulator.application import Application
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.coordinator.what_if.answer import answers
from groupledger.coordinator.what_if.setting import changed
from groupledger.schemas.instants import instant_of_ms, instant_of_us
from groupledger.transforms.history.rules.what_if import NotReplayableError, WhatIfRows, observed_of, workload_of
from lab.truth.simulated import groups_in, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.coordinator.client.events import ConsumerEvent
    from groupledger.coordinator.simulator.random_source import RandomSource
    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.what_if.answer import Answer
    from groupledger.schemas.kafka.topic_partition import TopicPartition

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "range": {"assignors": ("range",)},
    "static": {"assignors": ("range",), "is_static": True},
    "cooperative-sticky": {"assignors": ("cooperative-sticky",)},
    "static,cooperative-sticky": {"assignors": ("cooperative-sticky",), "is_static": True},
    "consumer": {"group_protocol": "consumer"},
    "static,consumer": {"group_protocol": "consumer", "is_static": True},
}
SETTLED_MINUTES: Final = 3.0
ENDS_MINUTES: Final = 4.0  # after the last event: a session, and the rounds after its end
RECORDS_PER_MINUTE: Final = 20  # of each partition: fetching is most of a run's work
FIGURES: Final = ("rebalances", "partitions_moved", "stopped_partition_seconds")
PROCESSING_MS: Final = (10, 200)
FETCH_MAX_WAIT_MS: Final = 5_000

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Happened:
    """One run: the rows of its ledger from `since_ms` to `until_ms`, and in `stopped_s` for how long partitions had no
    owner, in partition-seconds."""

    rows: WhatIfRows
    stopped_s: float

    def figures(self) -> dict[str, float]:
        observed = observed_of(self.rows.rebalances)
        rebalances, moves = observed["rebalances"], observed["partitions_moved"]
        found = {"stopped_partition_seconds": self.stopped_s}
        if rebalances is not None:
            found["rebalances"] = rebalances.low
        if moves is not None:
            found["partitions_moved"] = moves.low
        return found


def predicted(happened: Happened, asked: Sequence[str]) -> list[Answer] | None:
    """Returns the answers of a what-if about each of the settings in `asked`. Returns None if the group can't be
    replayed."""
    try:
        workload = workload_of(happened.rows)
    except NotReplayableError:
        return None
    settings = [changed(workload.actual, each.split(",")) for each in asked]
    return answers(workload, settings, observed_of(happened.rows.rebalances))


def play(seed: int, setting: str) -> Happened:
    """Runs the workload of a seed under one of `SETTINGS` on the simulator."""
    recorders: list[_RecordingApplication] = []
    ends_ms: list[int] = []
    scenario = Scenario(name=f"what-if-{seed}", summary="", play=partial(_play, recorders, ends_ms, SETTINGS[setting]))
    simulation = prepare(scenario, seed, 1)
    simulation.run(max(ends_ms))
    outputs = simulation.take(is_last=True)
    (group,) = groups_in(simulation, outputs.batches, outputs.events)
    since_ms = BEGAN_AT_MS + round(SETTLED_MINUTES * 60_000)
    ups = [(start, end) for each in recorders for start, end in each.ups(simulation.now_ms)]
    held = {unit: [*spans] for unit, spans in _held(recorders, simulation.now_ms).items()}
    rows = group_rows(ledger_of(group).rows, since_ms, simulation.now_ms)
    return Happened(rows, stopped_s(held, ups, since_ms, simulation.now_ms))


def group_rows(tables: Mapping[str, Sequence[Mapping[str, Any]]], since_ms: int, until_ms: int) -> WhatIfRows:
    """Returns the rows of a fold in the form in which a question reads them: with instants instead of microseconds."""
    since, until = instant_of_ms(since_ms), instant_of_ms(until_ms)
    rows = {
        table: [{name: _instant(name, value) for name, value in row.items()} for row in tables[table]]
        for table in ("members", "generations", "rebalances", "assignments")
    }
    within = [row for row in rows["rebalances"] if since <= row["happened_at"] < until]
    return WhatIfRows(
        members=rows["members"],
        generations=rows["generations"],
        rebalances=within,
        assignments=rows["assignments"],
        since=since,
        until=until,
    )


def _instant(name: str, value: Any) -> Any:
    is_time = name.endswith("_at") or name in {"valid_from", "valid_to"}
    return instant_of_us(value) if is_time and isinstance(value, int) else value


def stopped_s(held: Mapping[Any, Iterable[Span]], ups: Iterable[Span], since_ms: int, until_ms: int) -> float:
    """Returns the partition-seconds in which a partition had no owner although some process was up. `held` has the
    times in which each partition had an owner, `ups` those in which each process was up."""
    up = _merged(ups, since_ms, until_ms)
    total = 0
    for spans in held.values():
        owned = _merged(spans, since_ms, until_ms)
        both = sum(max(0, min(b, d) - max(a, c)) for a, b in up for c, d in owned)
        total += sum(b - a for a, b in up) - both
    return total / 1_000


def _merged(spans: Iterable[Span], since: int, until: int) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted((max(a, since), min(b, until)) for a, b in spans if b > since and a < until):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


class _RecordingApplication(Application):
    """An application that records when it was up, and when it had which partitions."""

    def __init__(self, *arguments: Any, recorders: list[_RecordingApplication], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._up_since: int | None = None
        self._up: list[Span] = []
        self._owned: dict[TopicPartition, int] = {}
        self.held: dict[TopicPartition, list[Span]] = defaultdict(list)
        recorders.append(self)

    def ups(self, now_ms: int) -> list[Span]:
        return [*self._up, *([] if self._up_since is None else [(self._up_since, now_ms)])]

    def start(self, **changes: Any) -> None:
        super().start(**changes)
        self._up_since = self.simulation.now_ms

    def close(self) -> None:
        self._is_down()
        super().close()

    def crash(self) -> None:
        self._is_down()
        self.ends_all(self.simulation.now_ms)
        super().crash()

    def ends_all(self, now_ms: int) -> None:
        for unit, since in self._owned.items():
            self.held[unit].append((since, now_ms))
        self._owned.clear()

    def _is_down(self) -> None:
        if self._up_since is not None:
            self._up.append((self._up_since, self.simulation.now_ms))
            self._up_since = None

    def _notice(self, event: ConsumerEvent) -> None:
        super()._notice(event)
        if isinstance(event, Joined):
            self._owned = dict.fromkeys(event.assignment, event.happened_at_ms) | self._owned
        elif isinstance(event, Revoked | Lost):
            for unit in event.partitions:
                since = self._owned.pop(unit, None)
                if since is not None:
                    self.held[unit].append((since, event.happened_at_ms))


def _held(recorders: Iterable[_RecordingApplication], now_ms: int) -> dict[TopicPartition, list[Span]]:
    held: dict[TopicPartition, list[Span]] = defaultdict(list)
    for each in recorders:
        each.ends_all(now_ms)
        for unit, spans in each.held.items():
            held[unit] += spans
    return held


def _play(recorders: list[_RecordingApplication], ends_ms: list[int], config: Mapping[str, Any], group: Script) -> None:
    source = group.source.source("what-if")
    group.processing_ms = PROCESSING_MS
    topic = group.topic("orders", source.between(6, 24), RECORDS_PER_MINUTE)
    kind: Any = partial(_RecordingApplication, recorders=recorders)
    count = source.between(2, 6)
    applications = group.deploy(count + 2, [topic], kind=kind, fetch_max_wait_ms=FETCH_MAX_WAIT_MS, **config)
    group.start(applications[:count])
    for minutes, what, number, down_s in befalls(source, count):
        _plan(group, applications[number], minutes, what, down_s)
        ends_ms.append(group.began_at_ms + round((minutes + down_s / 60 + ENDS_MINUTES) * 60_000))


def _plan(group: Script, application: Application, minutes: float, what: str, down_s: int) -> None:
    if what == "start":
        group.plan(minutes, what, application.start, by=application)
    elif what in {"close", "restart"}:
        group.plan(minutes, what, application.close, by=application)
    else:
        group.plan(minutes, what, application.crash, by=application)
    if what in {"restart", "crash"}:
        group.plan(minutes + down_s / 60, what, application.start, by=application)


def befalls(source: RandomSource, count: int) -> Iterable[tuple[float, str, int, int]]:
    """Yields the events of a workload, each as the time in minutes, the action, the process, and for how many seconds
    the process is down."""
    minutes, running, spare = SETTLED_MINUTES + 1, list(range(count)), [count, count + 1]
    back: dict[int, float] = {}
    for _ in range(source.between(6, 14)):
        minutes += source.between(20, 400) / 60
        ready = [number for number in running if back.get(number, 0.0) < minutes]
        what = ("restart", "restart", "restart", "crash", "start", "close")[source.between(0, 5)]
        if what == "start" and spare:
            running.append(spare.pop())
            yield minutes, what, running[-1], 0
        elif what == "close" and len(ready) > 1 and len(running) > 1:
            running.remove(ready[0])
            yield minutes, what, ready[0], 0
        elif what in {"restart", "crash"} and ready:
            number = ready[source.between(0, len(ready) - 1)]
            down_s = source.between(2, 30) if what == "restart" else source.between(60, 240)
            back[number] = minutes + down_s / 60 + 1
            yield minutes, what, number, down_s
