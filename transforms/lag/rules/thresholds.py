"""What a user can set: when a number is too old, and when a status is raised. The settings file has the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BurrowRules:
    """As Burrow's own configuration names and defaults them (`min_distance_ms` in milliseconds)."""

    intervals: int = 10
    minimum_complete: float = 0.0
    allowed_lag: int = 0
    min_distance_ms: int = 0


@dataclass(frozen=True, slots=True)
class StatusRules:
    """`window_ms` is what the slope is taken over. A partition is at a standstill after `standstill_ms` with lag and no
    progress, or three times its own rhythm of commits if that is longer. Lag grows if over the window it grew by
    `growth_records_min` and by `growth_fraction_min` of its mean."""

    window_ms: int = 600_000
    standstill_ms: int = 120_000
    growth_records_min: int = 10
    growth_fraction_min: float = 0.1


@dataclass(frozen=True, slots=True)
class LagRules:
    """A watermark older than `watermark_age_max_ms` is none."""

    watermark_age_max_ms: int = 300_000
    burrow: BurrowRules = field(default_factory=BurrowRules)
    status: StatusRules = field(default_factory=StatusRules)
