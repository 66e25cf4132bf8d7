"""Handles signals: how a job learns that it has to stop, and how its process ends then, whatever it is doing.

- A job that has to finish something uses `StopOnSignal`, and checks its event. Every other command is interrupted by an
  exception, so that it can release its resources. The exception is SystemExit, since py4j's client prints two
  tracebacks for a KeyboardInterrupt.
- Both have `END_WITHIN_S` seconds; then, or at a second signal, the process exits at once. That is like a kill, which
  loses and repeats nothing (docs/promises.md), so no work needs a time limit of its own.
- The exit code names the signal, also for commands that run for ever: the caller learns that it was stopped, and by
  which signal.

Python runs a handler in the main thread only, between two of its own steps, and delta-rs may work for long within one
step. So a thread waits for signals: it reads their numbers from the socket of `set_wakeup_fd`, to which the system's
handler writes at once.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ENDED_BY_A_SIGNAL = 128
"""The exit code of a process that a signal ended is this number plus the signal's, as in shells: 130 for SIGINT, 143
for SIGTERM."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Design section 5 gives a command 15 s; a JVM needs one or two of them to follow.
END_WITHIN_S = 13.0
# `timeout` signals its child, and then the group that the child is in: that is one wish.
SAME_WISH_S = 0.3


class StopOnSignal:
    """A context manager that yields an event, which SIGTERM and SIGINT set. The job then abandons a running batch,
    which the next run reads again. After the block the process ends with the exit code of the signal."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._number = 0

    def __enter__(self) -> threading.Event:
        self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self.event

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._number and kind is None:
            raise SystemExit(ENDED_BY_A_SIGNAL + self._number)

    def _on_signal(self, number: int, _: object) -> None:
        self._number = number
        self.event.set()


@contextmanager
def ending_in_time(say: Callable[[str], None]) -> Iterator[None]:
    """Ends the process if the block has not ended `END_WITHIN_S` seconds after SIGTERM or SIGINT, or when a second
    signal comes. Unless the block handles these signals itself, the first one interrupts the block by SystemExit."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread of a process can set signal handlers
        return
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    before = {number: signal.signal(number, _break_off) for number in SIGNALS}
    previous_fd = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(receiving, say), name="signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        sending.close()
        watcher.join()
        receiving.close()


@contextmanager
def signals_wait() -> Iterator[None]:
    """Delays the signals that end a command until the end of the block, and restores their handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread of a process can set signal handlers
        return
    came: list[signal.Signals] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(signal.Signals(number))) for number in SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        # Also if the block raised: a signal to the whole process group may be why.
        for each in came:
            handler = before[each]
            if callable(handler):
                handler(each, None)  # raised once more, it would be taken for a second one, which ends at once
            else:
                signal.raise_signal(each)


def _break_off(number: int, _: FrameType | None) -> None:
    raise SystemExit(ENDED_BY_A_SIGNAL + number)


def _watch(receiving: socket.socket, say: Callable[[str], None]) -> None:
    number = _next_signal(receiving, None)
    if number is None:
        return
    began_s = time.monotonic()
    try:
        while (left_s := began_s + END_WITHIN_S - time.monotonic()) > 0:
            if _next_signal(receiving, left_s) is None:
                return
            if time.monotonic() - began_s > SAME_WISH_S:
                break
    except TimeoutError:
        pass
    say("groupledger: ended at once; the next run continues from what is written.")
    os._exit(ENDED_BY_A_SIGNAL + number)


def _next_signal(receiving: socket.socket, seconds: float | None) -> int | None:
    """Returns the next signal that is to end the process, None when the block has ended. Raises TimeoutError if neither
    comes in time."""
    while True:
        receiving.settimeout(seconds)
        number = receiving.recv(1)
        if not number:
            return None
        if number[0] in SIGNALS:
            return number[0]
