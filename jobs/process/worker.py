"""Runs threads that are watched: their errors are raised in the main thread, and no thread runs on after a stop.

When a process has to end, `jobs.process.signals` limits the total time: a longer wait for a worker is cut off.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# After a signal the process has 13 s for all: most of it, since a cancelled job has to be done again.
STOP_SECONDS_MAX = 6
CANCEL_EVERY_S = 1


class Worker(threading.Thread):
    """A watched thread that runs `work`. `cancel` interrupts a call that the work waits for. If it is None, the work
    can't be cancelled, and `finish` waits for its end without a limit."""

    def __init__(self, name: str, work: Callable[[], object], cancel: Callable[[], None] | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._cancel = cancel
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - `check` raises it
            self._failure = error

    def check(self) -> None:
        """Raises the error of the work, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def finish(self, seconds: float) -> None:
        """Waits for the work. If it is not done within `seconds`, cancels it once a second until it ends, since it may
        begin further calls; the error by which it then ends is ignored."""
        self.join(None if self._cancel is None else seconds)
        if self._cancel is None or not self.is_alive():
            return
        while self.is_alive():
            self._cancel()
            self.join(CANCEL_EVERY_S)
        self._failure = None


@contextmanager
def working(stop: threading.Event, worker: Worker) -> Iterator[None]:
    """Starts a worker. At the end of the block sets `stop`, which the worker's work has to watch, waits for the worker,
    and raises its error."""
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.finish(STOP_SECONDS_MAX)
    worker.check()


def together(*steps: Callable[[], object]) -> None:
    """Runs all steps at once, each to its end. A step of Spark is a hundred small jobs that leave a core idle, with
    single-threaded planning between them. Raises the error of the first step that failed."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for future in [pool.submit(step) for step in steps]:
            future.result()
