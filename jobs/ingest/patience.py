"""Asks brokers again that don't answer, in the middle of a micro-batch.

What is asked there decides whether the batch may be kept. So a batch waits for its answers, and is given up when the
command is to stop: it is read again by the next run.
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
    """The brokers have answered, and asking again would change nothing."""


def until_answered(
    ask: Callable[[], Answer], wish: str, ledger: Ledger, stop: threading.Event, wait_s_max: float = math.inf
) -> Answer:
    """Returns what `ask` returns as soon as it raises no OutsideError, and reports once that it waits, with the `wish`.

    Raises BatchGivenUpError once `stop` is set, and OutsideError if the lease is lost, or when the brokers have not
    answered for `wait_s_max` seconds.
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
