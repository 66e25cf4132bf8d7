"""Ends a query that takes too long, in either engine."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def interrupted_after(timeout_s: float, interrupt: Callable[[], object]) -> Iterator[threading.Event]:
    """Calls `interrupt` if the block takes longer than `timeout_s` seconds. Yields an event that is set from then
    on."""
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        interrupt()

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        timer.join()


def too_late(timeout_s: float) -> InputError:
    return InputError(f"The query took longer than {timeout_s:g} s: ask for less, or give --timeout.")
