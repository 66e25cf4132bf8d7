"""What every pass makes of the records that it has read: history, lag and incidents, each from the ones before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.history import update_history
from groupledger.jobs.incidents import update_incidents
from groupledger.jobs.lag import update_lag
from groupledger.jobs.worker import together

if TYPE_CHECKING:
    import threading

    from groupledger.jobs.ledger import Ledger


def derive(ledger: Ledger, stop: threading.Event) -> None:
    """Each step goes on from where it ended the last time; none is begun once told to stop."""
    if not stop.is_set():
        update_history(ledger, stop)
    if not stop.is_set():
        together(lambda: update_lag(ledger, stop), lambda: update_incidents(ledger))
