"""Computes how a group would have behaved under another setting, and how reliable that is.

First the group's actual setting is simulated. The difference between the simulated and the observed figures is the
error of the replay; if it is above a limit, there is no answer. A small error for the actual setting does not prove a
small error for another one. So each answer is an interval: it covers several scripts that fit the ledger's rows, and is
widened by the error of the replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.protocols.world import WAKES_LATE_MS
from groupledger.coordinator.what_if.figures import FIGURES, NOTHING, Figures, figures
from groupledger.coordinator.what_if.setting import CONSUMER
from groupledger.coordinator.what_if.workload import RESTS_ON_TIMES, script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from groupledger.coordinator.what_if.setting import Setting
    from groupledger.coordinator.what_if.workload import Workload

# The replayed rebalances may differ from the observed ones by this share, or by one.
ERROR_MAX: Final = 0.2
RUNS: Final = 10
DEVIATIONS: Final = 2
# How far times are off that the simulation comes to, where the script is known: on brokers and on the simulator.
TIME_ERROR: Final = 0.1
TIMES: Final = frozenset({"stopped_partition_seconds", "records_processed_twice"})
SAME: Final = "The group has this setting already: there is nothing to compare."
ROUNDS: Final = 2  # each waits for all members' next heartbeats
# Whether members hear of a round together depends on how their hosts keep time, which no record has.
BUSY_LATE_MS: Final = 10
STEPS_MAX: Final = 4_000_000  # heartbeats of all runs of a group: some minutes


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float

    def wider(self, by: float, floor: float = 0.0) -> Interval:
        return Interval(max(floor, self.low - by), self.high + by)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureEstimate:
    """One figure: `observed` by the ledger (None if the ledger does not know it), `replayed` under the actual setting,
    simulated under the setting in question (`asked`), and what that setting would save (`spared`; below 0 it would cost
    more)."""

    observed: Interval | None
    replayed: Interval
    asked: Interval
    spared: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The effect of one setting. If there is no answer, `refusal` says why; otherwise it is None. `error` is the
    difference between the replayed and the observed number of rebalances, as a share of the observed one."""

    asked: Setting
    error: float | None
    figures: Mapping[str, FigureEstimate]
    refusal: str | None
    runs: int


def answers(workload: Workload, settings: Sequence[Setting], observed: Mapping[str, Interval | None]) -> list[Answer]:
    """Returns the answer for each setting. `observed` has an interval for each of FIGURES that the ledger knows. Raises
    ValueError if it has none for the rebalances."""
    run = _Runs(workload, [workload.actual, *settings])
    rebalances = observed["rebalances"]
    if rebalances is None:
        raise ValueError("rebalances are always observed")
    replayed = run.of(workload.actual)
    error = abs(median(each.rebalances for each in replayed) - rebalances.low)
    share = error / max(rebalances.low, 1.0)
    refusal = None
    if error > max(1.0, ERROR_MAX * rebalances.low):
        refusal = (
            f"The replay of the actual setting has {median(each.rebalances for each in replayed):.0f} rebalances where"
            f" {rebalances.low:.0f} were observed: something else than members and topics caused them."
        )
    answered = []
    for setting in settings:
        why = refusal or (SAME if setting == workload.actual else unknown_times(workload, setting))
        estimates = {} if why else _estimates(replayed, run.of(setting), observed, workload.records_per_second)
        answered.append(Answer(asked=setting, error=share, figures=estimates, refusal=why, runs=len(replayed)))
    return answered


def unknown_times(workload: Workload, asked: Setting) -> str | None:
    """Returns why a setting can't be judged: its effect depends on how long members were silent or busy, which records
    don't show. Returns None if it does not depend on that. Silences of members are known if there is a request log."""
    actual = workload.actual
    ends = {RESTS_ON_TIMES.get(each.end) for each in workload.tenures}
    for field, name in (("session_ms", "session.timeout.ms"), ("max_poll_interval_ms", "max.poll.interval.ms")):
        if field == "session_ms" and workload.silences is not None:
            continue
        before, after = getattr(actual, field), getattr(asked, field)
        if after < before:
            return f"A shorter {name} rests on how often members were silent for {after} ms, which no record shows."
        if after > before and field in ends and (actual.assigned_by == CONSUMER) == (asked.assigned_by == CONSUMER):
            return (
                f"A longer {name} rests on whether members that were removed after {before} ms would have been back"
                f" within {after} ms, which no record shows."
            )
    return None


class _Runs:
    """The runs of a group's scripts, each setting's once."""

    def __init__(self, workload: Workload, settings: Sequence[Setting]) -> None:
        self._workload = workload
        self._longest_ms = max(each.session_ms + ROUNDS * each.heartbeat_ms for each in settings)
        self._known: dict[Setting, list[Figures]] = {}
        self.count = self._affordable()

    def of(self, setting: Setting) -> list[Figures]:
        if setting not in self._known:
            self._known[setting] = list(self._play(setting))
        return self._known[setting]

    def _play(self, setting: Setting) -> Iterator[Figures]:
        for seed in range(1, self.count + 1):
            is_loose = seed % 2 == 0
            played = script(self._workload, seed, self._longest_ms, loosely=is_loose)
            if played is None:
                yield NOTHING
            else:
                found = figures(played, setting, seed, wakes_late_ms=BUSY_LATE_MS if is_loose else WAKES_LATE_MS)
                yield replace(found, rebalances=max(0, found.rebalances - self._workload.births))

    def _affordable(self) -> int:
        """Returns how many runs there are: fewer for a group whose runs are long, but never fewer than two."""
        played = script(self._workload, 1, self._longest_ms, loosely=False)
        if played is None:
            return 1
        members = max(1, len(played.members_at_start))
        steps = members * played.until_ms // self._workload.actual.heartbeat_ms
        return max(2, min(RUNS, STEPS_MAX // max(1, steps)))


def _estimates(
    replayed: Sequence[Figures],
    asked: Sequence[Figures],
    observed: Mapping[str, Interval | None],
    records_per_second: float | None,
) -> dict[str, FigureEstimate]:
    estimates = {}
    for name in FIGURES:
        scale = 1.0
        if name == "records_processed_twice":
            if records_per_second is None:
                continue
            scale = records_per_second
        was = [getattr(each, name) * scale for each in replayed]
        would = [getattr(each, name) * scale for each in asked]
        seen, off = observed.get(name), TIME_ERROR if name in TIMES else 0.0
        by = 0.0 if seen is None else _distance(median(was), seen)
        # Both figures of a pair come from the same script: what varies is what it leaves open.
        spared = [before - after for before, after in zip(was, would, strict=True)]
        estimates[name] = FigureEstimate(
            observed=seen,
            replayed=_interval(was),
            asked=_interval(would).wider(by + off * mean(would)),
            spared=_interval(spared, floor=-inf).wider(by + off * (mean(was) + mean(would)), floor=-inf),
        )
    return estimates


def _interval(values: Sequence[float], floor: float = 0.0) -> Interval:
    """Returns the range of the runs' values, widened to include where one more run would probably lie."""
    spread = DEVIATIONS * stdev(values) if len(values) > 1 else 0.0
    return Interval(max(floor, min([*values, mean(values) - spread])), max([*values, mean(values) + spread]))


def _distance(value: float, interval: Interval) -> float:
    return max(interval.low - value, value - interval.high, 0.0)
