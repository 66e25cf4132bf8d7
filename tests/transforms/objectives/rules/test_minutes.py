"""Goal: a minute is on time only where that is known, late where that is known, and unknown else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupledger.schemas.words import LagFlag, MinuteState
from groupledger.transforms.lag.rules import Circumstances, GroupPartition, LagRow, LagRules, lag_row
from groupledger.transforms.objectives.rules.minutes import round_state, worst

LIMIT_S = 60.0
ON_TIME, UNKNOWN, LATE = MinuteState.ON_TIME, MinuteState.UNKNOWN, MinuteState.LATE


def row(seconds: float | None, *flags: str, bound: bool = False) -> LagRow:
    """A partition whose next record is so old, or older if that is a bound."""
    nothing = lag_row(GroupPartition("g", "t", 0), None, None, Circumstances(sampled_at_ms=0), LagRules())
    return replace(nothing, lag_seconds=seconds, lag_seconds_lower_bound=seconds if bound else None, flags=flags)


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([row(0.0)], ON_TIME),
        ([row(59.9)], ON_TIME),
        ([row(60.0)], LATE),
        ([row(None)], UNKNOWN),
        ([row(59.9, bound=True)], UNKNOWN),
        ([row(60.0, bound=True)], LATE),
        ([row(5.0, LagFlag.STALE_SAMPLE)], UNKNOWN),
        ([row(90.0, LagFlag.STALE_SAMPLE)], LATE),
        ([row(5.0, LagFlag.HIDDEN_COMMITS)], ON_TIME),
        ([row(90.0, LagFlag.HIDDEN_COMMITS)], UNKNOWN),
        ([row(0.0), row(None)], UNKNOWN),
        ([row(90.0), row(None)], LATE),
        ([row(0.0), row(900.0, LagFlag.UNSUBSCRIBED)], ON_TIME),
        ([row(900.0, LagFlag.UNSUBSCRIBED)], None),
        ([], None),
    ],
)
def test_a_round(rows: list[LagRow], state: str | None) -> None:
    assert round_state(rows, LIMIT_S) == state


def test_a_minute_is_as_its_worst_round() -> None:
    assert worst([ON_TIME, UNKNOWN]) == UNKNOWN
    assert worst([ON_TIME, LATE, UNKNOWN]) == LATE
    assert worst([ON_TIME, ON_TIME]) == ON_TIME
