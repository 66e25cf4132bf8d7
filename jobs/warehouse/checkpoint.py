"""Reads a streaming checkpoint: the query's id, and the offsets up to which batches were planned and committed.

Spark writes `metadata` (the id of the query, which is also its transaction id in Delta), `offsets/N` before batch N
runs and `commits/N` after it. Each `offsets/N` holds a version line, a line about the batch, and one line per source
(`OffsetSeqLog.scala`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.storage import Storage

LINES_BEFORE_SOURCES = 2


@dataclass(frozen=True)
class Checkpoint:
    """How far a query has come; `planned_batch` and `committed_batch` are None before the first batch."""

    query_id: str
    planned_batch: int | None
    committed_batch: int | None


def read_checkpoint(storage: Storage, folder: str) -> Checkpoint | None:
    """Returns what the checkpoint says, or None if there is none."""
    metadata = storage.read(f"{folder}/metadata")
    if metadata is None:
        return None
    return Checkpoint(
        query_id=json.loads(metadata)["id"],
        planned_batch=last_batch(storage, f"{folder}/offsets"),
        committed_batch=last_batch(storage, f"{folder}/commits"),
    )


def last_batch(storage: Storage, folder: str) -> int | None:
    return max((int(name) for name in storage.names(folder) if name.isdigit()), default=None)


def source_offset(storage: Storage, folder: str, batch: int | None) -> str | None:
    """Returns where the query's one source stands at the end of a batch, in the source's own form."""
    text = None if batch is None else storage.read(f"{folder}/offsets/{batch}")
    return None if text is None else text.splitlines()[LINES_BEFORE_SOURCES]


def forget_planned_batch(storage: Storage, folder: str) -> None:
    """Makes the query plan its next batch again, if the batch that it had planned was not committed."""
    checkpoint = read_checkpoint(storage, folder)
    if checkpoint is not None and checkpoint.planned_batch != checkpoint.committed_batch:
        storage.delete(f"{folder}/offsets/{checkpoint.planned_batch}")
        # Hadoop's own checksum beside it, without which it makes no new file of this name.
        storage.delete(f"{folder}/offsets/.{checkpoint.planned_batch}.crc")


def kafka_positions(offset: str | None, topic: str) -> dict[int, int]:
    """Returns per partition the next offset to read of a Kafka source; it is empty before the first batch."""
    positions = {} if offset is None else json.loads(offset)[topic]
    return {int(partition): position for partition, position in positions.items()}
