"""Keeps the note about a rebuild of the history in units, `rebuild_units` (`jobs.warehouse.notes`), and the folder of
the tables that it writes.

A large rebuild writes its units into tables aside, `_groupledger/<cluster>/rebuild_aside/<id>/<table>`, which no reader
looks for. The note says how far they are. It counts only beside the note of the versions with which the rebuild began
(`jobs.warehouse.rebuilds`): one that is left from a finished rebuild has other versions. While it counts, the rebuild
still needs the records, so that maintenance must not remove any.

A deletion has no token. So a folder gets a name that no other has, and is deleted only by a writer that finds its lease
in force after it has read the names and the note: a later writer goes on with the folder of the note, or begins one
that was not among the names.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.first_fold import parsed_fold
from groupledger.jobs.warehouse.notes import read_note, take_back, write_note
from groupledger.jobs.warehouse.rebuilds import REMEDY, remove_versions, versions_before
from groupledger.jobs.warehouse.storage import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.jobs.warehouse.first_fold import FirstFold
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage

NAME, FOLDER = "rebuild_units", "rebuild_aside"


@dataclass(frozen=True)
class RebuildUnits:
    """A rebuild in units: its progress, the folder of its tables, the versions of the old tables, and by partition the
    offset of the oldest record that was left when it began. `request` is the request that it answers, if it was
    requested, and `release` the release that folds."""

    fold: FirstFold
    folder: str
    versions: Mapping[str, int]
    retained_from: Mapping[int, int]
    request: str | None
    release: str


def new_folder(cluster: str) -> str:
    """Returns a name for the folder of a rebuild's tables, which no other rebuild has."""
    return f"{_folder(cluster)}/{uuid.uuid4().hex}"


def unfinished_units(storage: Storage, cluster: str) -> RebuildUnits | None:
    """Returns the progress of a rebuild in units that was begun and not finished; None if there is none."""
    found = read_note(storage, cluster, NAME, _parsed, REMEDY)
    return None if found is None or found.versions != versions_before(storage, cluster) else found


def note_units(storage: Storage, lease: Lease, units: RebuildUnits) -> None:
    write_note(storage, lease, NAME, json.dumps(asdict(units)))


def end_units(storage: Storage, lease: Lease) -> None:
    """Notes that the rebuild is finished, and deletes the tables aside. Does no harm if there are none."""
    remove_versions(storage, lease)
    take_back(storage, lease, NAME)
    drop_aside(storage, lease)


def drop_aside(storage: Storage, lease: Lease) -> None:
    """Deletes the tables of rebuilds that are over. Raises OutsideError if the lease is lost."""
    folders = [f"{_folder(lease.held)}/{name}" for name in storage.names(_folder(lease.held))]
    units = unfinished_units(storage, lease.held)  # after the names: a folder is noted before it is made
    lease.look()
    for folder in folders:
        if units is None or folder != units.folder:
            storage.delete_folder(folder)


def _folder(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/{FOLDER}"


def _parsed(text: str) -> RebuildUnits:
    fields: dict[str, Any] = json.loads(text)
    retained_from = {int(partition): offset for partition, offset in fields["retained_from"].items()}
    return RebuildUnits(**{**fields, "fold": parsed_fold(fields["fold"]), "retained_from": retained_from})
