"""Finds the streaming queries that read tables of the warehouse, and the progress of each, from its checkpoint.

Maintenance must not remove rows that a reader has not read, nor the part of Delta's log that it has to read. Delta's
streaming source notes its position as `reservoirVersion` and `index` (`DeltaSourceOffset.scala`): everything below the
version is read, and the version itself if the index is not below 0. A first fold of the history, or a rebuild in units,
that is not finished has no checkpoint yet, and counts as a reader that has read nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.checkpoint import source_offset, whole_checkpoint
from groupledger.jobs.warehouse.delta_log import added_by, open_table
from groupledger.jobs.warehouse.first_fold import unfinished_first_fold
from groupledger.jobs.warehouse.rebuild_units import unfinished_units
from groupledger.jobs.warehouse.storage import STATE_FOLDER
from groupledger.schemas.instants import EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.jobs.warehouse.tables import Tables
    from groupledger.schemas.tables.table import Table

CHECKPOINTS = "_checkpoints"
HISTORY = "history"
"""The name of the checkpoint of the history's stream."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A streaming query of a cluster that reads a table. `name` is that of its checkpoint, `table_id` is Delta's id of
    the table, and `next_version` is the first version of the table that it has not read."""

    cluster: str
    name: str
    table_id: str
    next_version: int


def readers(storage: Storage) -> list[Reader]:
    """Returns the readers of all tables and clusters. A checkpoint that was set aside belongs to no reader."""
    found = []
    for cluster in storage.names(CHECKPOINTS):
        for name in storage.names(f"{CHECKPOINTS}/{cluster}"):
            reader = None if ".replaced-" in name else reader_of(storage, cluster, name)
            if reader is not None:
                found.append(reader)
    for cluster in storage.names(STATE_FOLDER):
        units = unfinished_units(storage, cluster)
        folds = (unfinished_first_fold(storage, cluster), None if units is None else units.fold)
        found += [Reader(cluster, HISTORY, fold.table_id, 0) for fold in folds if fold is not None]
    return found


def folder_of(cluster: str, name: str) -> str:
    """Returns the folder of the checkpoint with this name."""
    return f"{CHECKPOINTS}/{cluster}/{name}"


def reader_of(storage: Storage, cluster: str, name: str) -> Reader | None:
    """Returns the reader whose checkpoint has this name; None if its query does not read a Delta table, or has not
    committed a batch yet."""
    checkpoint = whole_checkpoint(storage, folder_of(cluster, name))
    return None if checkpoint is None else reader_after(storage, cluster, name, checkpoint.committed_batch)


def reader_after(storage: Storage, cluster: str, name: str, batch: int | None) -> Reader | None:
    """Returns the reader as it is, or will be, after a planned batch; None if there is no such batch, or if its query
    does not read a Delta table."""
    offset = source_offset(storage, folder_of(cluster, name), batch)
    return None if offset is None else reader_at(cluster, name, offset)


def reader_at(cluster: str, name: str, offset: str) -> Reader | None:
    """Returns the reader whose last source offset is `offset`; None if its query does not read a Delta table."""
    fields = json.loads(offset)
    if "reservoirVersion" not in fields:
        return None
    version = fields["reservoirVersion"] + (1 if fields["index"] >= 0 else 0)
    return Reader(cluster, name, fields["reservoirId"], version)


def unread_since(tables: Tables, storage: Storage, table: Table, all_readers: Sequence[Reader]) -> datetime | None:
    """Returns when the first rows were written that one of `all_readers` has not read, in UTC; None if they have read
    the whole table. Returns EPOCH if the log no longer has a version that one of them has to read."""
    found = open_table(tables.warehouse, table)
    versions = [reader.next_version for reader in all_readers if reader.table_id == str(found.metadata().id)]
    for version in range(min(versions, default=found.version() + 1), found.version() + 1):
        added = added_by(storage, table, version)
        # A version that the log no longer has is older than any downtime that is allowed.
        if added is None:
            return EPOCH
        if added.files and not added.has_replaced:
            return added.at
    return None
