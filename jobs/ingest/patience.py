"""Retries questions to brokers that don't answer, in the middle of a micro-batch.

The answers decide whether the batch may be written. So the batch waits for them, and is abandoned when the command has
to stop: the next run reads it again.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, TypeVar

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from groupledger.jobs.warehouse.ledger import Ledger

RETRY_S = 1
Answer = TypeVar("Answer")


class BatchGivenUpError(OutsideError):
    """The command was stopped while a micro-batch waited for brokers."""


class SettledError(OutsideError):
    """The brokers have answered with a final error, so that asking again would change nothing."""


def until_answered(
    ask: Callable[[], Answer], wish: str, ledger: Ledger, stop: threading.Event, wait_s_max: float = math.inf
) -> Answer:
    """Calls `ask` until it raises no OutsideError, and returns its answer. Reports once that it waits; `wish` says in
    words what it waits to learn.

    Raises BatchGivenUpError once `stop` is set, SettledError at once if `ask` raises it, and OutsideError if the lease
    is lost, or if the brokers have not answered for `wait_s_max` seconds.
    """
    began_s = time.monotonic()
    has_said = False
    while not stop.is_set():
        ledger.lease.check()
        try:
            return ask()
        except SettledError:
            raise
        except OutsideError as error:
            if time.monotonic() - began_s > wait_s_max:
                raise
            if not has_said:
                ledger.warn(f"waiting to learn {wish}: {error}")
                has_said = True
        stop.wait(RETRY_S)
    raise BatchGivenUpError(f"The command was stopped while it waited to learn {wish}: run it again.")
