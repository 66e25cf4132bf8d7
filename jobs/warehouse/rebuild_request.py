"""Keeps the request to rebuild the history: `_groupledger/<cluster>/rebuild_request.json`.

A job that changes rows of `coordinator_records` which the history may have folded already leaves the request; the next
pass of the history rebuilds, and then removes it. A request that came while a rebuild was under way has another text,
and stays.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.storage import Storage


def request_rebuild(storage: Storage, cluster: str, reason: str, records_version: int) -> None:
    """Asks for a rebuild from `coordinator_records` as they are in a version of that table, or a later one."""
    request = {"reason": reason, "records_version": records_version}
    storage.write(_name(cluster), json.dumps(request))


def is_requested(storage: Storage, cluster: str) -> bool:
    """Returns whether the next pass of the history rebuilds."""
    return storage.read(_name(cluster)) is not None


def rebuild_request(ledger: Ledger) -> str | None:
    """Returns the text of the request, or None if there is none."""
    return ledger.storage.read(_name(ledger.cluster))


def remove_request(ledger: Ledger, request: str | None) -> None:
    """Removes the request that a finished rebuild has answered, and no later one."""
    if request is not None and rebuild_request(ledger) == request:
        ledger.storage.delete(_name(ledger.cluster))


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/rebuild_request.json"
