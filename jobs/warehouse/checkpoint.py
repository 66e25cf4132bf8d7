"""Reads a streaming checkpoint: the query's id, its last planned and last committed batch, and a batch's offsets.

Spark writes `metadata` (the id of the query, which is also its transaction id in Delta), `offsets/N` before batch N
runs and `commits/N` after it. Each `offsets/N` holds a version line, a line about the batch, and one line per source
(`OffsetSeqLog.scala`).
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.outside import moved_out
from groupledger.jobs.warehouse.storage import read_parsed

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage

LINES_BEFORE_SOURCES = 2
VERSION = re.compile(r"v[0-9]+")
NO_OFFSET = "-"


@dataclass(frozen=True)
class Checkpoint:
    """The progress of a query: the highest N of `offsets/N` (planned) and of `commits/N` (committed). Each is None
    before the first such file. `source_offset` reads the offsets themselves."""

    query_id: str
    planned_batch: int | None
    committed_batch: int | None


def read_checkpoint(storage: Storage, folder: str) -> Checkpoint | None:
    """Returns the progress in a checkpoint; None if there is no checkpoint. Raises OutsideError if its file `metadata`
    is damaged."""
    query_id = read_parsed(storage, f"{folder}/metadata", lambda text: str(json.loads(text)["id"]), _remedy(folder))
    if query_id is None:
        return None
    planned, committed = last_batch(storage, f"{folder}/offsets"), last_batch(storage, f"{folder}/commits")
    return Checkpoint(query_id=query_id, planned_batch=planned, committed_batch=committed)


def whole_checkpoint(storage: Storage, folder: str) -> Checkpoint | None:
    """Returns the same as `read_checkpoint`, for a checkpoint that Spark can continue. Raises OutsideError if a file
    that Spark would start from is damaged, if there are batches but no query id, or if a batch was committed whose plan
    is missing: Spark would plan that batch again for ever."""
    checkpoint = read_checkpoint(storage, folder)
    if checkpoint is None:
        if any(last_batch(storage, f"{folder}/{name}") is not None for name in ("offsets", "commits")):
            raise OutsideError(damaged_checkpoint(folder))
    else:
        source_offset(storage, folder, checkpoint.planned_batch)
        if checkpoint.committed_batch is not None:
            committed = f"{folder}/commits/{checkpoint.committed_batch}"
            read_parsed(storage, committed, _json_lines, _remedy(folder))
            if checkpoint.planned_batch is None or checkpoint.planned_batch < checkpoint.committed_batch:
                raise OutsideError(damaged_checkpoint(folder))
    return checkpoint


def last_batch(storage: Storage, folder: str) -> int | None:
    return max((int(name) for name in storage.names(folder) if name.isdigit()), default=None)


def source_offset(storage: Storage, folder: str, batch: int | None) -> str | None:
    """Returns the offset of the query's only source at the end of a batch, in the source's own form. Returns None if
    `batch` is None or its file is missing."""
    if batch is None:
        return None
    lines = read_parsed(storage, f"{folder}/offsets/{batch}", _offset_lines, _remedy(folder))
    return None if lines is None else lines[LINES_BEFORE_SOURCES]


def _offset_lines(text: str) -> list[str]:
    lines = _json_lines(text)
    if len(lines) <= LINES_BEFORE_SOURCES:
        raise ValueError("the source's line is missing")
    return lines


def _json_lines(text: str) -> list[str]:
    """Returns the lines of a file of Spark's. Raises ValueError if they are no version and JSON."""
    lines = text.splitlines()
    if VERSION.fullmatch(lines[0]) is None:
        raise ValueError("the version's line is missing")
    for line in lines[1:]:
        if line != NO_OFFSET:
            json.loads(line)
    return lines


def _remedy(folder: str) -> str:
    again = "history --rebuild" if folder.endswith("/history") else "ingest --recover"
    return f"{moved_out(folder)} and run `groupledger {again}`"


def damaged_checkpoint(folder: str) -> str:
    """Returns the error message for a checkpoint that Spark can't read and whose damaged file it does not name."""
    return f"A file of the checkpoint {folder} of the warehouse is damaged or gone: {_remedy(folder)}."


def set_checkpoint_aside(storage: Storage, lease: Lease, checkpoint_folder: str) -> None:
    """Renames the checkpoint if it exists, so that the next query begins a new one. Raises OutsideError if the lease is
    lost."""
    folder, name = checkpoint_folder.rsplit("/", 1)
    names = storage.names(folder)
    if name in names:
        number = sum(other.startswith(f"{name}.replaced-") for other in names) + 1
        _set_aside(storage, lease, folder, name, f"{name}.replaced-{number}")


def forget_planned_batch(storage: Storage, lease: Lease, folder: str) -> None:
    """Sets aside the plan of a batch that was not committed, so that the query plans the batch again. Raises
    OutsideError if the lease is lost."""
    checkpoint = read_checkpoint(storage, folder)
    if checkpoint is not None and checkpoint.planned_batch != checkpoint.committed_batch:
        planned = str(checkpoint.planned_batch)
        _set_aside(storage, lease, f"{folder}/offsets", planned, f".{planned}.forgotten-{uuid.uuid4().hex}")
        # Hadoop's own checksum beside it, without which it makes no new file of this name.
        storage.delete(f"{folder}/offsets/.{planned}.crc")


def _set_aside(storage: Storage, lease: Lease, folder: str, name: str, aside: str) -> None:
    """Renames a file or folder of a checkpoint.

    Spark's checkpoints have no tokens. A writer that slept until another one had its lease would set aside the
    checkpoint that its successor uses. So it checks its lease again after the renaming, and if the lease is lost,
    renames the checkpoint back.
    """
    lease.look()
    storage.rename(f"{folder}/{name}", f"{folder}/{aside}")
    try:
        lease.look()
    except OutsideError:
        if name not in storage.names(folder):
            storage.rename(f"{folder}/{aside}", f"{folder}/{name}")
        raise


def kafka_positions(offset: str | None, topic: str) -> dict[int, int]:
    """Returns, by partition, the next offset to read, from a source offset of Spark's Kafka source; an empty dict if
    `offset` is None."""
    positions = {} if offset is None else json.loads(offset)[topic]
    return {int(partition): position for partition, position in positions.items()}
