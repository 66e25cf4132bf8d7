"""Keeps Python's collector of circles away from work that makes objects by the hundred thousand, none of them in a
circle: it looks at each again and again, for a fifth of the time of such work."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_rests() -> Iterator[None]:
    """Lets the collector rest meanwhile, for all threads of the process. Of several at once the first to end lets it
    go on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
