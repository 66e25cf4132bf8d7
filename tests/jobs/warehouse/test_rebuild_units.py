"""Goal: the note about a rebuild in units counts for that rebuild alone, and nobody deletes tables aside that another
writer may use."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.first_fold import FirstFold
from groupledger.jobs.warehouse.readers import Reader, readers
from groupledger.jobs.warehouse.rebuild_units import (
    FOLDER,
    RebuildUnits,
    drop_aside,
    end_units,
    new_folder,
    note_units,
    unfinished_units,
)
from groupledger.jobs.warehouse.rebuilds import is_unfinished, note_versions, remove_versions
from groupledger.jobs.warehouse.storage import STATE_FOLDER, LocalStorage
from tests.jobs.warehouse.held_storage import HeldStorage
from tests.jobs.warehouse.test_commits import lease, taken
from tests.jobs.warehouse.test_deletions import end_lease

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage

ASIDE = f"{STATE_FOLDER}/c/{FOLDER}"


def begin(storage: Storage, held: Lease) -> RebuildUnits:
    """Begins a rebuild, whose folder has a file."""
    note_versions(storage, held, {"groups": 7})
    fold = FirstFold("t", folded={1: 20}, unit={2: 30}, record_count=9)
    units = RebuildUnits(fold, new_folder("c"), {"groups": 7}, {1: 4}, request="because", release="1")
    note_units(storage, held, units)
    storage.write(f"{units.folder}/groups/file", "")
    return units


def test_the_note(tmp_path: Path) -> None:
    """Goal: the note comes back as it was written, and its rebuild is a reader that has read nothing; it counts no more
    once the versions with which it began are removed or others, though a kill has left it there."""
    storage = LocalStorage(tmp_path)
    with lease(tmp_path) as held:
        units = begin(storage, held)
        assert unfinished_units(storage, "c") == units
        assert readers(storage) == [Reader("c", "history", "t", 0)]
        note_versions(storage, held, {"groups": 8})
        assert unfinished_units(storage, "c") is None
        remove_versions(storage, held)
        assert unfinished_units(storage, "c") is None
        assert readers(storage) == []


def test_folders(tmp_path: Path) -> None:
    """Goal: tables of earlier rebuilds go when another begins, and its own when it ends."""
    storage = LocalStorage(tmp_path)
    with lease(tmp_path) as held:
        begin(storage, held)
        units = begin(storage, held)
        drop_aside(storage, held)
        assert [f"{ASIDE}/{name}" for name in storage.names(ASIDE)] == [units.folder]
        end_units(storage, held)
        assert storage.names(ASIDE) == []
        assert not is_unfinished(storage, "c")


@pytest.mark.parametrize("is_end", [False, True])
def test_a_writer_that_slept(tmp_path: Path, *, is_end: bool) -> None:
    """Goal: a writer that begins or ends a rebuild, and sleeps at any call until another goes on with the rebuild in
    force, or begins one if there is none, deletes none of the other's tables."""
    calls = 0
    while True:
        root = tmp_path / str(calls)
        storage, in_use = HeldStorage(root), list[str]()
        with lease(root) as held:
            units = begin(storage, held)
            storage.hold(calls, partial(_succeed, root, in_use))
            with suppress(OutsideError):
                if is_end:
                    end_units(storage, held)
                else:
                    note_units(storage, held, replace(units, folder=new_folder("c")))
                    drop_aside(storage, held)
            storage.hold(-1, lambda: None)
        if not storage.has_slept:
            break
        assert storage.names(f"{in_use[0]}/groups") == ["file"]
        calls += 1
    assert calls > 1


def _succeed(warehouse: Path, in_use: list[str]) -> None:
    end_lease(warehouse)
    storage, held = LocalStorage(warehouse), taken(warehouse)
    units = unfinished_units(storage, "c") or begin(storage, held)
    note_units(storage, held, units)
    storage.write(f"{units.folder}/groups/file", "")
    in_use.append(units.folder)
