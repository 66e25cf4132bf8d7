"""Logs one line for one kind of trouble within a while, however often it happens: otherwise anybody who can send bytes
could fill the disk with a log.

A kind is a text of ours, or of a library, before data is inserted, so there are few kinds. The next line of a kind has
the number of lines that were suppressed before it.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.process.output import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERY_S = 60.0
KINDS_MAX = 256
OTHER = "other"
# Libraries whose warnings are heard: asyncio and uvicorn about their clients, kafka-python about brokers.
SERVER_LOGGERS = ("uvicorn.error", "asyncio")
KAFKA_LOGGERS = ("kafka",)
KAFKA_EVENT_LOOP_LOGGER = "kafka.net.selector"


@dataclass(slots=True)
class Troubles:
    """Remembers, for each kind of trouble, when a line was last logged, and how many lines were suppressed since."""

    _said: dict[str, tuple[float, int]] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def line(self, kind: str, text: str, now: float) -> str | None:
        """Returns the line to log for a trouble; None if its kind was logged recently."""
        with self._one:
            if kind not in self._said and len(self._said) >= KINDS_MAX:
                kind = OTHER
            last, held_back = self._said.get(kind, (-EVERY_S, 0))
            if now - last < EVERY_S:
                self._said[kind] = last, held_back + 1
                return None
            self._said[kind] = now, 0
        return f"{text} ({held_back:,} more of this kind since the last line)" if held_back else text


EVERY = Troubles()


def log_trouble(kind: str, text: str) -> None:
    """Logs a trouble, unless its kind was logged recently."""
    line = EVERY.line(kind, text, time.monotonic())
    if line is not None:
        warn(line)


class LibraryLogHandler(logging.Handler):
    """Receives the log lines of a library, and logs them with the library's name, `whose`. `with_traces` says whether
    errors have a traceback, which they need only if they are a fault of ours; an unreachable broker is not."""

    def __init__(self, whose: str, *, with_traces: bool) -> None:
        super().__init__(logging.WARNING)
        self._whose = whose
        self._with_traces = with_traces

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        text = self.format(record).strip() if self._with_traces else f"{record.getMessage()} {error}".strip()
        log_trouble(f"{record.name} {record.msg} {error}", f"{self._whose}: {text}")


def listen_to_server() -> None:
    """Passes the log lines of the server's libraries to `log_trouble`, and to nothing else."""
    _listen(SERVER_LOGGERS, "groupledger's server", with_traces=True)


def listen_to_kafka() -> None:
    """Sends the warnings of kafka-python to `log_trouble`, except those of its event loop: a step that took longer than
    0.1 s shows a busy machine, and nobody can act on it."""
    _listen(KAFKA_LOGGERS, "kafka-python", with_traces=False)
    logging.getLogger(KAFKA_EVENT_LOOP_LOGGER).setLevel(logging.ERROR)


def _listen(names: Sequence[str], whose: str, *, with_traces: bool) -> None:
    for name in names:
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        if not any(isinstance(each, LibraryLogHandler) for each in logger.handlers):
            logger.addHandler(LibraryLogHandler(whose, with_traces=with_traces))
