"""The clock of this machine, as integers: a Python datetime of the host's zone is ambiguous once a year."""

from __future__ import annotations

import time

DAY_MS = 86_400_000


def now_ms() -> int:
    """Returns the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
