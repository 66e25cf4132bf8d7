"""How a job learns that it is to stop."""

from __future__ import annotations

import signal
import threading


class StopOnSignal:
    """A context manager whose event is set by SIGTERM and SIGINT. A running batch is given up then, and read again by
    the next run."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __enter__(self) -> threading.Event:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self.event

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        self.event.set()
