"""Goal: a writer that slept sets no checkpoint of its successor aside, wherever it was held."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.checkpoint import forget_planned_batch, set_checkpoint_aside, whole_checkpoint
from groupledger.jobs.warehouse.storage import LocalStorage
from tests.jobs.warehouse.held_storage import HeldStorage
from tests.jobs.warehouse.test_commits import lease, taken
from tests.jobs.warehouse.test_deletions import end_lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from groupledger.jobs.warehouse.lease import Lease

FOLDER = "_checkpoints/c/coordinator_records"
WAYS: dict[str, Callable[[LocalStorage, Lease, str], None]] = {
    "set aside": set_checkpoint_aside,
    "forget a planned batch": forget_planned_batch,
}


def plan(storage: LocalStorage, batch: int, query_id: str = "q") -> None:
    storage.write(f"{FOLDER}/metadata", json.dumps({"id": query_id}))
    storage.write(f"{FOLDER}/offsets/{batch}", 'v1\n{}\n{"topic":{"0":1}}')


def succeed(warehouse: Path) -> None:
    """A successor that sets the checkpoint aside, or goes on with it, and commits the batch that was planned."""
    end_lease(warehouse)
    taken(warehouse)
    storage = LocalStorage(warehouse)
    plan(storage, 3)
    storage.write(f"{FOLDER}/commits/3", "v1\n{}")


@pytest.mark.parametrize("way", WAYS)
def test_a_writer_that_sleeps(tmp_path: Path, way: str) -> None:
    """Goal: after the sleeper the successor's checkpoint is whole, with the batch that the successor has committed."""
    calls = 0
    while True:
        warehouse = tmp_path / str(calls)
        storage = HeldStorage(warehouse)
        with suppress(OutsideError), lease(warehouse) as held:
            plan(storage, 3)
            storage.hold(calls, partial(succeed, warehouse))
            WAYS[way](storage, held, FOLDER)
        if not storage.has_slept:
            break
        found = whole_checkpoint(storage, FOLDER)
        assert found is not None
        assert (found.planned_batch, found.committed_batch) == (3, 3)
        calls += 1
    assert calls > 1


def test_what_is_set_aside(tmp_path: Path) -> None:
    """Goal: the next query begins anew, or plans its batch again; a batch that was committed stays planned."""
    storage = LocalStorage(tmp_path)
    with lease(tmp_path) as held:
        plan(storage, 3)
        storage.write(f"{FOLDER}/offsets/.3.crc", "")
        forget_planned_batch(storage, held, FOLDER)
        found = whole_checkpoint(storage, FOLDER)
        assert found is not None
        assert (found.planned_batch, found.committed_batch) == (None, None)
        assert ".3.crc" not in storage.names(f"{FOLDER}/offsets")
        plan(storage, 3)
        storage.write(f"{FOLDER}/commits/3", "v1\n{}")
        forget_planned_batch(storage, held, FOLDER)
        assert "3" in storage.names(f"{FOLDER}/offsets")
        for number in (1, 2):
            plan(storage, 3)
            set_checkpoint_aside(storage, held, FOLDER)
            assert whole_checkpoint(storage, FOLDER) is None
            assert f"coordinator_records.replaced-{number}" in storage.names("_checkpoints/c")


@pytest.mark.parametrize("kept", ["offsets", "commits"])
def test_batches_without_the_id_of_their_query(tmp_path: Path, kept: str) -> None:
    """Goal: a checkpoint that has lost its `metadata` is damaged, and no new one: Spark refuses to continue it."""
    storage = LocalStorage(tmp_path)
    assert whole_checkpoint(storage, FOLDER) is None
    storage.write(f"{FOLDER}/{kept}/0", "v1\n{}")
    with pytest.raises(OutsideError, match="is damaged or gone: move the folder"):
        whole_checkpoint(storage, FOLDER)
