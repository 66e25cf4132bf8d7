"""Reads the clock of this machine, as integers: a Python datetime in the host's zone is ambiguous once a year."""

from __future__ import annotations

import time

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def now_ms() -> int:
    """Returns the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def uptime_ms() -> int:
    """Returns the milliseconds since the machine was started, by a clock that nobody can set. If the system has
    CLOCK_BOOTTIME, the time in which the machine sleeps counts, too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def began_ms() -> int:
    """Returns when the machine was started, in milliseconds since the epoch, by its present clock. If the clock is set,
    the result changes by as much, so two results of one process show by how much the clock was set in between."""
    return now_ms() - uptime_ms()
