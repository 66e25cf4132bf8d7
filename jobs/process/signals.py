"""How a job learns that it is to stop."""

from __future__ import annotations

import signal
import threading

ENDED_BY_A_SIGNAL = 128
"""As shells have it: 130 for SIGINT, 143 for SIGTERM."""


class StopOnSignal:
    """A context manager whose event is set by SIGTERM and SIGINT. A running batch is given up then, and read again by
    the next run.

    A job that `goes_on` until it is told to stop has done all that it should. Any other has not, and its process ends
    with the exit code that tells of the signal.
    """

    def __init__(self, *, goes_on: bool = False) -> None:
        self.event = threading.Event()
        self._goes_on = goes_on
        self._number = 0

    def __enter__(self) -> threading.Event:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self.event

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._number and kind is None and not self._goes_on:
            raise SystemExit(ENDED_BY_A_SIGNAL + self._number)

    def _on_signal(self, number: int, _: object) -> None:
        self._number = number
        self.event.set()
