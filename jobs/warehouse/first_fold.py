"""Keeps the note about a first fold of the history that is not finished, `first_fold` (`jobs.warehouse.notes`).

While it exists, the tables of the history end somewhere in the past, and differently for each group: nobody may answer
from them as if they were the present. And the fold still needs the records, so that maintenance must not remove any.

A fold in units notes a unit before it writes its rows, and that the unit is folded when it notes the next one. A unit
that was broken off is folded again up to the same offsets: only then does each row find the one that is there already.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.known_until import noted_until
from groupledger.jobs.warehouse.notes import read_note, take_back, write_note
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Listable, Storage

NAME = "first_fold"
REMEDY = "move it out of the warehouse and run `groupledger history --rebuild`"


@dataclass(frozen=True)
class FirstFold:
    """The progress of a fold of all of `coordinator_records`, which has the id `table_id` in Delta. By partition, all
    records before the offset in `folded` are folded, in number `record_count`. The unit that is being folded ends
    before the offsets in `unit`. Both are empty if everything is folded at once."""

    table_id: str
    folded: Mapping[int, int] = field(default_factory=dict)
    unit: Mapping[int, int] = field(default_factory=dict)
    record_count: int = 0

    @property
    def is_in_units(self) -> bool:
        return bool(self.folded or self.unit)


def unfinished_first_fold(storage: Listable, cluster: str) -> FirstFold | None:
    """Returns the progress of a first fold that was begun and not finished; None if there is no such fold."""
    return read_note(storage, cluster, NAME, lambda text: parsed_fold(json.loads(text)), REMEDY)


def is_history_made(storage: Listable, cluster: str) -> bool:
    """Returns whether the tables of the history, if there are any, are those of a first fold that has ended."""
    return noted_until(storage, cluster, Source.HISTORY) is not None or unfinished_first_fold(storage, cluster) is None


def note_first_fold(storage: Storage, lease: Lease, progress: FirstFold) -> None:
    write_note(storage, lease, NAME, json.dumps(asdict(progress)))


def first_fold_is_done(storage: Storage, lease: Lease) -> None:
    """Empties the note, if there is one: from now on the stream's checkpoint says how far the history is."""
    if unfinished_first_fold(storage, lease.held) is not None:
        take_back(storage, lease, NAME)


def parsed_fold(fields: Mapping[str, Any]) -> FirstFold:
    """Returns the progress that a note has as JSON."""
    by_partition = {name: {int(key): at for key, at in fields[name].items()} for name in ("folded", "unit")}
    return FirstFold(**{**fields, **by_partition})
