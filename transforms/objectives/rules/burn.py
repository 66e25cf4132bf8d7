"""Computes from the minutes of a window how an objective is met: attainment, the budget that is left, and burn rates.

The budget is the part of the known minutes that may be late. A burn rate is how many times faster than allowed a window
was late: at 1 the budget lasts exactly as long as the objective's window. Unknown minutes are left out. If fewer than a
third of a window's minutes are known, its burn rate is unknown, because few minutes would weigh too much.

Alerts are those of the multi-window, multi-burn-rate method of Google's *Site Reliability Workbook* (chapter 5): a long
window shows that enough of the budget was used, a short one that it is still being used. With an objective over 30
days, a burn rate of 14.4 over an hour uses 2% of the budget, one of 6 over six hours 5%, and one of 1 over three days
10%. A burn rate can't exceed 100 / (100 - target): an objective of less than 93.1% never burns fast, one of less than
83.4% not steadily, either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import Burning
from groupledger.transforms.objectives.rules.minutes import DAY_MINUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.transforms.objectives.rules.minutes import Objective

BURN_WINDOWS = {"5m": 5, "30m": 30, "1h": 60, "6h": 360, "3d": 3 * DAY_MINUTES}
"""The length in minutes of each window for which a burn rate is computed, by name."""
KNOWN_FRACTION_MIN = 1 / 3


class BurnAlert(NamedTuple):
    """Holds an alert: the speed of burning that it means, its long and its short window, and the burn rate that both
    windows have to reach."""

    burning: str
    long: str
    short: str
    burn_rate: float


ALERTS = (
    BurnAlert(Burning.FAST, "1h", "5m", 14.4),
    BurnAlert(Burning.STEADILY, "6h", "30m", 6.0),
    BurnAlert(Burning.SLOWLY, "3d", "6h", 1.0),
)


class MinuteCounts(NamedTuple):
    """How many minutes of a window were on time, and late; the others are unknown."""

    on_time: int = 0
    late: int = 0

    @property
    def known(self) -> int:
        return self.on_time + self.late


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveStanding:
    """Holds how well a group meets an objective. Minutes and percentages are of the objective's window; None is
    unknown. `budget_left_percent` is below 0 if the budget is overspent. `burn_rates` are by window."""

    minutes_on_time: int
    minutes_late: int
    minutes_unknown: int
    attained_percent: float | None
    budget_minutes: float | None
    budget_left_minutes: float | None
    budget_left_percent: float | None
    burn_rates: Mapping[str, float | None]
    burning: str


def standing(objective: Objective, whole: MinuteCounts, of_windows: Mapping[str, MinuteCounts]) -> ObjectiveStanding:
    """Returns how well a group meets an objective. `whole` counts the minutes of the objective's window, and
    `of_windows` those of each of `BURN_WINDOWS`."""
    budget = whole.known * objective.allowed if whole.known else None
    left = None if budget is None else budget - whole.late
    rates = {name: burn_rate(of_windows[name], minutes, objective) for name, minutes in BURN_WINDOWS.items()}
    return ObjectiveStanding(
        minutes_on_time=whole.on_time,
        minutes_late=whole.late,
        minutes_unknown=objective.minutes - whole.known,
        attained_percent=100 * whole.on_time / whole.known if whole.known else None,
        budget_minutes=budget,
        budget_left_minutes=left,
        budget_left_percent=None if budget is None or left is None else 100 * left / budget,
        burn_rates=rates,
        burning=burning(rates),
    )


def burn_rate(counts: MinuteCounts, minutes: int, objective: Objective) -> float | None:
    """Returns the burn rate of a window of so many minutes; None if too few of them are known."""
    if counts.known < minutes * KNOWN_FRACTION_MIN:
        return None
    return counts.late / counts.known / objective.allowed


def burning(rates: Mapping[str, float | None]) -> str:
    """Returns how fast the budget burns: the speed of the first of ALERTS whose two windows both reach its burn rate;
    `no` if there is none, and `unknown` if the rates of the fastest alert are not known."""
    for each in ALERTS:
        long, short = rates[each.long], rates[each.short]
        if long is not None and short is not None and min(long, short) >= each.burn_rate:
            return each.burning
    first = ALERTS[0]
    return Burning.UNKNOWN if None in (rates[first.long], rates[first.short]) else Burning.NO
