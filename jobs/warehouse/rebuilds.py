"""Keeps notes (`jobs.warehouse.notes`) about rebuilds of the history.

`rebuild_request`: a job asks for a rebuild when it changes rows of `coordinator_records` that the history may already
have folded. The next pass of the history makes the rebuild, and then notes in `rebuild_answer` which request it has
answered. A request that came during a rebuild is a new one, and stays open.

`rebuild`: the versions of the history's tables when a rebuild began. While this note exists, some of these tables may
be those before the rebuild, and others those after it. `rebuild_units` says how far a large one is.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.notes import read_note, take_back, write_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage

REQUEST, ANSWER, VERSIONS = "rebuild_request", "rebuild_answer", "rebuild"
REMEDY = "move it out of the warehouse and run `groupledger history --rebuild`"


def request_rebuild(storage: Storage, lease: Lease, reason: str, records_version: int) -> None:
    """Requests a rebuild of the history from `coordinator_records`, in the version `records_version` of that table or a
    later one."""
    request = {"reason": reason, "records_version": records_version, "id": uuid.uuid4().hex}
    write_note(storage, lease, REQUEST, json.dumps(request))


def is_requested(storage: Storage, cluster: str) -> bool:
    """Returns whether a rebuild is requested, which the next pass of the history will make."""
    return rebuild_request(storage, cluster) is not None


def rebuild_request(storage: Storage, cluster: str) -> str | None:
    """Returns the text of the open request for a rebuild; None if no request is open."""
    request = read_note(storage, cluster, REQUEST, str, REMEDY)
    return None if request == read_note(storage, cluster, ANSWER, str, REMEDY) else request


def answer_request(storage: Storage, lease: Lease, request: str | None) -> None:
    """Notes that a finished rebuild has answered `request`; a later request stays open. Does nothing if `request` is
    None."""
    if request is not None:
        write_note(storage, lease, ANSWER, request)


def is_unfinished(storage: Storage, cluster: str) -> bool:
    """Returns whether a rebuild was begun but not finished."""
    return read_note(storage, cluster, VERSIONS, str, REMEDY) is not None


def versions_before(storage: Storage, cluster: str) -> dict[str, int]:
    """Returns the versions of the tables, by name, when the unfinished rebuild began; an empty dict if no rebuild is
    unfinished."""
    return read_note(storage, cluster, VERSIONS, _parsed_versions, REMEDY) or {}


def _parsed_versions(text: str) -> dict[str, int]:
    return {str(name): int(version) for name, version in json.loads(text).items()}


def note_versions(storage: Storage, lease: Lease, versions: Mapping[str, int]) -> None:
    write_note(storage, lease, VERSIONS, json.dumps(dict(versions)))


def remove_versions(storage: Storage, lease: Lease) -> None:
    """Empties the note of `note_versions`, because the rebuild is finished and all tables are those of one history
    again."""
    take_back(storage, lease, VERSIONS)
