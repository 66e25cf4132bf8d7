"""The streaming queries that read tables of the warehouse, and how far they are, by their checkpoints.

What a reader has not read must not be removed, and the log that says what is new must not be vacuumed away from it.
Delta's streaming source notes its position as `reservoirVersion` and `index` (`DeltaSourceOffset.scala`): everything
below the version is read, and the version itself if the index is not below 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timezone
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.checkpoint import read_checkpoint, source_offset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.jobs.warehouse.tables import Tables
    from groupledger.schemas.tables.table import Table

CHECKPOINTS = "_checkpoints"
# Versions of a table in which nothing is new to a reader.
NOTHING_NEW = frozenset(
    {
        *("OPTIMIZE", "DELETE", "VACUUM START", "VACUUM END"),
        *("CREATE TABLE", "SET TBLPROPERTIES", "ADD COLUMNS", "CHANGE COLUMN", "UPGRADE PROTOCOL"),
    }
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A streaming query, and the next version of the table that it has to read."""

    cluster: str
    name: str
    table_id: str
    next_version: int


def readers(storage: Storage) -> list[Reader]:
    """Returns the readers of all tables and clusters. A checkpoint that was set aside belongs to no reader."""
    found = []
    for cluster in storage.names(CHECKPOINTS):
        for name in storage.names(f"{CHECKPOINTS}/{cluster}"):
            folder = f"{CHECKPOINTS}/{cluster}/{name}"
            checkpoint = None if ".replaced-" in name else read_checkpoint(storage, folder)
            offset = None if checkpoint is None else source_offset(storage, folder, checkpoint.committed_batch)
            reader = None if offset is None else reader_at(cluster, name, offset)
            if reader is not None:
                found.append(reader)
    return found


def reader_at(cluster: str, name: str, offset: str) -> Reader | None:
    """Returns None if the query reads no Delta table."""
    fields = json.loads(offset)
    if "reservoirVersion" not in fields:
        return None
    version = fields["reservoirVersion"] + (1 if fields["index"] >= 0 else 0)
    return Reader(cluster, name, fields["reservoirId"], version)


def unread_since(tables: Tables, table: Table, all_readers: Sequence[Reader]) -> datetime | None:
    """Returns when the first rows came that a reader of the table has not read, in UTC; None if all have read all."""
    if not all_readers:
        return None
    delta = tables.delta(table)
    (detail,) = delta.detail().select("id").collect()
    next_versions = [reader.next_version for reader in all_readers if reader.table_id == detail.id]
    if not next_versions:
        return None
    newer = delta.history().where(f"version >= {min(next_versions):d}").select("timestamp", "operation").collect()
    # Spark's rows have instants in this process's zone, without saying so.
    times = [row.timestamp.astimezone(timezone.utc) for row in newer if row.operation not in NOTHING_NEW]
    return min(times, default=None)
