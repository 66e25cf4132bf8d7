"""Keeps two small files about rebuilds of the history, below `_groupledger/<cluster>/`.

`rebuild_request.json`: a job that changes rows of `coordinator_records` which the history may have folded already asks
for a rebuild; the next pass of the history rebuilds, and then removes the request. One that came while a rebuild was
under way has another text, and stays.

`rebuild.json`: the versions of the tables when a rebuild began. While it exists, they are partly old and partly new.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        ledger.lease.check()
        ledger.storage.delete(_name(ledger.cluster))


def is_unfinished(storage: Storage, cluster: str) -> bool:
    """Returns whether a rebuild was begun and not finished."""
    return storage.read(_versions_name(cluster)) is not None


def versions_before(storage: Storage, cluster: str) -> dict[str, int]:
    """Returns the versions of the tables, by name, when the unfinished rebuild began; empty if there is none."""
    remedy = "remove it and run `groupledger history --rebuild`"
    return read_parsed(storage, _versions_name(cluster), _parsed_versions, remedy) or {}


def _parsed_versions(text: str) -> dict[str, int]:
    return {str(name): int(version) for name, version in json.loads(text).items()}


def note_versions(storage: Storage, cluster: str, versions: Mapping[str, int]) -> None:
    storage.write(_versions_name(cluster), json.dumps(dict(versions)))


def remove_versions(storage: Storage, cluster: str) -> None:
    """Says that the rebuild is finished: the tables are those of one history again."""
    storage.delete(_versions_name(cluster))


def _versions_name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/rebuild.json"


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/rebuild_request.json"
