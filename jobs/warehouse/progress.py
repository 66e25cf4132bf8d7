"""Keeps small files, `_groupledger/<cluster>/<name>.json`, which note how far a job has come with a table.

The file is written after the tables: if a job is killed in between, it starts again from the older file, and gets the
same result.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.warehouse.ledger import Ledger

Progress = TypeVar("Progress")
POSITIONS = "positions"
KEPT_EVERY_MS = 3_600_000
"""Stored progress may be older than the tables by less than this time; each pass reads that much again."""


def read_progress(ledger: Ledger, name: str, kind: Callable[..., Progress], remedy: str) -> Progress | None:
    """Returns the progress of the job `name`, as an instance of the dataclass `kind`; None if `note_progress` has not
    written any. A field `positions` is by partition. Raises OutsideError with the remedy if the file is damaged."""

    def parsed(text: str) -> Progress:
        fields = json.loads(text)
        if POSITIONS in fields:
            fields[POSITIONS] = {int(key): at for key, at in fields[POSITIONS].items()}
        return kind(**fields)

    return read_parsed(ledger.storage, note_path(ledger.cluster, name), parsed, remedy)


def note_progress(ledger: Ledger, name: str, progress: Any) -> None:
    ledger.storage.write(note_path(ledger.cluster, name), json.dumps(asdict(progress)))


def drop_progress(ledger: Ledger, name: str) -> None:
    """Deletes the progress of the job `name`, so that the job starts over."""
    ledger.storage.delete(note_path(ledger.cluster, name))


def note_path(cluster: str, name: str) -> str:
    """Returns the place of the progress of the job `name` in a warehouse."""
    return f"{STATE_FOLDER}/{cluster}/{name}.json"
