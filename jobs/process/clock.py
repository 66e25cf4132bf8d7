"""Reads the clock of this machine, as integers: a Python datetime in the host's zone is ambiguous once a year."""

from __future__ import annotations

import time

DAY_MS = 86_400_000


def now_ms() -> int:
    """Returns the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def began_ms() -> int:
    """Returns when the machine began by its present clock. If the clock is set, the result changes by as much, so two
    results of one process show by how much it was set. Sleep counts, where the system has such a clock."""
    counting = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return now_ms() - time.clock_gettime_ns(counting) // 1_000_000
