"""Pauses Python's cyclic garbage collector during work that makes hundreds of thousands of objects without cycles: it
would examine each of them again and again, for a fifth of the time of such work."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_rests() -> Iterator[None]:
    """Pauses the cyclic garbage collector during the block, for all threads of the process. If several blocks overlap,
    the first one to end resumes it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
