"""Follows the objectives of lag in a monitor: the minutes of each group that has one, and their metrics
(`groupledger_objective_*` of `metric_list`).

Each round is added to the minute that it lies in; no earlier round is read again (`transforms.objectives.rules.live`).
The minutes before the start are read once from the table `lag`, with the query of `groupledger objectives`. An unknown
value has no sample. `metrics.groups_max` limits the number of pairs of an objective and a group, as each takes a byte
for each minute of its window.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from groupledger.jobs.ask.objectives import WHOLE, known_runs
from groupledger.jobs.monitor.metric_list import listed
from groupledger.jobs.process.held_groups import objectives_by_group
from groupledger.jobs.process.selection import chosen_names
from groupledger.schemas.words import MinuteState
from groupledger.transforms.objectives.rules.burn import BURN_WINDOWS, standing
from groupledger.transforms.objectives.rules.live import LiveWindows
from groupledger.transforms.objectives.rules.minutes import MINUTE_MS, round_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.settings import Settings
    from groupledger.transforms.lag.rules import LagRow
    from groupledger.transforms.objectives.rules.burn import ObjectiveStanding
    from groupledger.transforms.objectives.rules.minutes import Objective


class LiveObjectives:
    """The objectives of a cluster's groups. A group is followed from its first round on, as long as a minute in its
    windows is known."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._objectives: dict[str, list[Objective]] = {}  # of every group that was seen
        self._windows: dict[tuple[str, str], tuple[Objective, LiveWindows]] = {}

    def restore(self, tables: ClusterRows, names: Collection[str], last_ms: int) -> None:
        """Reads the minutes up to the last round, at `last_ms`, from the tables. `names` may have groups that get no
        more rounds."""
        end = last_ms // MINUTE_MS
        self._learn(names)
        held = {name: self._objectives[name] for name in names if self._objectives[name]}
        for (objective, name), runs in known_runs(tables, held, end + 1).items():
            (each,) = (each for each in held[name] if each.name == objective)
            self._windows[objective, name] = (each, LiveWindows(_lengths(each), end, runs))

    def observe(self, sampled_at_ms: int, rows: Iterable[LagRow]) -> None:
        """Adds the rows of a round to its minute. The rows must be ordered by group, and rounds must come in the order
        of time."""
        if not self._settings.objectives:
            return
        minute = sampled_at_ms // MINUTE_MS
        by_group = {name: [*of_group] for name, of_group in groupby(rows, key=lambda row: row.group_id)}
        self._learn(by_group)
        for name, of_group in by_group.items():
            for each in self._objectives[name]:
                state = round_state(of_group, each.lag_s)
                windows = self._followed(name, each, minute)
                if state is not None and windows is not None:
                    windows.observe(minute, state)
        self.close_before(sampled_at_ms)

    def close_before(self, at_ms: int) -> None:
        """Completes the minutes before `at_ms`; minutes without a round are unknown. Drops the groups without
        a known minute."""
        for key, (_, windows) in [*self._windows.items()]:
            windows.close_before(at_ms // MINUTE_MS)
            if windows.knows_nothing:
                del self._windows[key]

    def standings(self) -> Iterator[tuple[Objective, str, ObjectiveStanding]]:
        """Yields objective, group and result, for each group and each of its objectives."""
        for (_, name), (objective, windows) in sorted(self._windows.items()):
            counts = windows.counts()
            yield objective, name, standing(objective, counts[WHOLE], counts)

    def _learn(self, names: Collection[str]) -> None:
        """Finds the objectives of groups that were never seen: patterns meet each name once."""
        new = {name for name in names if name not in self._objectives}
        if new:
            held = objectives_by_group(self._settings, chosen_names(self._settings.selection.groups, new))
            self._objectives |= {name: held.get(name, []) for name in new}

    def _followed(self, name: str, objective: Objective, minute: int) -> LiveWindows | None:
        known = self._windows.get((objective.name, name))
        if known is None and len(self._windows) < self._settings.metrics.groups_max:
            known = self._windows[objective.name, name] = (objective, LiveWindows(_lengths(objective), minute))
        return None if known is None else known[1]


def _lengths(objective: Objective) -> dict[str, int]:
    return {WHOLE: objective.minutes, **BURN_WINDOWS}


def objective_metrics(cluster: str, standings: Sequence[tuple[Objective, str, ObjectiveStanding]]) -> Iterator[Metric]:
    """Yields the metrics of all groups that have an objective."""
    by_group = [((cluster, objective.name, name), result) for objective, name, result in standings]
    minutes = (
        ((*labels, state), number)
        for labels, result in by_group
        for state, number in (
            (MinuteState.ON_TIME, result.minutes_on_time),
            (MinuteState.LATE, result.minutes_late),
            (MinuteState.UNKNOWN, result.minutes_unknown),
        )
    )
    yield listed("groupledger_objective_minutes", minutes)
    for name, values in (
        ("groupledger_objective_attained_ratio", [result.attained_percent for _, result in by_group]),
        ("groupledger_objective_budget_left_ratio", [result.budget_left_percent for _, result in by_group]),
    ):
        ratios = (None if value is None else value / 100 for value in values)
        samples = zip((labels for labels, _ in by_group), ratios, strict=True)
        yield listed(name, samples)
    rates = (((*labels, window), rate) for labels, result in by_group for window, rate in result.burn_rates.items())
    yield listed("groupledger_objective_burn_rate", rates)
    burning = (((*labels, result.burning), 1) for labels, result in by_group)
    yield listed("groupledger_objective_burning", burning)
    targets = {objective.name: objective.target_percent / 100 for objective, _, _ in standings}
    by_objective = (((cluster, name), target) for name, target in targets.items())
    yield listed("groupledger_objective_target_ratio", by_objective)
