"""Judges a group's round and minute by an objective of lag: on time, late or unknown.

A partition is late if its next record to read is older than the objective allows (`lag_seconds`; a lower bound that is
too high is enough), and on time if the record is known not to be. It is unknown if `lag_seconds` is unknown, and in
these cases:

    a lower bound that is not too high    the record may be older
    `stale_sample`                        the end is of an earlier round: a record may wait that nobody has seen; but
                                          a record that was seen and is too old is too old now
    `hidden_commits`                      newer commits may be hidden: the lag may be lower than it seems

Partitions that the group no longer subscribes to do not count. A round is late if a partition is, and on time if all
are; a minute has the worst state of its rounds: late, else unknown, else on time. A minute without a round is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.words import LagFlag, MinuteState, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.row import LagRow

MINUTE_MS = 60_000
DAY_MINUTES = 1_440
MAY_BE_OLDER = (LagFlag.STALE_SAMPLE,)
"""Flags with which seconds that are low enough do not prove that a partition is on time."""
MAY_BE_YOUNGER = (LagFlag.HIDDEN_COMMITS,)
"""Flags with which seconds that are too high do not prove that a partition is late."""
STATES = words_of(MinuteState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Holds an objective: in `target_percent` of the minutes of `window_days`, the next record to read must be younger
    than `lag_s` seconds in each partition of the group."""

    name: str
    lag_s: float
    target_percent: float
    window_days: int

    @property
    def minutes(self) -> int:
        return self.window_days * DAY_MINUTES

    @property
    def allowed(self) -> float:
        """Returns the fraction of the minutes that may be late."""
        return (100 - self.target_percent) / 100


def round_state(rows: Iterable[LagRow], lag_s: float) -> str | None:
    """Returns the state of a round of one group: on time, late or unknown; None if none of its partitions counts."""
    return worst(_state(row, lag_s) for row in rows if LagFlag.UNSUBSCRIBED not in row.flags)


def worst(states: Iterable[str]) -> str | None:
    return max(states, key=STATES.index, default=None)


def _state(row: LagRow, lag_s: float) -> str:
    seconds = row.lag_seconds
    if seconds is None:
        return MinuteState.UNKNOWN
    if seconds >= lag_s:
        return MinuteState.UNKNOWN if _has(row, MAY_BE_YOUNGER) else MinuteState.LATE
    is_bound = row.lag_seconds_lower_bound is not None
    return MinuteState.UNKNOWN if is_bound or _has(row, MAY_BE_OLDER) else MinuteState.ON_TIME


def _has(row: LagRow, flags: Iterable[str]) -> bool:
    return any(flag in row.flags for flag in flags)
