"""Goal: a writer that slept changes no note of its successor, wherever it was held."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.notes import read_note, take_back, write_note
from groupledger.jobs.warehouse.rebuilds import (
    answer_request,
    is_requested,
    is_unfinished,
    note_versions,
    rebuild_request,
    remove_versions,
    request_rebuild,
    versions_before,
)
from groupledger.jobs.warehouse.storage import LocalStorage
from tests.jobs.warehouse.held_storage import HeldStorage
from tests.jobs.warehouse.test_commits import lease, taken
from tests.jobs.warehouse.test_deletions import end_lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from groupledger.jobs.warehouse.lease import Lease

OLD, NEW = {"lag": 1}, {"lag": 2}


WAYS: dict[str, Callable[[LocalStorage, Lease, str | None], object]] = {
    "note versions": lambda storage, held, _: note_versions(storage, held, OLD),
    "remove versions": lambda storage, held, _: remove_versions(storage, held),
    "request": lambda storage, held, _: request_rebuild(storage, held, "old", 1),
    "answer": answer_request,
    "take back": lambda storage, held, _: take_back(storage, held, "forget"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_writer_that_sleeps(tmp_path: Path, way: str) -> None:
    """Goal: whatever a sleeper was about to do to a note, the note stays as its successor wrote it."""
    calls = 0
    while True:
        warehouse = tmp_path / str(calls)
        storage = HeldStorage(warehouse)
        with lease(warehouse) as held:
            note_versions(storage, held, OLD)
            request_rebuild(storage, held, "before", 1)
            write_note(storage, held, "forget", "{}")
            request = rebuild_request(storage, "c")
            reported: list[Any] = []
            storage.hold(calls, partial(_succeed, warehouse, reported))
            with suppress(OutsideError):
                WAYS[way](storage, held, request)
            storage.hold(-1, _nothing)
        if not storage.has_slept:
            break
        assert versions_before(storage, "c") == NEW
        assert is_unfinished(storage, "c")
        assert rebuild_request(storage, "c") == reported[0]
        assert read_note(storage, "c", "forget", str, "") == "of the successor"
        calls += 1
    assert calls > 1


def _nothing() -> None:
    """What happens meanwhile once the caller has returned."""


def _succeed(warehouse: Path, requests: list[Any]) -> None:
    end_lease(warehouse)
    storage = LocalStorage(warehouse)
    held = taken(warehouse)
    note_versions(storage, held, NEW)
    request_rebuild(storage, held, "new", 2)
    write_note(storage, held, "forget", "of the successor")
    requests.append(rebuild_request(storage, "c"))


def test_a_note_that_was_taken_back_stays_so(tmp_path: Path) -> None:
    """Goal: a note that a sleeper writes after its successor has finished does not count."""
    storage = HeldStorage(tmp_path)
    with lease(tmp_path) as held:

        def finish() -> None:
            _succeed(tmp_path, [])
            end_lease(tmp_path)
            with lease(tmp_path) as last:
                remove_versions(LocalStorage(tmp_path), last)

        storage.hold(1, finish)  # at the write
        note_versions(storage, held, OLD)
    assert storage.has_slept
    assert not is_unfinished(storage, "c")


def test_one_file_is_left(tmp_path: Path) -> None:
    """Goal: the notes of earlier writers go, and those of an earlier release count until there is another."""
    storage = LocalStorage(tmp_path)
    storage.write("_groupledger/c/rebuild.json", '{"lag": 7}')
    storage.write("_groupledger/c/rebuild_request.json", "of an earlier release")
    assert versions_before(storage, "c") == {"lag": 7}
    for number in range(3):
        with lease(tmp_path) as held:
            if number == 0:
                answer_request(storage, held, rebuild_request(storage, "c"))
            note_versions(storage, held, OLD)
    assert not is_requested(storage, "c")
    assert [name for name in storage.names("_groupledger/c") if name.startswith("rebuild-")] == ["rebuild-3.json"]
    with lease(tmp_path) as held:
        remove_versions(storage, held)
        assert not is_unfinished(storage, "c")
        request_rebuild(storage, held, "again", 1)
        request_rebuild(storage, held, "again", 1)
    assert is_requested(storage, "c")


def test_a_chain_of_leases_that_was_removed(tmp_path: Path) -> None:
    """Goal: the notes of a new chain of leases count, and those of the chain before do not."""
    storage = LocalStorage(tmp_path)
    for _ in range(3):
        with lease(tmp_path) as held:
            note_versions(storage, held, OLD)
    for name in storage.names("_groupledger/c/lease"):
        storage.delete(f"_groupledger/c/lease/{name}")
    with lease(tmp_path) as held:
        assert held.token == 1
        note_versions(storage, held, NEW)
    assert versions_before(storage, "c") == NEW


def test_a_damaged_note(tmp_path: Path) -> None:
    """Goal: a note that can't be read is named, with the remedy; one that only has to be there counts as it is."""
    storage = LocalStorage(tmp_path)
    storage.write("_groupledger/c/rebuild-4.json", "[")
    storage.write("_groupledger/c/rebuild_request-4.json", "")
    assert is_requested(storage, "c")
    with pytest.raises(OutsideError, match=r"rebuild-4\.json of the warehouse is damaged: move it out of"):
        versions_before(storage, "c")
