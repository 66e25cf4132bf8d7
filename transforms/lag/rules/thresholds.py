"""Holds the limits that a user can set: when a number is too old, when a status is raised. The settings file has the
defaults."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BurrowRules:
    """The settings of Burrow's rules, with Burrow's own names and defaults (`min_distance_ms` in milliseconds)."""

    intervals: int = 10
    minimum_complete: float = 0.0
    allowed_lag: int = 0
    min_distance_ms: int = 0


@dataclass(frozen=True, slots=True)
class StatusRules:
    """The limits above which a status is raised.

    The slope is taken over `window_ms`. A partition is at a standstill after `standstill_ms` with lag and no progress,
    or after three times its own interval of commits if that is longer. Lag is growing if over the window it grew by
    `growth_records_min` and by `growth_fraction_min` of its mean.
    """

    window_ms: int = 600_000
    standstill_ms: int = 120_000
    growth_records_min: int = 10
    growth_fraction_min: float = 0.1


@dataclass(frozen=True, slots=True)
class LagRules:
    """Holds all limits for lag and status. If the newest watermark is older than `watermark_age_max_ms`, the lag is
    unknown."""

    watermark_age_max_ms: int = 300_000
    burrow: BurrowRules = field(default_factory=BurrowRules)
    status: StatusRules = field(default_factory=StatusRules)
