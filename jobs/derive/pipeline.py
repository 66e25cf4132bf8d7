"""Derives history, lag, offset events and incidents from the records that a pass has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.lag import update_lag
from groupledger.jobs.derive.offset_events import update_offset_events

if TYPE_CHECKING:
    import threading

    from groupledger.jobs.warehouse.ledger import Ledger


def derive(ledger: Ledger, stop: threading.Event) -> None:
    """Runs all steps in order; each continues where it ended the last time, and reads the tables that earlier steps
    have written. Once `stop` is set, no further step begins."""
    if not stop.is_set():
        update_history(ledger, stop)
    if not stop.is_set():
        update_lag(ledger, stop)
    if not stop.is_set():
        update_offset_events(ledger)
    if not stop.is_set():
        update_incidents(ledger)
