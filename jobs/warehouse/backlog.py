"""Keeps the note about a backlog of the history, `backlog` (`jobs.warehouse.notes`): a micro-batch of its stream that
is too large for one fold, and is folded in units.

Spark plans the batch before its first unit is folded, and plans the same batch again after a kill. Until it is
committed, the history has read nothing of it, for maintenance as for everybody else. So this note says no more than
which of its units are folded.

A batch that was begun at once, and killed, must not go on in units: a shorter unit would not find all the rows that are
there already. So the note is written before Spark plans the batch, and taken back before that batch, or a later one, is
folded at once. A batch that was planned without a note may have been begun at once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.first_fold import REMEDY, parsed_fold
from groupledger.jobs.warehouse.notes import read_note, take_back, write_note

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.first_fold import FirstFold
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Listable, Storage

NAME = "backlog"


@dataclass(frozen=True)
class Backlog:
    """A backlog that begins with the stream's batch number `batch`. `fold` is the progress in that batch; nothing is
    done of the batches after it. `first_version` is the first version of `coordinator_records` that the very first
    batch of a stream has to fold; other batches begin where the one before them has ended."""

    batch: int
    fold: FirstFold
    first_version: int | None = None


def unfinished_backlog(storage: Listable, cluster: str) -> Backlog | None:
    """Returns the backlog that was noted and has not ended; None if there is none."""
    return read_note(storage, cluster, NAME, _parsed, REMEDY)


def note_backlog(storage: Storage, lease: Lease, backlog: Backlog) -> None:
    write_note(storage, lease, NAME, json.dumps(asdict(backlog)))


def end_backlog(storage: Storage, lease: Lease) -> None:
    """Empties the note, if there is one."""
    if unfinished_backlog(storage, lease.held) is not None:
        take_back(storage, lease, NAME)


def _parsed(text: str) -> Backlog:
    fields = json.loads(text)
    return Backlog(**{**fields, "fold": parsed_fold(fields["fold"])})
