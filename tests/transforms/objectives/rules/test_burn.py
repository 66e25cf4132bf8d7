"""Goal: budget and burn rates are those of the known minutes, and alerts need both of their windows."""

from __future__ import annotations

import pytest

from groupledger.schemas.words import Burning
from groupledger.transforms.objectives.rules.burn import (
    ALERTS,
    BURN_WINDOWS,
    MinuteCounts,
    burn_rate,
    burning,
    standing,
)
from groupledger.transforms.objectives.rules.minutes import Objective

OBJECTIVE = Objective(name="o", lag_s=60, target_percent=99, window_days=30)
NOTHING = dict.fromkeys(BURN_WINDOWS, MinuteCounts())


def test_a_budget() -> None:
    """Goal: 200 of 20,000 known minutes may be late; unknown minutes are neither late nor on time, and are counted
    apart."""
    found = standing(OBJECTIVE, MinuteCounts(19_950, 50), NOTHING)
    assert (found.minutes_on_time, found.minutes_late, found.minutes_unknown) == (19_950, 50, 23_200)
    assert found.attained_percent == pytest.approx(99.75)
    assert (found.budget_minutes, found.budget_left_minutes) == pytest.approx((200, 150))
    assert found.budget_left_percent == pytest.approx(75)


def test_an_overspent_budget() -> None:
    assert standing(OBJECTIVE, MinuteCounts(9_700, 300), NOTHING).budget_left_percent == pytest.approx(-200)


def test_nothing_known() -> None:
    """Goal: without a known minute there is no verdict, neither good nor bad."""
    found = standing(OBJECTIVE, MinuteCounts(), NOTHING)
    assert found.minutes_unknown == OBJECTIVE.minutes
    assert found.attained_percent is found.budget_minutes is found.budget_left_percent is None
    assert {*found.burn_rates.values()} == {None}
    assert found.burning == Burning.UNKNOWN


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        (MinuteCounts(60, 0), 0),
        (MinuteCounts(0, 60), 100),
        (MinuteCounts(45, 15), 25),
        (MinuteCounts(20, 0), 0),
        (MinuteCounts(10, 10), 50),
        (MinuteCounts(0, 19), None),
        (MinuteCounts(19, 0), None),
    ],
)
def test_a_burn_rate(counts: MinuteCounts, rate: float | None) -> None:
    """Goal: a burn rate needs a third of the hour to be known."""
    found = burn_rate(counts, 60, OBJECTIVE)
    assert found == (None if rate is None else pytest.approx(rate))


@pytest.mark.parametrize("alert", ALERTS, ids=[each.burning for each in ALERTS])
def test_both_windows_have_to_burn(alert: tuple[str, str, str, float]) -> None:
    """Goal: an outage that is over, and one that has just begun, alert nobody."""
    name, long, short, rate = alert
    quiet: dict[str, float | None] = dict.fromkeys(BURN_WINDOWS, 0.0)
    assert burning({**quiet, long: rate, short: rate}) == name
    assert burning({**quiet, long: rate}) == Burning.NO
    assert burning({**quiet, short: rate}) == Burning.NO
    assert burning({**quiet, long: rate, short: None}) == (Burning.UNKNOWN if alert is ALERTS[0] else Burning.NO)
